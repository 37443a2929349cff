# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say: the version, which the C header has, and the cffi extension."""

import re
from pathlib import Path

from setuptools import setup


def version() -> str:
    """The version of everything, from the one file that can be used without any build."""
    header = Path(__file__).parent / "c_core" / "include" / "peel.h"
    return re.findall(r'^#define PEEL_CORE_VERSION "(.+)"$', header.read_text(), flags=re.M)[0]


setup(version=version(), cffi_modules=["bindings/host/build_core.py:ffi"])
