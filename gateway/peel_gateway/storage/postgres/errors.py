# SPDX-License-Identifier: MIT
"""PostgreSQL's errors as the store's: what happened, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from peel_gateway.storage.store import (
    StoreAway,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreRejected,
)

__all__ = ["translated"]

_ADVICE: dict[str, tuple[type[StoreError], str]] = {
    "53100": (StoreFull, "the server's disk is full; free some space, nothing was lost"),
    "53300": (StoreFailed, "the server has no connection left; raise max_connections, or stop others"),
    "55P03": (StoreLocked, "another process writes this share; stop it or wait"),
    "40P01": (StoreLocked, "another process writes this share; stop it or wait"),
    "25006": (
        StoreFailed,
        "the server only reads, a standby perhaps; name the primary (target_session_attrs=read-write)",
    ),
    "42501": (StoreFailed, "the role may not do this; let it own the schema"),
    "XX001": (StoreCorrupt, "the database is damaged; it is left as it is: restore a copy"),
    "XX002": (StoreCorrupt, "an index is damaged; REINDEX the database, then check it"),
}
_AWAY = (StoreAway, "the server cannot be reached, or has closed the connection; nothing was lost")
_REJECTED = (StoreRejected, "the database rejected the data")
_REJECTED_CLASSES = {"22", "23", "54"}
"""The first two digits of SQLSTATE: data exception, integrity constraint violation, program limit exceeded."""
_UNEXPECTED = (StoreFailed, "unexpected database error")


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn PostgreSQL's errors within into `StoreError`s that name the database."""
    try:
        yield
    except psycopg.Error as error:
        kind, advice = _judged(error)
        raise kind(f"{place}: {advice} ({' '.join(str(error).split())})") from error


def _judged(error: psycopg.Error) -> tuple[type[StoreError], str]:
    """Return which kind of `StoreError` an error is, and the advice for it."""
    state = error.sqlstate or ""
    if state in _ADVICE:
        return _ADVICE[state]
    if state[:2] in _REJECTED_CLASSES or (not state and isinstance(error, psycopg.DataError)):
        return _REJECTED
    return _AWAY if isinstance(error, psycopg.OperationalError) else _UNEXPECTED
