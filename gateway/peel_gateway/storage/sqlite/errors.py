# SPDX-License-Identifier: MIT
"""SQLite's errors as the store's: what happened, to which file, and what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peel_gateway.storage.store import StoreCorrupt, StoreError, StoreFailed, StoreFull, StoreLocked, StoreRejected

__all__ = ["translated"]

_PRIMARY_CODE = 0xFF
_REJECTED = (StoreRejected, "the database rejected the data")
_ADVICE: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_FULL: (StoreFull, "the disk is full; free some space, nothing was lost"),
    sqlite3.SQLITE_BUSY: (StoreLocked, "another process holds the database; stop it or wait"),
    sqlite3.SQLITE_LOCKED: (StoreLocked, "another process holds the database; stop it or wait"),
    sqlite3.SQLITE_CORRUPT: (
        StoreCorrupt,
        "the database is damaged; it is left as it is: move it aside and restore a copy",
    ),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "not an SQLite database; it is left as it is: choose another path"),
    sqlite3.SQLITE_READONLY: (StoreFailed, "the database cannot be written; check its owner and mode"),
    sqlite3.SQLITE_CANTOPEN: (StoreFailed, "the database cannot be opened; check the folder, its owner and mode"),
    sqlite3.SQLITE_IOERR: (StoreFailed, "the disk reported an error; check it before going on"),
    sqlite3.SQLITE_CONSTRAINT: _REJECTED,
    sqlite3.SQLITE_MISMATCH: _REJECTED,
    sqlite3.SQLITE_TOOBIG: _REJECTED,
}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn SQLite's errors within into `StoreError`s that name the file."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        kind, advice = _ADVICE.get(code, (StoreFailed, "unexpected database error"))
        raise kind(f"{path}: {advice} ({error})") from error
