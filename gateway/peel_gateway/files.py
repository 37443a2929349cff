# SPDX-License-Identifier: MIT
"""Writing files so that a reader sees the old content or the new, never half of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["make_private", "sync_folder", "write_atomically"]


def write_atomically(path: Path, text: str | Iterable[str], *, mode: int = 0o600) -> None:
    """Replace a file's content durably, in pieces if it is long; the file never has a wider mode than `mode`."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.writelines([text] if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Bring a folder's entries to disk: files that were made, renamed or removed in it."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read, unless there is a file already; whoever opens it then keeps its mode."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return  # it is there, or whoever opens it says better what is wrong
