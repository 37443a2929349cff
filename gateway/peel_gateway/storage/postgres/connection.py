# SPDX-License-Identifier: MIT
"""PostgreSQL: connections that reopen when lost, errors translated to the store's, and the shared `Connection` interface.

Rows are written as arrays: one parameter per column, one statement per table. COPY would need a temporary table to merge rows, and the
server cannot interrupt a client that stops in the middle of a COPY and keeps its locks. Log rows are few: one per batch, later merged
into larger segments.
"""

from __future__ import annotations

import functools
import itertools
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg import sql
from psycopg.abc import AdaptContext
from psycopg.adapt import AdaptersMap, Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

from peel_core import Secret
from peel_gateway.storage.sql.connection import Columns, Connection, Row, Values
from peel_gateway.storage.sql.schema import TABLES
from peel_gateway.storage.store import (
    StoreAway,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreLocked,
    StoreRejected,
)

__all__ = ["Address", "PostgresConnection", "Session", "array_type", "translated"]

_INT8, _INT8_ARRAY = 20, 1016

_HEADER = struct.Struct(">iiIii")

_ITEM = np.dtype([("size", ">i4"), ("value", ">i8")])

_TYPES = {int: "bigint[]", bytes: "bytea[]", str: "text[]"}


class _IntsDumper(Dumper):
    """Writes int64[R] in the binary format of bigint[], without a Python object per value."""

    format = Format.BINARY
    oid = _INT8_ARRAY

    def __init__(self, cls: type, context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)

    def dump(self, obj: npt.NDArray[Any]) -> bytes:
        items = np.empty(len(obj), _ITEM)
        items["size"], items["value"] = 8, obj
        return _HEADER.pack(1, 0, _INT8, len(obj), 1) + items.tobytes()


def _register_integers(adapters: AdaptersMap) -> None:
    """Send all integers as bigint, however small: alone, in lists, in arrays.

    In lists they are sent as text. In binary form psycopg would choose a type for all lists of a statement by its first list, and small
    keys would make the sums too small a type.
    """
    for dumper in (Int8Dumper, Int8BinaryDumper):
        adapters.register_dumper(int, dumper)  # the last one is preferred
    adapters.register_dumper(np.ndarray, _IntsDumper)


def array_type(column: npt.NDArray[Any] | Sequence[Any]) -> str:
    """Return the array type of a column of integers, bytes or text, which is not empty."""
    if isinstance(column, np.ndarray) and column.dtype != object:
        return _TYPES[int]
    return _TYPES[type(column[0])]


_STREAMED_ROWS = 16
"""Rows fetched at a time. Sealed segments have some hundred kilobytes each."""

_names = itertools.count()


class PostgresConnection(Connection):
    """Implements `Connection`. With `partition` None it reads all partitions and writes none."""

    same_device = "USING (partition, device)"

    def __init__(self, raw: psycopg.Connection, partition: int | None, partitions: int) -> None:
        self.raw = raw
        self._partition = partition
        self._partitions = partitions

    def rows(self, query: str, values: Values = ()) -> list[Row]:
        with self.raw.cursor(binary=True) as cursor:
            return cursor.execute(_text(query, self._partition), values).fetchall()

    def stream(self, query: str, values: Values = ()) -> Iterator[Row]:
        with self.raw.cursor(f"peel_{next(_names)}", binary=True) as cursor:
            cursor.itersize = _STREAMED_ROWS
            yield from cursor.execute(_text(query, self._partition), values)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        marks = ", ".join(["%s"] * len(columns))
        query = f"INSERT INTO {table} (partition, {', '.join(columns)}) VALUES ({self._own}, {marks})"
        with self.raw.cursor() as cursor:
            cursor.executemany(query.encode(), [[_storable(value) for value in row] for row in rows])

    def put(self, table: str, keys: Columns, values: Columns) -> None:
        self._upsert(table, keys, values, *(f"{name} = excluded.{name}" for name in values))

    def add(self, table: str, keys: Columns, sums: Columns) -> None:
        self._upsert(table, keys, sums, *(f"{name} = {table}.{name} + excluded.{name}" for name in sums))

    def widen(self, table: str, keys: Columns, lowest: npt.NDArray[np.int64], highest: npt.NDArray[np.int64]) -> None:
        changes = (
            f"lowest = LEAST({table}.lowest, excluded.lowest)",
            f"highest = GREATEST({table}.highest, excluded.highest)",
        )
        self._upsert(table, keys, {"lowest": lowest, "highest": highest}, *changes)

    def _upsert(self, table: str, keys: Columns, values: Columns, *changes: str) -> None:
        columns = {**keys, **values}
        if not all(map(len, columns.values())):
            return
        names = ", ".join(columns)
        arrays = ", ".join(f"%s::{array_type(column)}" for column in columns.values())
        query = f"""INSERT INTO {table} (partition, {names}) SELECT {self._own}, * FROM unnest({arrays})
                    ON CONFLICT (partition, {", ".join(keys)}) DO UPDATE SET {", ".join(changes)}"""
        self.raw.execute(query.encode(), [_column(column) for column in columns.values()])

    def update(self, table: str, changes: str, where: str, values: Sequence[Any]) -> None:
        query = f"UPDATE {table} SET {changes} WHERE partition = {self._own} AND ({where})"
        self.raw.execute(_text(query, None), values)

    def delete(self, table: str, where: str, values: Sequence[Any]) -> None:
        query = f"DELETE FROM {table} WHERE partition = {self._own} AND ({where})"
        self.raw.execute(_text(query, None), values)

    def asked(self, device: npt.NDArray[np.int64], begin: npt.NDArray[np.int64]) -> tuple[str, Mapping[str, Any]]:
        given = {"asked_device": device, "asked_begin": begin}
        return "(SELECT * FROM unnest(:asked_device, :asked_begin) AS given (device, begin))", given

    def continue_after(self, table: str, newest: int) -> None:
        self.raw.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), %s, %s)", (table, max(1, newest), newest > 0))

    def scopes(self) -> Sequence[Connection]:
        if self._partition is not None:
            return [self]
        return [PostgresConnection(self.raw, partition, self._partitions) for partition in range(self._partitions)]

    @property
    def _own(self) -> int:
        if self._partition is None:
            raise ValueError("a connection to all partitions is read-only")
        return self._partition


@functools.cache
def _text(query: str, partition: int | None) -> bytes:
    """Return a query for psycopg, on all partitions or one. The planner flattens the subselects."""
    scope = "{0}" if partition is None else f"(SELECT * FROM {{0}} WHERE partition = {partition})"
    text = query.format_map({table: scope.format(table) for table in TABLES})
    return re.sub(r":(\w+)", r"%(\1)s", text.replace("?", "%s")).encode()


def _storable(value: Any) -> Any:
    """Replace NUL, which PostgreSQL's text cannot hold and a topic from a faulty broker can."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def _column(column: npt.NDArray[Any] | Sequence[Any]) -> npt.NDArray[Any] | Sequence[Any]:
    return column.tolist() if isinstance(column, np.ndarray) and column.dtype == object else column


_ADVICE: dict[str, tuple[type[StoreError], str]] = {
    "53100": (StoreFull, "the server's disk is full; free some space. Nothing was lost"),
    "53300": (StoreFailed, "the server has no connection left; raise max_connections or stop other clients"),
    "55P03": (StoreLocked, "another process writes this partition; stop it or wait"),
    "40P01": (StoreLocked, "another process writes this partition; stop it or wait"),
    "25P03": (
        StoreAway,
        "this process paused within a transaction, and the server ended its session. Nothing was lost",
    ),
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
            _register_integers(raw.adapters)
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
