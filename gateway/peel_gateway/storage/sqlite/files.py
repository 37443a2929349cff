# SPDX-License-Identifier: MIT
"""The files of an SQLite database: names, identity, the gateway's lock, and copies.

Copies are consistent and checked, also while a gateway writes. They never replace an existing file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from peel_gateway.files import new_file, write_atomically
from peel_gateway.storage.sqlite.connection import translated
from peel_gateway.storage.store import StoreFailed, StoreLocked, StoreReplaced

__all__ = [
    "GatewayLock",
    "copy_database",
    "identify",
    "live_files",
    "own_files",
    "read_marks",
    "refuse_replaced",
    "rename_database",
    "save_copy",
    "unused_name",
    "verify_files",
    "write_marks",
]

Identity = tuple[int, int]
"""Device and inode, which tell a file from another with the same name."""

_LIVE = ("-wal", "-shm")
"""Suffixes of the files that SQLite keeps beside an open database."""

_LOCK_SECONDS = 2.0
"""Time to wait for the lock: a command may hold it for a moment."""

_POLL_SECONDS = 0.05


def _beside(database: Path, end: str) -> Path:
    """Return a file name beside a database, as SQLite does: after resolving symbolic links."""
    real = database.resolve()
    return real.with_name(real.name + end)


def live_files(database: Path) -> tuple[Path, ...]:
    """Return the files that hold committed data while the database is open."""
    return database, *(_beside(database, end) for end in _LIVE)


def own_files(database: Path) -> tuple[Path, ...]:
    """Return all names that belong to a database, whether the files exist or not."""
    return *live_files(database), _beside(database, "-journal"), _lock_file(database), _mark_file(database)


def _lock_file(database: Path) -> Path:
    return _beside(database, ".lock")


def _mark_file(database: Path) -> Path:
    return _beside(database, ".mark")


def read_marks(database: Path) -> frozenset[int]:
    """Return the marks that the file beside a database has; none if it cannot be read."""
    try:
        return frozenset(map(int, json.loads(_mark_file(database).read_text(encoding="ascii"))))
    except (OSError, ValueError, TypeError):
        return frozenset()


def write_marks(database: Path, marks: Sequence[int]) -> None:
    """Replace the marks beside a database; they are on disk when this returns."""
    path = _mark_file(database)
    try:
        write_atomically(path, json.dumps(list(marks)) + "\n")
    except OSError as error:
        raise StoreFailed(f"{path}: cannot be written: {error.strerror}; check the folder and the disk") from None


def unused_name(database: Path, why: str) -> Path:
    """Return an unused file name beside a database, made of its name, `why` and the time."""
    stem = f"{database.name}.{why}-{time.strftime('%Y%m%dT%H%M%S')}"
    names = (database.with_name(f"{stem}{f'-{place}' if place else ''}") for place in range(1000))
    return next(name for name in names if not os.path.lexists(name))


def identify(file: Path) -> Identity | None:
    """Return the identity of the file with this name, or None."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def verify_files(opened: Mapping[Path, Identity | None]) -> None:
    """Raise `StoreReplaced` unless each name still belongs to the file that was opened under it."""
    for file, identity in opened.items():
        if identify(file) != identity:
            raise _replaced(file)


def _replaced(file: Path) -> StoreReplaced:
    return StoreReplaced(
        f"{file}: was moved, replaced or deleted while the gateway uses it. Nothing more is stored or acknowledged. "
        "Move the same file back; or stop the gateway, which saves what it has stored in a new file, and restore that"
    )


class GatewayLock:
    """Keeps a second gateway off a database, until `close` or the end of the process.

    It locks a file beside the database, because closing a descriptor of the database itself would drop SQLite's own locks.
    """

    def __init__(self, database: Path) -> None:
        self._descriptor = _open_lock(database, os.O_CREAT)
        deadline = time.monotonic() + _LOCK_SECONDS
        while not _lock(self._descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                process = _read_holder(self._descriptor).get("process", "unknown")
                self.close()
                raise StoreLocked(
                    f"{database}: a gateway already runs on this database (process {process}). "
                    "Stop it first, or choose another store.path"
                )
            time.sleep(_POLL_SECONDS)
        self.note(None)

    def note(self, identity: Identity | None) -> None:
        """Write the process and its open file into the lock file."""
        with contextlib.suppress(OSError):  # the disk may be full; the lock works without it
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps({"process": os.getpid(), "file": identity}).encode(), 0)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def refuse_replaced(database: Path) -> None:
    """Raise `StoreReplaced` if a gateway runs here whose file no longer has this name.

    Opening the new file would mix it with the write-ahead log of the former one.
    """
    try:
        descriptor = _open_lock(database)
    except StoreFailed:
        return  # no gateway has run here, or the database cannot be opened either
    try:
        if not _lock(descriptor, fcntl.LOCK_SH):
            opened = _read_holder(descriptor).get("file")
            if opened is not None and identify(database) != tuple(opened):
                raise _replaced(database)
    finally:
        os.close(descriptor)


def _open_lock(database: Path, flags: int = 0) -> int:
    path = _lock_file(database)
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
    except OSError as error:
        raise StoreFailed(f"{path}: cannot be opened: {error.strerror}; check the folder, its owner and mode") from None


def _lock(descriptor: int, kind: int) -> bool:
    """Take a lock without waiting; return whether it was free."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_holder(descriptor: int) -> Mapping[str, Any]:
    """Return what the lock's holder has written; empty while it is writing."""
    try:
        found: Mapping[str, Any] = json.loads(os.pread(descriptor, 1000, 0))
    except ValueError:
        return {}
    return found


_PAGES = 1024
"""Pages copied at a time, so that a gateway can write in between."""

Check = Callable[[Path], object]


def copy_database(source: Path, target: Path, check: Check, *, in_use: bool = True) -> None:
    """Copy a database file; see `save_copy`. Only a file that is not in use can be read without new files beside it."""
    refuse_replaced(source)
    alone = not in_use and not any(_beside(source, end).exists() for end in ("-wal", "-journal"))
    address = f"{source.resolve().as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
    with translated(source), closing(sqlite3.connect(address, uri=True)) as old:
        save_copy(old, target, check)


def save_copy(source: sqlite3.Connection, target: Path, check: Check) -> None:
    """Write a copy that only its owner can read. It gets its name after `check` has passed; an existing file is an error."""
    try:
        with new_file(target) as temporary:
            with closing(sqlite3.connect(temporary)) as new:
                source.backup(new, pages=_PAGES)
                new.execute("PRAGMA journal_mode = DELETE")  # a single file
            check(temporary)
    except FileExistsError:
        raise StoreFailed(f"{target}: exists already and is not overwritten; choose a new name") from None
    except OSError as error:
        raise StoreFailed(f"{target}: cannot be written: {error.strerror}") from None


def rename_database(database: Path, former: Path) -> None:
    """Rename a database and the files that SQLite keeps beside it."""
    names = dict(zip(live_files(database), live_files(former), strict=True))
    for part, name in names.items():
        if part.exists():
            part.rename(name)
