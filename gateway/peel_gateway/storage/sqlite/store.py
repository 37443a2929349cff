# SPDX-License-Identifier: MIT
"""The store on SQLite: one file, write-ahead log, every commit on disk before it returns.

Writers take turns through SQLite's lock: the gateway, `replay` and `pardon` may be different processes.
Readers see the last commit and block nobody.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from peel_gateway.files import make_private
from peel_gateway.storage.sql.archive import DEFAULT_BUCKET_SECONDS, SqlStore
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.quarantine import DEFAULT_BYTES, DEFAULT_ROWS, Limits
from peel_gateway.storage.sql.schema import check_version
from peel_gateway.storage.sql.transaction import SqlTransaction
from peel_gateway.storage.sqlite.connection import SqliteConnection, translated
from peel_gateway.storage.sqlite.files import (
    GatewayLock,
    identify,
    live_files,
    read_marks,
    refuse_replaced,
    save_copy,
    unused_name,
    verify_files,
    write_marks,
)
from peel_gateway.storage.sqlite.schema import find_damage, is_empty, make_tables
from peel_gateway.storage.store import (
    StoreCorrupt,
    StoreFailed,
    StoreMismatch,
    StoreReplaced,
    Transaction,
)

__all__ = ["SqliteStore"]

_SYNCHRONOUS_FULL = 2
_PAGES = 2_000
"""Free pages returned to the file system per transaction."""


class SqliteStore(SqlStore):
    """A store in the SQLite file at `path`, which is created if it does not exist.

    Parameters
    ----------
    bucket_seconds : int, optional
        Size of the tallies' time buckets, fixed when the file is created. None takes the file's.
    quarantine_limit, quarantine_bytes : int
        Limits of stored exposures and of their frames' bytes, for each of two classes (blamed on a device, and not).
    timeout : float
        Seconds to wait for another writer before `StoreLocked`.
    gateway : bool
        Whether a gateway opens it: a second one gets `StoreLocked`. Commands take turns with the gateway.
    """

    partitions = 1
    partition = 0

    def __init__(
        self,
        path: Path | str,
        *,
        bucket_seconds: int | None = None,
        quarantine_limit: int = DEFAULT_ROWS,
        quarantine_bytes: int = DEFAULT_BYTES,
        timeout: float = 10.0,
        gateway: bool = False,
    ) -> None:
        self.path = Path(path)
        self._limits = Limits(rows=quarantine_limit, size=quarantine_bytes)
        self._timeout = timeout
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        refuse_replaced(self.path)
        with ExitStack() as undo:
            self._gateway = undo.enter_context(GatewayLock(self.path)) if gateway else None
            make_private(self.path)  # reports are randomized, their times and senders are not
            self._opened = {self.path: identify(self.path)}
            with translated(self.path):
                self._writer = undo.enter_context(closing(self._open()))
                self._make(bucket_seconds)
                self.bucket_seconds = self._bucket(bucket_seconds)
                self._reader = self._connect()
            self._opened |= {file: identify(file) for file in live_files(self.path)[1:]}
            if self._gateway is not None:
                self._gateway.note(self._opened[self.path])
            undo.pop_all()

    @property
    def place(self) -> str:
        return str(self.path)

    def verify_place(self) -> None:
        verify_files(self._opened)

    def marks(self) -> frozenset[int]:
        return read_marks(self.path)

    def next_mark(self, former: int | None) -> int:
        mark = secrets.randbits(62)
        write_marks(self.path, [mark] if former is None else [former, mark])
        return mark

    def size_bytes(self) -> int:
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    # ---- opening ----

    def _connect_file(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False)

    def _connect(self) -> sqlite3.Connection:
        self.verify_place()  # never combine another file with this one's write-ahead log
        with ExitStack() as undo:
            connection = undo.enter_context(closing(self._connect_file()))
            connection.execute("PRAGMA synchronous = FULL")
            self._demand(connection, "synchronous", _SYNCHRONOUS_FULL)
            connection.execute("PRAGMA temp_store = MEMORY")
            undo.pop_all()
        return connection

    def _open(self) -> sqlite3.Connection:
        with ExitStack() as undo:
            connection = undo.enter_context(closing(self._connect()))
            empty = is_empty(connection, self.path)  # before the first write: another program's file stays unchanged
            self._version(connection)
            if empty:
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # so that retention can shrink the file
            connection.execute("PRAGMA journal_mode = WAL")
            self._demand(connection, "journal_mode", "wal")
            undo.pop_all()
        return connection

    def _demand(self, connection: sqlite3.Connection, pragma: str, wanted: object) -> None:
        """Raise unless a pragma has the value that durability needs: SQLite may ignore it without an error."""
        (answer,) = connection.execute(f"PRAGMA {pragma}").fetchone()
        if answer != wanted:
            raise StoreFailed(
                f"{self.path}: {pragma} must be {wanted!r}, SQLite answered {answer!r}. A power cut could lose acknowledged "
                "reports, so the database is not used. Check the disk, and put the file on a local file system"
            )

    def _version(self, connection: sqlite3.Connection) -> int:
        """Return the file's schema version, 0 for a new file; raise for another version than ours."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version:
            check_version(version, self.path)
        return int(version)

    def _make(self, bucket_seconds: int | None) -> None:
        """Create the tables if there are none."""
        if self._version(self._writer):
            return  # opening an existing file needs no write lock and no disk space
        with self._write(self._writer):
            if not self._version(self._writer):  # another process may have been faster
                make_tables(self._writer, DEFAULT_BUCKET_SECONDS if bucket_seconds is None else bucket_seconds)

    def _bucket(self, asked: int | None) -> int:
        (bucket,) = self._writer.execute("SELECT value FROM meta WHERE key = 'bucket_seconds'").fetchone()
        if asked is not None and asked != bucket:
            raise StoreMismatch(
                f"{self.path}: has time buckets of {bucket} s, store.bucket_seconds is {asked}. Set it to {bucket}, or start a new file."
            )
        return int(bucket)

    # ---- writing ----

    @contextmanager
    def _write(self, connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._version(connection)  # an upgrade may have changed the file while it was open here
            self.verify_place()
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite has already rolled back after a full disk
                connection.execute("ROLLBACK")
            raise
        self.verify_place()  # the caller acknowledges what is committed

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        with self._write_lock, translated(self.path), self._write(self._writer):
            yield SqlTransaction(SqliteConnection(self._writer), self.bucket_seconds, self._limits, self._give_back)

    @contextmanager
    def _write_all(self) -> Iterator[Connection]:
        with self._write_lock, translated(self.path), self._write(self._writer):
            yield SqliteConnection(self._writer)

    def _give_back(self) -> bool:
        (free,) = self._writer.execute("PRAGMA freelist_count").fetchone()
        for _ in range(min(free, _PAGES)):
            self._writer.execute("PRAGMA incremental_vacuum(1)")  # Python's sqlite3 steps once, so one page per call
        return bool(free > _PAGES)

    # ---- reading ----

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self._read_lock, translated(self.path):
            self._reader.execute("BEGIN")
            try:
                yield SqliteConnection(self._reader)
            finally:
                if self._reader.in_transaction:
                    self._reader.execute("ROLLBACK")

    @contextmanager
    def _read_long(self) -> Iterator[SqliteConnection]:
        with translated(self.path):
            connection = self._connect()
            try:
                connection.execute("BEGIN")
                yield SqliteConnection(connection)
            finally:
                connection.close()

    def check(self) -> None:
        with self._read_long() as connection:
            problems = find_damage(connection)
        if problems:
            raise StoreCorrupt(f"{self.path}: damaged: {'; '.join(problems)}; restore a copy")

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()
            if self._gateway is not None:
                self._gateway.close()
                self._gateway = None

    def save_lost(self) -> Path | None:
        try:
            self.verify_place()
        except StoreReplaced:
            target = unused_name(self.path, "saved")
            with self._read_lock, translated(target):
                save_copy(self._reader, target, lambda _: None)
            return target
        return None
