# SPDX-License-Identifier: MIT
"""Which store the settings name: the one place that knows all of them."""

from __future__ import annotations

from peel_gateway.settings import Settings
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_gateway.storage.store import Store

__all__ = ["open_store", "store_exists"]


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
