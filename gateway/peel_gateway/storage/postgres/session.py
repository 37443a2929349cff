# SPDX-License-Identifier: MIT
"""Connections to a PostgreSQL server, which are opened again when lost, and its errors as the store's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from peel_core import Secret
from peel_gateway.storage.postgres.connection import register_integers
from peel_gateway.storage.store import (
    StoreAway,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreRejected,
)

__all__ = ["Address", "Session", "translated"]

_ADVICE: dict[str, tuple[type[StoreError], str]] = {
    "53100": (StoreFull, "the server's disk is full; free some space. Nothing was lost"),
    "53300": (StoreFailed, "the server has no connection left; raise max_connections or stop other clients"),
    "55P03": (StoreLocked, "another process writes this partition; stop it or wait"),
    "40P01": (StoreLocked, "another process writes this partition; stop it or wait"),
    "25006": (
        StoreFailed,
        "the server is read-only, perhaps a standby; name the primary (target_session_attrs=read-write)",
    ),
    "42501": (StoreFailed, "the role may not do this; let it own the schema"),
    "XX001": (StoreCorrupt, "the database is damaged and was not changed; restore a copy"),
    "XX002": (StoreCorrupt, "an index is damaged; REINDEX the database, then check it"),
}

_AWAY = (StoreAway, "the server cannot be reached or has closed the connection. Nothing was lost")

_REJECTED = (StoreRejected, "the database rejected the data")

_REJECTED_CLASSES = {"22", "23", "54"}
"""The first two digits of SQLSTATE: data exception, integrity constraint violation, program limit exceeded."""

_UNEXPECTED = (StoreFailed, "unexpected database error")


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Raise PostgreSQL's errors as `StoreError`s that name the database."""
    try:
        yield
    except psycopg.Error as error:
        kind, advice = _judged(error)
        raise kind(f"{place}: {advice} ({' '.join(str(error).split())})") from error


def _judged(error: psycopg.Error) -> tuple[type[StoreError], str]:
    """Return the kind of `StoreError` and the advice for an error."""
    state = error.sqlstate or ""
    if state in _ADVICE:
        return _ADVICE[state]
    if state[:2] in _REJECTED_CLASSES or (not state and isinstance(error, psycopg.DataError)):
        return _REJECTED
    return _AWAY if isinstance(error, psycopg.OperationalError) else _UNEXPECTED


_CONNECT_SECONDS = 10


@dataclass(frozen=True)
class Address:
    """A schema of a database on a server."""

    url: Secret
    """In libpq's form: postgresql://user@host/database. Better keep the password in a password file."""
    schema: str

    def __post_init__(self) -> None:
        try:
            conninfo_to_dict(self._conninfo)
        except psycopg.ProgrammingError:
            raise StoreFailed("store.url: not a valid address. Write it as postgresql://user@host/database.") from None

    @property
    def _conninfo(self) -> str:
        return self.url.reveal().decode()

    @property
    def place(self) -> str:
        """The address without secrets, for messages."""
        known = conninfo_to_dict(self._conninfo)
        who = f"{known['user']}@" if "user" in known else ""
        port = f":{known['port']}" if "port" in known else ""
        return f"postgresql://{who}{known.get('host', '')}{port}/{known.get('dbname', '')} ({self.schema})"

    def connect(self, name: str, options: Mapping[str, str]) -> psycopg.Connection:
        """Open a connection with an application name. It autocommits until a statement begins a transaction."""
        raw = psycopg.connect(
            self._conninfo,
            autocommit=True,
            application_name=name,
            connect_timeout=_CONNECT_SECONDS,
            client_encoding="utf8",
        )
        try:
            register_integers(raw.adapters)
            given = {"search_path": self.schema, **options}
            raw.execute(
                sql.SQL("SELECT {}").format(
                    sql.SQL(", ").join(
                        sql.SQL("set_config({}, {}, false)").format(key, value) for key, value in given.items()
                    )
                )
            )
            raw.execute(_DURABLE)
        except BaseException:
            raw.close()
            raise
        return raw


_DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')"
"""A commit waits for the disk, and for standbys if the server is set so. Stricter settings stay."""


class Session:
    """A connection that is opened when needed, and again when it was lost.

    Parameters
    ----------
    options : mapping
        Server settings for the connection.
    """

    def __init__(self, address: Address, name: str, **options: str) -> None:
        self._address = address
        self._name = name
        self._options = options
        self._raw: psycopg.Connection | None = None

    def begin(self, statement: str) -> psycopg.Connection:
        """Begin a transaction, on a new connection if the last one was lost."""
        if self._raw is not None:
            try:
                self._raw.execute(statement.encode())
            except psycopg.OperationalError:
                self.close()
            else:
                return self._raw
        self._raw = self._address.connect(self._name, self._options)
        self._raw.execute(statement.encode())
        return self._raw

    def end(self, statement: str) -> None:
        """End a transaction, unless its connection was lost."""
        if self._raw is None or self._raw.closed:
            return
        try:
            self._raw.execute(statement.encode())
        except psycopg.Error:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection if it is open."""
        if self._raw is not None:
            self._raw.close()
            self._raw = None
