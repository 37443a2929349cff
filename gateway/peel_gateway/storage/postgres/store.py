# SPDX-License-Identifier: MIT
"""The store on PostgreSQL: `PostgresArchive` reads all partitions, `PostgresStore` reads and writes one.

A writer holds its partition's writer lock from the beginning of a transaction to its commit: the gateway, `replay`, `pardon` and retention
may be different processes. Readers see a snapshot and block nobody.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TypedDict, Unpack

import psycopg

from peel_core import Secret
from peel_gateway.storage.postgres.connection import Address, PostgresConnection, Session, translated
from peel_gateway.storage.postgres.leases import PostgresLeases, lock_partition, session_name
from peel_gateway.storage.postgres.schema import DEFAULT_PARTITIONS, Made, check, find_damage, look, make
from peel_gateway.storage.sql.archive import DEFAULT_BUCKET_SECONDS, SqlArchive, SqlStore
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.quarantine import DEFAULT_BYTES, DEFAULT_ROWS, Limits
from peel_gateway.storage.sql.schema import TABLES
from peel_gateway.storage.sql.transaction import SqlTransaction
from peel_gateway.storage.store import Store, StoreCorrupt, StoreLost, Transaction

__all__ = ["PostgresArchive", "PostgresStore", "is_made"]

_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_IDLE_SECONDS = 60
"""The server ends the session of a lease holder that is idle this long within a transaction."""


def is_made(url: Secret, schema: str) -> bool:
    """Return whether the tables exist."""
    address = Address(url, schema)
    with translated(address.place), address.connect("peel looks", {}) as raw:
        return look(raw) is not None


def _identity(connection: Connection) -> int:
    """Return a number that changes when the database is restored: from a dump (the tables' ids) or from an archive (the timeline)."""
    (row,) = connection.rows(
        """SELECT system_identifier, timeline_id, CAST(CAST(CAST('made' AS regclass) AS oid) AS bigint)
           FROM pg_control_system(), pg_control_checkpoint()"""
    )
    return int.from_bytes(hashlib.blake2b(repr(row).encode(), digest_size=7).digest(), "little")


class Options(TypedDict, total=False):
    """The options with which an archive and its stores are opened."""

    schema: str
    """The PostgreSQL schema of the tables."""
    partitions: int | None
    bucket_seconds: int | None
    """Both are fixed when the tables are created. None takes the existing values."""
    quarantine_limit: int
    quarantine_bytes: int
    """Limits of stored exposures and of their frames' bytes, for each of two classes, in all partitions together."""
    timeout: float
    """Seconds to wait for another writer before `StoreLocked`."""


class PostgresArchive(SqlArchive):
    """Reads all partitions of a database. Creates the tables if there are none.

    Parameters
    ----------
    url : str
        In libpq's form.
    """

    _scope: int | None = None
    """The partition to read; None for all."""

    def __init__(self, url: str, **options: Unpack[Options]) -> None:
        self.address = Address(Secret(url.encode()), options.get("schema", "peel"))
        self._options = options
        self._timeout = options.get("timeout", 10.0)
        self._read_lock = threading.Lock()
        self._reader = Session(self.address, "peel reads")
        partitions, bucket_seconds = options.get("partitions"), options.get("bucket_seconds")
        with translated(self.place):
            made = self._make(partitions, bucket_seconds)
        check(made, self.place, partitions=partitions, bucket_seconds=bucket_seconds)
        self.partitions, self.bucket_seconds = made.partitions, made.bucket_seconds

    def _make(self, partitions: int | None, bucket_seconds: int | None) -> Made:
        with self.address.connect("peel opens", {}) as raw:
            return look(raw) or make(
                raw,
                self.address.schema,
                partitions=DEFAULT_PARTITIONS if partitions is None else partitions,
                bucket_seconds=DEFAULT_BUCKET_SECONDS if bucket_seconds is None else bucket_seconds,
            )

    @property
    def place(self) -> str:
        return self.address.place

    def stores(self) -> Iterator[Store]:
        for partition in range(self.partitions):
            store = PostgresStore(self.address.url.reveal().decode(), partition=partition, **self._options)
            with closing(store):
                yield store

    def leases(self) -> PostgresLeases:
        """Return the leases, on their own connection."""
        return PostgresLeases(self.address, timeout=self._timeout)

    def verify_place(self) -> None:
        """Do nothing: the server owns its files."""

    def save_lost(self) -> None:
        """Return None: the server owns its files."""

    def size_bytes(self) -> int:
        sizes = " + ".join(f"pg_total_relation_size('{table}')" for table in TABLES)
        with self._read() as connection:
            return connection.value(f"SELECT {sizes}")

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self._read_lock, translated(self.place), self._view(self._reader) as raw:
            yield raw

    @contextmanager
    def _read_long(self) -> Iterator[Connection]:
        session = Session(self.address, "peel reads the log")
        try:
            with translated(self.place), self._view(session) as raw:
                yield raw
        finally:
            session.close()

    @contextmanager
    def _write_all(self) -> Iterator[Connection]:
        with translated(self.place), self.address.connect("peel fills", {}) as raw, raw.transaction():
            for partition in range(self.partitions):
                lock_partition(raw, partition)
            yield PostgresConnection(raw, None, self.partitions)

    @contextmanager
    def _view(self, session: Session) -> Iterator[Connection]:
        raw = session.begin(_READING)
        try:
            yield PostgresConnection(raw, self._scope, self.partitions)
        except psycopg.OperationalError:
            session.close()
            raise
        finally:
            session.end("ROLLBACK")

    def check(self) -> None:
        with self._read_long() as connection:
            problems = find_damage(connection)
        if problems:
            raise StoreCorrupt(f"{self.place}: damaged: {'; '.join(problems)}; restore a copy")

    def close(self) -> None:
        with self._read_lock:
            self._reader.close()


class PostgresStore(SqlStore, PostgresArchive):
    """Reads and writes one partition.

    Parameters
    ----------
    partition : int
        From 0.
    epoch : int, optional
        Epoch of this writer's lease: `begin` raises `StoreLost` once the partition has a newer one. None, for commands, writes between
        the owner's transactions.
    """

    def __init__(self, url: str, *, partition: int, epoch: int | None = None, **options: Unpack[Options]) -> None:
        self.partition = self._scope = partition
        self._epoch = epoch
        super().__init__(url, **options)
        if not 0 <= partition < self.partitions:
            raise ValueError(f"partition {partition}: must be from 0 to {self.partitions - 1}")
        self._limits = Limits(
            rows=options.get("quarantine_limit", DEFAULT_ROWS) // self.partitions,
            size=options.get("quarantine_bytes", DEFAULT_BYTES) // self.partitions,
        )
        self._write_lock = threading.Lock()
        self._writer = Session(
            self.address,
            session_name(self.address.schema, partition, epoch),
            lock_timeout=f"{round(self._timeout * 1000)}ms",
            idle_in_transaction_session_timeout=f"{_IDLE_SECONDS if epoch is not None else 0}s",
        )

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        with self._write_lock, translated(self.place):
            raw = self._writer.begin("BEGIN")
            try:
                lock_partition(raw, self.partition)
                self._check_owner(raw)
                connection = PostgresConnection(raw, self.partition, self.partitions)
                yield SqlTransaction(
                    connection, self.bucket_seconds, self._limits, lambda: False
                )  # autovacuum returns free pages
            except psycopg.OperationalError:
                self._writer.close()
                raise
            except BaseException:
                self._writer.end("ROLLBACK")
                raise
            self._writer.end("COMMIT")

    def marks(self) -> frozenset[int]:
        with self._read() as connection:
            return frozenset([_identity(connection)])

    def next_mark(self, former: int | None) -> int:
        (mark,) = self.marks()
        return mark

    def _check_owner(self, raw: psycopg.Connection) -> None:
        """Raise `StoreLost` if the lease has a newer epoch. Runs under the writer lock, which a new owner takes too."""
        ((epoch, owner, version, partitions, bucket),) = raw.execute(
            "SELECT epoch, owner, version, partitions, bucket_seconds FROM lease CROSS JOIN made WHERE partition = %s",
            (self.partition,),
        ).fetchall()
        check(
            Made(version, partitions, bucket),
            self.place,
            partitions=self.partitions,
            bucket_seconds=self.bucket_seconds,
        )
        if self._epoch is not None and epoch != self._epoch:
            raise StoreLost(
                f"{self.place}: partition {self.partition} belongs to {owner or 'nobody'} now (epoch {epoch})"
            )

    def close(self) -> None:
        with self._write_lock:
            self._writer.close()
        super().close()
