# SPDX-License-Identifier: MIT
"""Real databases for a test: a file, or a schema of its own on a server that all tests share."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import psycopg
from psycopg import sql

from peel_gateway.storage.postgres.store import PostgresArchive, PostgresStore
from peel_gateway.storage.records import RECORD, drop_checksum, pack
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_gateway.storage.store import Store


class Database(Protocol):
    """A store's place, and direct access to its database for tests."""

    def open(self, **options: Any) -> Store:
        """The store, made when it is not there."""

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """One statement in SQL, committed; what it finds."""


class SqliteFile:
    """A file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, **options: Any) -> SqliteStore:
        return SqliteStore(self.path, **options)

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.path) as connection:
            rows = connection.execute(statement, values).fetchall()
        connection.close()
        return rows


class PostgresSchema:
    """A schema on a server, with all devices in one partition unless told otherwise."""

    def __init__(self, url: str, schema: str) -> None:
        self.url = url
        self.schema = schema

    def open(self, **options: Any) -> PostgresStore:
        return PostgresStore(self.url, schema=self.schema, **{"partition": 0, "partitions": 1} | options)

    def archive(self, **options: Any) -> PostgresArchive:
        return PostgresArchive(self.url, schema=self.schema, **options)

    def execute(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            found = connection.execute(statement.replace("?", "%s").encode(), values)
            return found.fetchall() if found.description else []

    def connect(self) -> psycopg.Connection:
        connection = psycopg.connect(self.url, autocommit=True)
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(self.schema)))
        return connection

    def drop(self) -> None:
        self.execute(f"DROP SCHEMA IF EXISTS {self.schema} CASCADE")


def change_log(database: Database, change: Callable[[Any], Any]) -> None:
    """Put other events in the place of those that the log has; they must stay as many, or the log says so itself."""
    rows = database.execute("SELECT last, data FROM log ORDER BY last")
    segments = [np.frombuffer(drop_checksum(data), RECORD) for _, data in rows]
    events = change(np.concatenate(segments))
    ends = np.cumsum([len(segment) for segment in segments])
    for (last, _), part in zip(rows, np.split(events, ends[:-1]), strict=True):
        database.execute("UPDATE log SET data = ? WHERE last = ?", (pack(part), last))
