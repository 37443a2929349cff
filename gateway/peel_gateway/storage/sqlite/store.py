# SPDX-License-Identifier: MIT
"""The store on SQLite: one file, write-ahead log, every commit on disk before it returns.

Writers take turns through SQLite's own lock (the service, `replay`, `recount` and retention may be different processes);
readers see the last commit and block nobody.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from peel_gateway.files import make_private
from peel_gateway.storage.sql.archive import SqlStore
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.log import verify_log
from peel_gateway.storage.sql.quarantine import Limits
from peel_gateway.storage.sql.rows import verify_states
from peel_gateway.storage.sql.schema import META, VERSION, Words, tables
from peel_gateway.storage.sql.transaction import SqlTransaction
from peel_gateway.storage.sqlite.connection import SqliteConnection
from peel_gateway.storage.sqlite.errors import translated
from peel_gateway.storage.store import StoreCorrupt, StoreMismatch, StoreTooNew, Transaction

__all__ = ["APPLICATION_ID", "DEFAULT_BUCKET_SECONDS", "SqliteStore"]

APPLICATION_ID = 0x5045454C
"""`PEEL` in `PRAGMA application_id` tells our files from others; `user_version` says which version of the tables they have."""
DEFAULT_BUCKET_SECONDS = 300

_WORDS = Words(
    int="INTEGER",
    blob="BLOB",
    share="",
    by_share="",
    clustered=" WITHOUT ROWID",
    identity="INTEGER PRIMARY KEY AUTOINCREMENT",
    identity_key="",
)
_PAGES = 2_000
"""Free pages that go back to the file system in one transaction."""


class SqliteStore(SqlStore):
    """A store in the SQLite file at `path`, all of a fleet in one share, which is made when it is not there.

    Parameters
    ----------
    bucket_seconds : int, optional
        Finest time bucket of the tallies, fixed when the file is made. None takes what the file has.
    quarantine_limit, quarantine_bytes : int
        Most exposures held, and most bytes of their frames, for each of the two classes (blamed on a device, and not).
    timeout : float
        Seconds to wait for another writer before `StoreLocked`.
    """

    shares = 1
    share = 0

    def __init__(
        self,
        path: Path | str,
        *,
        bucket_seconds: int | None = None,
        quarantine_limit: int = 100_000,
        quarantine_bytes: int = 64 * 1024 * 1024,
        timeout: float = 10.0,
    ) -> None:
        self.path = Path(path)
        self._limits = Limits(rows=quarantine_limit, size=quarantine_bytes)
        self._timeout = timeout
        self._write_lock = threading.Lock()
        self._read_lock = threading.Lock()
        make_private(self.path)  # reports are private on their own, their times and senders are not
        with translated(self.path):
            self._writer = self._open()
            try:
                self._make(bucket_seconds)
                self.bucket_seconds = self._bucket(bucket_seconds)
                self._reader = self._connect()
            except BaseException:
                self._writer.close()
                raise

    @property
    def place(self) -> str:
        return str(self.path)

    def size_bytes(self) -> int:
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    # ---- opening ----

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA temp_store = MEMORY")
        return connection

    def _open(self) -> sqlite3.Connection:
        connection = self._connect()
        try:
            if self._is_empty(connection):
                connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # retention gives room back
            connection.execute("PRAGMA journal_mode = WAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_empty(self, connection: sqlite3.Connection) -> bool:
        """Look before the first write: a file that is not ours is refused, and stays as it is."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION_ID:
            raise StoreCorrupt(f"{self.path}: an SQLite database, but not a Peel one; choose another path")
        self._known_version(connection)
        return not tables

    def _known_version(self, connection: sqlite3.Connection) -> int:
        """The file's schema version; one that is newer than ours is refused."""
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StoreTooNew(
                f"{self.path}: has schema version {version}, this gateway knows up to {VERSION}; upgrade the gateway"
            )
        return int(version)

    def _make(self, bucket_seconds: int | None) -> None:
        """Make the tables, where there are none."""
        if self._known_version(self._writer) == VERSION:
            return  # a reader needs no lock, and no room on the disk
        with self._write(self._writer):
            if self._known_version(self._writer) == VERSION:
                return  # another process was faster
            for statement in _statements(tables(_WORDS)):
                self._writer.execute(statement)
            bucket = DEFAULT_BUCKET_SECONDS if bucket_seconds is None else bucket_seconds
            meta = dict.fromkeys(META, 0) | {"bucket_seconds": bucket}
            self._writer.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            self._writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._writer.execute(f"PRAGMA user_version = {VERSION}")

    def _bucket(self, asked: int | None) -> int:
        (bucket,) = self._writer.execute("SELECT value FROM meta WHERE key = 'bucket_seconds'").fetchone()
        if asked is not None and asked != bucket:
            raise StoreMismatch(
                f"{self.path}: keeps time buckets of {bucket} s, {asked} s were asked for; set it back or start a new file"
            )
        return int(bucket)

    # ---- writing ----

    @contextmanager
    def _write(self, connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._known_version(connection)  # a newer gateway may have changed the file while it was open here
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # SQLite has already rolled back after a full disk
                connection.execute("ROLLBACK")
            raise

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
            self._writer.execute("PRAGMA incremental_vacuum(1)")  # Python takes one step of it, whatever the number
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
            problems = [row[0] for row in connection.raw.execute("PRAGMA integrity_check(10)") if row[0] != "ok"]
            problems += [*verify_log(connection), *verify_states(connection)]
        if problems:
            raise StoreCorrupt(f"{self.path}: damaged: {'; '.join(problems)}; restore a copy")

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()


def _statements(script: str) -> Iterator[str]:
    """Split a script: `executescript` would commit the transaction it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
