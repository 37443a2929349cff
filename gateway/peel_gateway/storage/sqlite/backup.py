# SPDX-License-Identifier: MIT
"""Copies of a database, consistent and checked, whether a gateway writes to it or not. No existing file is ever replaced."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from peel_gateway.files import new_file
from peel_gateway.storage.sqlite.errors import translated
from peel_gateway.storage.sqlite.files import live_files, refuse_replaced
from peel_gateway.storage.store import StoreFailed

__all__ = ["copy_database", "save_copy", "set_aside"]

_PAGES = 1024
"""Copied at a time, so that a gateway can write in between."""

Check = Callable[[Path], None]


def copy_database(source: Path, target: Path, check: Check) -> None:
    """Copy a file into a new one; see `save_copy`."""
    refuse_replaced(source)
    with translated(source), closing(sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)) as old:
        save_copy(old, target, check)


def save_copy(source: sqlite3.Connection, target: Path, check: Check) -> None:
    """Write a copy that only its owner can read. It gets its name once `check` has passed, unless a file has that name."""
    try:
        with new_file(target) as temporary:
            with closing(sqlite3.connect(temporary)) as new:
                source.backup(new, pages=_PAGES)
                new.execute("PRAGMA journal_mode = DELETE")  # one file, nothing beside it
            check(temporary)
    except FileExistsError:
        raise StoreFailed(f"{target}: exists already and is not overwritten; choose a new name") from None
    except OSError as error:
        raise StoreFailed(f"{target}: cannot be written: {error.strerror}") from None


def set_aside(database: Path, aside: Path) -> None:
    """Rename a database, with what SQLite keeps beside it, to names that no file has."""
    names = dict(zip(live_files(database), live_files(aside), strict=True))
    for part, name in names.items():
        if part.exists():
            part.rename(name)
