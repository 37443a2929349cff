# SPDX-License-Identifier: MIT
"""Which store the settings name: the one place that knows all of them."""

from __future__ import annotations

import dataclasses
import importlib
import time
import types
from pathlib import Path
from typing import Any

from peel_gateway.settings import Settings, SettingsError
from peel_gateway.storage.leases import Leases
from peel_gateway.storage.sqlite.backup import copy_database, set_aside
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_gateway.storage.store import Archive, Store, StoreFailed

__all__ = [
    "back_up_store",
    "distribution",
    "missing_store",
    "open_archive",
    "open_leases",
    "open_store",
    "restore_store",
]


def open_archive(settings: Settings) -> Archive:
    """Open all shares of what the settings name, to be read; it is made when it is not there."""
    if settings.store_url is None:
        return open_store(settings)
    archive: Archive = _postgres().PostgresArchive(**_where(settings))
    return archive


def open_store(settings: Settings, share: int = 0, *, epoch: int | None = None) -> Store:
    """Open one share to write it, under a lease's epoch where there are leases; it is made when it is not there."""
    if settings.store_url is not None:
        store: Store = _postgres().PostgresStore(**_where(settings), share=share, epoch=epoch)
        return store
    if share:
        raise ValueError(f"share {share}: a file is one share, 0")
    return SqliteStore(settings.store_path, **_how(settings))


def open_leases(settings: Settings) -> Leases | None:
    """Who owns which share; None where whoever opens the file has all of it."""
    if settings.store_url is None:
        return None
    archive = _postgres().PostgresArchive(**_where(settings))  # which makes the tables, or finds them wrong
    leases: Leases = archive.leases()
    return leases


def distribution(settings: Settings) -> str:
    """The statements that distribute the tables over the servers of a cluster."""
    if settings.store_url is None:
        raise SettingsError("store.url: names no PostgreSQL database, and a file cannot be distributed")
    statements: str = _postgres("schema").distribution(settings.store_schema)
    return statements


def _postgres(module: str = "store") -> types.ModuleType:
    """A module of the store on PostgreSQL, which needs an extra of the package: most gateways need no server."""
    try:
        return importlib.import_module(f"peel_gateway.storage.postgres.{module}")
    except ImportError as error:
        raise StoreFailed(
            f"store.url: needs psycopg, which is not here ({error}): pip install 'peel-telemetry[postgres]'"
        ) from None


def _where(settings: Settings) -> dict[str, Any]:
    assert settings.store_url is not None, "no database is named"
    return {
        "url": settings.store_url.reveal().decode(),
        "schema": settings.store_schema,
        "shares": settings.store_shares,
        **_how(settings),
    }


def _how(settings: Settings) -> dict[str, Any]:
    return {
        "bucket_seconds": settings.store_bucket_seconds,
        "quarantine_limit": settings.quarantine_pieces,
        "quarantine_bytes": settings.quarantine_bytes,
        "timeout": settings.store_lock_seconds,
    }


def missing_store(settings: Settings) -> str:
    """What is not there before a gateway has made it, in words; nothing where it is there."""
    if settings.store_url is None:
        return "" if settings.store_path.exists() else f"store.path: {settings.store_path}: no such file"
    found: bool = _postgres().is_made(settings.store_url, settings.store_schema)
    return "" if found else f"store.url: the schema {settings.store_schema} has no tables"


def back_up_store(settings: Settings, path: Path) -> None:
    """Write a copy of the store as it is now, and check it; a gateway may run meanwhile."""
    _refuse_server(settings, "pg_dump --schema")
    copy_database(settings.store_path, path)
    _check(settings, path)


def restore_store(settings: Settings, path: Path) -> Path | None:
    """Make a copy the store, once it is found to be sound; return where the former one is now. No gateway may run."""
    _refuse_server(settings, "pg_restore")
    target = settings.store_path
    incoming = target.with_name(f".{target.name}.restored")
    copy_database(path, incoming)
    try:
        _check(settings, incoming)
    except BaseException:
        incoming.unlink(missing_ok=True)
        raise
    aside = target.with_name(f"{target.name}.before-{time.strftime('%Y%m%dT%H%M%S')}")
    there = target.exists()
    set_aside(target, aside)
    incoming.replace(target)
    return aside if there else None


def _refuse_server(settings: Settings, program: str) -> None:
    """A server has its own ways, which are better: at one moment for all shares, and continuously."""
    if settings.store_url is not None:
        raise SettingsError(
            f"store.url: copies of a PostgreSQL database are PostgreSQL's own business: `{program}`, docs/operating.md"
        )


def _check(settings: Settings, path: Path) -> None:
    """Open it as a gateway would, which refuses what is no store of these settings, and verify it."""
    store = open_store(dataclasses.replace(settings, store_path=path))
    try:
        store.check()
    finally:
        store.close()
