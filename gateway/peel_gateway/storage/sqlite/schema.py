# SPDX-License-Identifier: MIT
"""Create, recognise, check and upgrade the tables in an SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from peel_gateway.storage.sql.log import verify_log
from peel_gateway.storage.sql.rollups import verify_rollups
from peel_gateway.storage.sql.rows import verify_states
from peel_gateway.storage.sql.schema import META, Upgraded, Words, run_steps, schema_version, steps_from, tables
from peel_gateway.storage.sqlite.connection import SqliteConnection, translated
from peel_gateway.storage.sqlite.files import GatewayLock, copy_database, unused_name
from peel_gateway.storage.store import StoreCorrupt

__all__ = [
    "APPLICATION_ID",
    "WORDS",
    "check_old",
    "find_damage",
    "is_empty",
    "make_tables",
    "run_script",
    "upgrade_file",
    "version_of",
]

APPLICATION_ID = 0x5045454C
"""`PEEL` in `PRAGMA application_id` marks our files; `user_version` is the schema version."""

WORDS = Words(
    int="INTEGER",
    blob="BLOB",
    partition="",
    by_partition="",
    clustered=" WITHOUT ROWID",
    identity="INTEGER PRIMARY KEY AUTOINCREMENT",
    identity_key="",
)


def is_empty(raw: sqlite3.Connection, path: Path) -> bool:
    """Return whether a file has no tables yet; raise for a database of another program."""
    (application,) = raw.execute("PRAGMA application_id").fetchone()
    (count,) = raw.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if count and application != APPLICATION_ID:
        raise StoreCorrupt(f"{path}: an SQLite database, but not a Peel one; choose another path")
    return not count


def make_tables(raw: sqlite3.Connection, bucket_seconds: int) -> None:
    """Create all tables within the caller's transaction."""
    run_script(raw, tables(WORDS))
    raw.executemany(
        "INSERT INTO meta VALUES (?, ?)", {**dict.fromkeys(META, 0), "bucket_seconds": bucket_seconds}.items()
    )
    raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    raw.execute(f"PRAGMA user_version = {schema_version()}")


def find_damage(connection: SqliteConnection) -> list[str]:
    """Return a message for each problem that shows without the fleet's keys."""
    problems = [row[0] for row in connection.raw.execute("PRAGMA integrity_check(10)") if row[0] != "ok"]
    return [*problems, *verify_log(connection), *verify_states(connection), *verify_rollups(connection)]


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


def version_of(path: Path) -> int:
    """Return the schema version of a file; raise if it is not a Peel database, or newer than this gateway."""
    with translated(path), closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as raw:
        return _version(raw, path)


def _version(raw: sqlite3.Connection, path: Path) -> int:
    if is_empty(raw, path):
        raise StoreCorrupt(f"{path}: has no tables; the gateway creates them when it starts on this file")
    (version,) = raw.execute("PRAGMA user_version").fetchone()
    steps_from(version, path)
    return int(version)


def check_old(path: Path) -> None:
    """Run SQLite's integrity check on a file of an older version."""
    with translated(path), closing(sqlite3.connect(path)) as raw:
        _refuse_damage([row[0] for row in raw.execute("PRAGMA integrity_check(10)") if row[0] != "ok"], path)


def _refuse_damage(problems: list[str], path: Path) -> None:
    if problems:
        raise StoreCorrupt(f"{path}: damaged: {'; '.join(problems)}; restore a copy")


def upgrade_file(path: Path, timeout: float) -> Upgraded:
    """Copy a file, then upgrade it in one transaction. Raise if a gateway runs on it; after any error it is unchanged."""
    with (
        GatewayLock(path),
        translated(path),
        closing(sqlite3.connect(path, timeout=timeout, isolation_level=None)) as raw,
    ):
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("BEGIN IMMEDIATE")  # closing rolls back what is not committed
        before = _version(raw, path)
        steps = steps_from(before, path)
        if not steps:
            return Upgraded(str(path), before, steps, None)
        backup = unused_name(path, f"version-{before}")
        copy_database(path, backup, check_old)
        connection = SqliteConnection(raw)
        run_steps(steps, WORDS, lambda script: run_script(raw, script), connection.scopes())
        _refuse_damage(find_damage(connection), path)
        upgraded = Upgraded(str(path), before, steps, backup)
        raw.execute(f"PRAGMA user_version = {upgraded.after}")
        raw.execute("COMMIT")
    return upgraded
