# SPDX-License-Identifier: MIT
"""The tables in an SQLite file: how they are made, recognised and checked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from peel_gateway.storage.sql.log import verify_log
from peel_gateway.storage.sql.rows import verify_states
from peel_gateway.storage.sql.schema import META, Words, tables
from peel_gateway.storage.sql.upgrade import schema_version
from peel_gateway.storage.sqlite.connection import SqliteConnection
from peel_gateway.storage.store import StoreCorrupt

__all__ = ["APPLICATION_ID", "WORDS", "find_damage", "is_empty", "make_tables", "run_script"]

APPLICATION_ID = 0x5045454C
"""`PEEL` in `PRAGMA application_id` tells our files from others; `user_version` is the schema's version."""

WORDS = Words(
    int="INTEGER",
    blob="BLOB",
    share="",
    by_share="",
    clustered=" WITHOUT ROWID",
    identity="INTEGER PRIMARY KEY AUTOINCREMENT",
    identity_key="",
)


def is_empty(raw: sqlite3.Connection, path: Path) -> bool:
    """Return whether a file has no tables yet; refuse a database that is not ours."""
    (application,) = raw.execute("PRAGMA application_id").fetchone()
    (count,) = raw.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if count and application != APPLICATION_ID:
        raise StoreCorrupt(f"{path}: an SQLite database, but not a Peel one; choose another path")
    return not count


def make_tables(raw: sqlite3.Connection, bucket_seconds: int) -> None:
    """Make all tables of the current version within the caller's transaction."""
    run_script(raw, tables(WORDS))
    raw.executemany(
        "INSERT INTO meta VALUES (?, ?)", {**dict.fromkeys(META, 0), "bucket_seconds": bucket_seconds}.items()
    )
    raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    raw.execute(f"PRAGMA user_version = {schema_version()}")


def find_damage(connection: SqliteConnection) -> list[str]:
    """Return what is wrong with a database, as far as it shows without the fleet's keys."""
    problems = [row[0] for row in connection.raw.execute("PRAGMA integrity_check(10)") if row[0] != "ok"]
    return [*problems, *verify_log(connection), *verify_states(connection)]


def run_script(raw: sqlite3.Connection, script: str) -> None:
    """Execute statements one by one: `executescript` would commit the transaction it runs in."""
    for statement in _statements(script):
        raw.execute(statement)


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
