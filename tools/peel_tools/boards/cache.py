# SPDX-License-Identifier: MIT
"""The cache of build products, and a working folder per build.

A product is named by a digest of everything that went into it. Builds run in the cache on copies of the repository's files, so
that they never write into the repository. Files that have not changed keep their times, so make rebuilds only what did."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from peel_tools.boards.build_tools import BuildError

__all__ = [
    "REPOSITORY",
    "cache_root",
    "cached",
    "copy_products",
    "digest",
    "file_map",
    "repository_files",
    "require_checkout",
    "workspace",
    "write_if_changed",
]

REPOSITORY = Path(__file__).resolve().parents[3]

_STAMP = ".complete"
_KEPT = 12
_KEY = re.compile(r"[0-9a-f]{20}")


def cache_root() -> Path:
    """Return the cache folder: $PEEL_CACHE, or peel/ in the user's cache folder, which all clones share."""
    chosen = os.environ.get("PEEL_CACHE")
    if chosen:
        return Path(chosen).resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "peel"


def require_checkout() -> None:
    """Raise BuildError in an installed package, which has no sources to build from."""
    if not (REPOSITORY / "c_core").is_dir():
        raise BuildError(
            "the sources are not part of the installed package. Clone the project's repository, run "
            "`scripts/setup base firmware` in it, and use its `.venv/bin/peel`."
        )


def repository_files(*folders: str, suffixes: tuple[str, ...]) -> list[Path]:
    """Return all files with one of the suffixes below folders of the repository, in a fixed order."""
    found = (path for folder in folders for path in (REPOSITORY / folder).rglob("*") if path.suffix in suffixes)
    return sorted(path for path in found if path.is_file())


def digest(parts: Iterable[str | bytes | Path]) -> str:
    """Return a name for these inputs: strings and bytes count by value, files by name and content."""
    state = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            content, label = part.read_bytes(), f"file {part.name}".encode()
        else:
            content, label = (part.encode() if isinstance(part, str) else part), b"value"
        state.update(label + b"\0" + len(content).to_bytes(8, "little") + content)
    return state.hexdigest()[:20]


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock, so that two builds of the same thing wait for each other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def cached(name: str, key: str, build: Callable[[Path], None]) -> Path:
    """Return the folder that build(folder) fills. It is built once per key; a failed build is repeated at the next call."""
    folder = cache_root() / f"{name}-{key}"
    if (folder / _STAMP).exists():
        (folder / _STAMP).touch()  # so that it is not pruned soon
        return folder
    with _locked(cache_root() / "locks" / f"{name}.lock"):
        if not (folder / _STAMP).exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            build(folder)
            (folder / _STAMP).touch()
            _prune(name)
    return folder


def _prune(name: str) -> None:
    """Remove all but the most recently used products of this name."""
    stamps = [
        stamp for stamp in cache_root().glob(f"{name}-*/{_STAMP}") if _KEY.fullmatch(stamp.parent.name, len(name) + 1)
    ]
    for stamp in sorted(stamps, key=lambda stamp: stamp.stat().st_mtime)[:-_KEPT]:
        shutil.rmtree(stamp.parent, ignore_errors=True)


def file_map(files: list[Path]) -> dict[str, Path]:
    """Return files by their path below the repository's root."""
    return {str(file.relative_to(REPOSITORY)): file for file in files}


@contextlib.contextmanager
def workspace(name: str, identity: str, inputs: Mapping[str, Path | str]) -> Iterator[Path]:
    """Yield the folder work/<name>-<identity>, locked, with exactly these inputs (files or texts) below inputs/."""
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
    """Write a file unless it has this content already."""
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
