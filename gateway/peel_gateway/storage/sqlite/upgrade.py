# SPDX-License-Identifier: MIT
"""The upgrade of an SQLite file: a copy first, then all steps in one transaction."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from peel_gateway.storage.sql.upgrade import Upgraded, run_steps, steps_from
from peel_gateway.storage.sqlite.backup import copy_database
from peel_gateway.storage.sqlite.connection import SqliteConnection
from peel_gateway.storage.sqlite.errors import translated
from peel_gateway.storage.sqlite.files import GatewayLock, unused_name
from peel_gateway.storage.sqlite.schema import WORDS, find_damage, is_empty, run_script
from peel_gateway.storage.store import StoreCorrupt

__all__ = ["check_old", "upgrade_file", "version_of"]


def version_of(path: Path) -> int:
    """Return the schema version of a file; refuse one that is not a Peel database, or newer than this gateway."""
    with translated(path), closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as raw:
        return _version(raw, path)


def _version(raw: sqlite3.Connection, path: Path) -> int:
    if is_empty(raw, path):
        raise StoreCorrupt(f"{path}: has no tables; the gateway makes them when it starts on this file")
    (version,) = raw.execute("PRAGMA user_version").fetchone()
    steps_from(version, path)
    return int(version)


def check_old(path: Path) -> None:
    """Check a file of an older version, as far as that is possible without its upgrade."""
    with translated(path), closing(sqlite3.connect(path)) as raw:
        _refuse_damage([row[0] for row in raw.execute("PRAGMA integrity_check(10)") if row[0] != "ok"], path)


def _refuse_damage(problems: list[str], path: Path) -> None:
    if problems:
        raise StoreCorrupt(f"{path}: damaged: {'; '.join(problems)}; restore a copy")


def upgrade_file(path: Path, timeout: float) -> Upgraded:
    """Upgrade a file, unless a gateway runs on it. It is upgraded as a whole or, after any error, unchanged."""
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
