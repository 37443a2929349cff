# SPDX-License-Identifier: MIT
"""Things that only root may do."""

from __future__ import annotations

import os
import shutil
import subprocess


def as_root(*command: str) -> bool:
    """Run a command, through sudo if we are not root; whether it went well."""
    sudo = ["sudo", "-n"] if os.getuid() and shutil.which("sudo") else []
    return subprocess.run([*sudo, *command], check=False, capture_output=True).returncode == 0
