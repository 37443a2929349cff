# SPDX-License-Identifier: MIT
"""A working folder per build, with copies of the repository's inputs in it.

Builds run in the cache on copies, so that they never write into the repository and do not depend on where it lies; files that have not
changed keep their times, so that make rebuilds only what did.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from peel_tools.boards.cache import REPOSITORY, cache_root

__all__ = ["copy_products", "file_map", "workspace", "write_if_changed"]


def file_map(files: list[Path]) -> dict[str, Path]:
    """Paths below the repository's root -> files."""
    return {str(file.relative_to(REPOSITORY)): file for file in files}


@contextlib.contextmanager
def workspace(name: str, identity: str, inputs: Mapping[str, Path | str]) -> Iterator[Path]:
    """The folder work/<name>-<identity>, locked, holding exactly these inputs (files, or texts) below inputs/."""
    folder = cache_root() / "work" / f"{name}-{identity}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        _synchronise(folder / "inputs", inputs)
        yield folder


def _synchronise(folder: Path, inputs: Mapping[str, Path | str]) -> None:
    for name, source in inputs.items():
        content = source.encode() if isinstance(source, str) else source.read_bytes()
        write_if_changed(folder / name, content)
    for path in list(folder.rglob("*")):
        if path.is_file() and str(path.relative_to(folder)) not in inputs:
            path.unlink()


def write_if_changed(path: Path, content: bytes) -> None:
    """Write a file unless it holds this content already."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    temporary.write_bytes(content)
    temporary.replace(path)


def copy_products(names: Mapping[str, Path], folder: Path) -> None:
    """Copy build products under their published names."""
    for name, path in names.items():
        shutil.copy(path, folder / name)
