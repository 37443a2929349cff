# SPDX-License-Identifier: MIT
"""Take the version from peel.h, like the main package."""

import re
from pathlib import Path

from setuptools import setup

HEADER = Path(__file__).resolve().parents[2] / "c_core" / "include" / "peel.h"
setup(version=re.findall(r'^#define PEEL_CORE_VERSION "(.+)"$', HEADER.read_text(), flags=re.M)[0])
