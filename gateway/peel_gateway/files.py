# SPDX-License-Identifier: MIT
"""Write files so that a reader sees the old content or the new, never a part."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = [
    "foreign_owner",
    "make_private",
    "new_file",
    "remove_leftovers",
    "sync_folder",
    "temporary_file",
    "write_atomically",
    "write_together",
]

_PREFIX = ".peel-tmp-"
_SYNCS = 32


@contextmanager
def temporary_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file, mode 0600, that takes the name `path` when the block ends, and is removed when it fails.

    The open file is locked, so that `remove_leftovers` can tell it from one whose process was killed.
    """
    descriptor, name = _locked_temporary(path)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _locked_temporary(path: Path) -> tuple[int, str]:
    while True:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{_PREFIX}{path.name}.")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)  # removed by another process between the two calls


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of killed processes from a folder: they may hold keys."""
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # renamed or removed meanwhile, or another user's
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError while its writer lives
                path.unlink()
            finally:
                os.close(descriptor)


def write_atomically(path: Path, text: str | Iterable[str], *, mode: int = 0o600) -> None:
    """Replace a file's content durably, in pieces if it is long. The file never has a wider mode than `mode`."""
    with temporary_file(path) as file:
        os.fchmod(file.fileno(), mode)
        file.writelines(piece.encode() for piece in ([text] if isinstance(text, str) else text))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def write_together(texts: Mapping[Path, str]) -> None:
    """Write private files durably, each whole or not at all. They are synced in parallel, which takes hardly longer than one sync."""
    with ExitStack() as open_files:
        descriptors = []
        for path, text in texts.items():
            file = open_files.enter_context(temporary_file(path))
            file.write(text.encode())
            file.flush()
            descriptors.append(file.fileno())
        with ThreadPoolExecutor(_SYNCS) as pool:
            list(pool.map(os.fsync, descriptors))
        # leaving the block gives the files their names
    for folder in {path.parent for path in texts}:
        sync_folder(folder)


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
            os.close(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            )  # FAT: reserve the name, then replace the file
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""Errors of file systems without hard links."""


def sync_folder(folder: Path) -> None:
    """Make created, renamed and removed entries of a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def foreign_owner(path: Path) -> str:
    """Return why this process must not write beside `path`: another user owns that file. Empty if it is ours, or not there."""
    try:
        owner = path.stat().st_uid
    except OSError:
        return ""
    if owner == os.geteuid():
        return ""
    return (
        f"{path}: belongs to {_user(owner)}, and this command runs as {_user(os.geteuid())}: the gateway could not read what it "
        f"writes. Run it as that user: runuser -u {_user(owner)} -- peel ..."
    )


def _user(number: int) -> str:
    """Return a user's name; `#` and the number where it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"


def make_private(path: Path) -> None:
    """Create an empty file that only its owner may read, unless the file exists. A program that opens it keeps the mode."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return  # it exists, or opening it reports the error
