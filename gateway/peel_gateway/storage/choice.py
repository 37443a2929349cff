# SPDX-License-Identifier: MIT
"""Which store the settings name: the one place that knows all of them."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from peel_gateway.settings import Settings
from peel_gateway.storage.sqlite.backup import copy_database, set_aside
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_gateway.storage.store import Store

__all__ = ["back_up_store", "open_store", "restore_store", "store_exists"]


def open_store(settings: Settings) -> Store:
    """Open the store that the settings name; it is made when it is not there."""
    return SqliteStore(
        settings.store_path,
        bucket_seconds=settings.store_bucket_seconds,
        quarantine_limit=settings.quarantine_pieces,
        quarantine_bytes=settings.quarantine_bytes,
        timeout=settings.store_lock_seconds,
    )


def store_exists(settings: Settings) -> bool:
    """Whether a gateway has made that store."""
    return settings.store_path.exists()


def back_up_store(settings: Settings, path: Path) -> None:
    """Write a copy of the store as it is now, and check it; a gateway may run meanwhile."""
    copy_database(settings.store_path, path)
    _check(settings, path)


def restore_store(settings: Settings, path: Path) -> Path | None:
    """Make a copy the store, once it is found to be sound; return where the former one is now. No gateway may run."""
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


def _check(settings: Settings, path: Path) -> None:
    """Open it as a gateway would, which refuses what is no store of these settings, and verify it."""
    store = open_store(dataclasses.replace(settings, store_path=path))
    try:
        store.check()
    finally:
        store.close()
