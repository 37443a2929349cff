# SPDX-License-Identifier: MIT
"""The project's files that git tracks."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["ROOT", "name_of", "tracked"]

ROOT = Path(__file__).resolve().parents[2]


def tracked(*patterns: str) -> list[Path]:
    """Return the tracked files that match patterns such as `*.md`, or all of them."""
    command = ["git", "ls-files", "-z", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).exists()]


def name_of(path: Path) -> str:
    """Return the path relative to the top of the project."""
    return path.relative_to(ROOT).as_posix()
