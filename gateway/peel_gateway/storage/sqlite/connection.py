# SPDX-License-Identifier: MIT
"""A connection to an SQLite file, and SQLite's errors as the store's."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_gateway.storage.sql.connection import Columns, Connection, Row, Values
from peel_gateway.storage.sql.schema import TABLES
from peel_gateway.storage.store import StoreCorrupt, StoreError, StoreFailed, StoreFull, StoreLocked, StoreRejected

__all__ = ["SqliteConnection", "translated"]

_PRIMARY_CODE = 0xFF

_REJECTED = (StoreRejected, "the database rejected the data")

_ADVICE: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_FULL: (StoreFull, "the disk is full; free some space. Nothing was lost"),
    sqlite3.SQLITE_BUSY: (StoreLocked, "another process holds the database; stop it or wait"),
    sqlite3.SQLITE_LOCKED: (StoreLocked, "another process holds the database; stop it or wait"),
    sqlite3.SQLITE_CORRUPT: (
        StoreCorrupt,
        "the database is damaged and was not changed; stop the gateway and run `peel gateway restore COPY`",
    ),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, "not an SQLite database, and was not changed; choose another path"),
    sqlite3.SQLITE_READONLY: (StoreFailed, "the database cannot be written; check its owner and mode"),
    sqlite3.SQLITE_CANTOPEN: (StoreFailed, "the database cannot be opened; check the folder, its owner and mode"),
    sqlite3.SQLITE_IOERR: (StoreFailed, "the disk reported an error; check the disk"),
    sqlite3.SQLITE_CONSTRAINT: _REJECTED,
    sqlite3.SQLITE_MISMATCH: _REJECTED,
    sqlite3.SQLITE_TOOBIG: _REJECTED,
}


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as `StoreError`s that name the file."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        kind, advice = _ADVICE.get(code, (StoreFailed, "unexpected database error"))
        raise kind(f"{path}: {advice} ({error})") from error


_WHOLE = {table: table for table in TABLES}


class SqliteConnection(Connection):
    """Implements `Connection`; the store opens, begins and commits through `raw`."""

    same_device = "USING (device)"

    def __init__(self, raw: sqlite3.Connection) -> None:
        self.raw = raw

    def rows(self, query: str, values: Values = ()) -> list[Row]:
        return self.raw.execute(_named(query), values).fetchall()

    def stream(self, query: str, values: Values = ()) -> Iterator[Row]:
        return self.raw.execute(_named(query), values)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self.raw.executemany(_insert(table, tuple(columns)), rows)

    def put(self, table: str, keys: Columns, values: Columns) -> None:
        self._upsert(table, keys, values, *(f"{name} = excluded.{name}" for name in values))

    def add(self, table: str, keys: Columns, sums: Columns) -> None:
        self._upsert(table, keys, sums, *(f"{name} = {name} + excluded.{name}" for name in sums))

    def widen(self, table: str, keys: Columns, lowest: npt.NDArray[np.int64], highest: npt.NDArray[np.int64]) -> None:
        changes = "lowest = MIN(lowest, excluded.lowest)", "highest = MAX(highest, excluded.highest)"
        self._upsert(table, keys, {"lowest": lowest, "highest": highest}, *changes)

    def _upsert(self, table: str, keys: Columns, values: Columns, *changes: str) -> None:
        columns = [*keys.values(), *values.values()]
        if len(columns[0]):
            self.raw.executemany(_insert_or(changes, table, tuple(keys), tuple(values)), _as_rows(columns))

    def update(self, table: str, changes: str, where: str, values: Sequence[Any]) -> None:
        self.raw.execute(f"UPDATE {table} SET {changes} WHERE {where}", values)

    def delete(self, table: str, where: str, values: Sequence[Any]) -> None:
        self.raw.execute(f"DELETE FROM {table} WHERE {where}", values)

    def asked(self, device: npt.NDArray[np.int64], begin: npt.NDArray[np.int64]) -> tuple[str, Mapping[str, Any]]:
        self.raw.execute("CREATE TEMP TABLE IF NOT EXISTS asked (device INTEGER PRIMARY KEY, begin INTEGER)")
        self.raw.execute("DELETE FROM temp.asked")
        self.raw.executemany("INSERT INTO temp.asked VALUES (?, ?)", _as_rows([device, begin]))
        return "temp.asked", {}

    def continue_after(self, table: str, newest: int) -> None:
        self.raw.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        self.raw.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, newest))

    def scopes(self) -> Sequence[Connection]:
        return [self]


@functools.cache
def _named(query: str) -> str:
    return query.format_map(_WHOLE)


@functools.cache
def _insert_or(changes: tuple[str, ...], table: str, keys: tuple[str, ...], values: tuple[str, ...]) -> str:
    return f"{_insert(table, keys + values)} ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {', '.join(changes)}"


@functools.cache
def _insert(table: str, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def _as_rows(columns: Sequence[npt.NDArray[Any] | Sequence[Any]]) -> Iterable[Row]:
    """Return equally long columns as rows."""
    lists = (column.tolist() if isinstance(column, np.ndarray) else column for column in columns)
    return zip(*lists, strict=True)
