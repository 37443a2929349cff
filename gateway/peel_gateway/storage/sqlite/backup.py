# SPDX-License-Identifier: MIT
"""Copies of a database, as of one moment, whether a gateway writes to it or not."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from peel_gateway.storage.sqlite.errors import translated
from peel_gateway.storage.store import StoreFailed

__all__ = ["copy_database", "set_aside"]

_PAGES = 1024
"""At a time, so that a gateway can write in between."""


def copy_database(source: Path, target: Path) -> None:
    """Write a copy that only its owner can read; the file has its name when it is complete."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise StoreFailed(f"{target}: cannot be written: {error.strerror}") from None
    os.close(descriptor)
    try:
        with (
            translated(source),
            closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as old,
            closing(sqlite3.connect(temporary)) as new,
        ):
            old.backup(new, pages=_PAGES)
            new.execute("PRAGMA journal_mode = DELETE")  # one file, nothing beside it
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def set_aside(database: Path, aside: Path) -> None:
    """Rename a database, with what SQLite keeps beside it."""
    for end in ("", "-wal", "-shm"):
        part = database.with_name(database.name + end)
        if part.exists():
            part.rename(aside.with_name(aside.name + end))
