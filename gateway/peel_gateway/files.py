# SPDX-License-Identifier: MIT
"""Writing files so that a reader sees the old content or the new, never half of it."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["make_private", "new_file", "sync_folder", "write_atomically"]


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


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Hand out an empty private file beside `path`, which gets that name on a clean exit and is deleted otherwise.

    An existing file is never replaced: FileExistsError, at once where it is already there.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # FAT: take the name, then the place
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""What file systems without hard links say."""


def sync_folder(folder: Path) -> None:
    """Bring a folder's entries to disk: files that were made, renamed or removed in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read, unless there is a file already; whoever opens it then keeps its mode."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return  # it is there, or whoever opens it says better what is wrong
