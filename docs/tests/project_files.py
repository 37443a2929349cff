# SPDX-License-Identifier: MIT
"""The project's files that git tracks, and the imports of its modules."""

from __future__ import annotations

import ast
import functools
import subprocess
from pathlib import Path

__all__ = ["ROOT", "imports", "name_of", "packages", "tracked"]

ROOT = Path(__file__).resolve().parents[2]


def tracked(*patterns: str) -> list[Path]:
    """Return the tracked files that match patterns such as `*.md`, or all of them."""
    command = ["git", "ls-files", "-z", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).exists()]


def name_of(path: Path) -> str:
    """Return the path relative to the top of the project."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def imports(path: Path) -> frozenset[str]:
    """Return the dotted names that a module imports anywhere; those of relative imports begin with a dot."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names}
    return frozenset(found)


def packages(path: Path) -> set[str]:
    """Return the top-level packages that a module imports anywhere."""
    return {name.partition(".")[0] for name in imports(path)}
