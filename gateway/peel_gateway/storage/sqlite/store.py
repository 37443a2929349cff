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
from dataclasses import fields
from pathlib import Path

import numpy as np

from peel_gateway.files import make_private
from peel_gateway.model.audit import AuditEntry
from peel_gateway.model.tables import (
    Counts,
    DeviceTable,
    DeviceTallyTable,
    Exposure,
    ExposureFilter,
    GapTable,
    Kept,
    LogTable,
    TallyTable,
)
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import as_tables
from peel_gateway.storage.sqlite.audit import read_audit
from peel_gateway.storage.sqlite.errors import translated
from peel_gateway.storage.sqlite.exposures import read_exposures
from peel_gateway.storage.sqlite.kept import read_kept
from peel_gateway.storage.sqlite.log import read_columns, read_tables, verify
from peel_gateway.storage.sqlite.quarantine import Limits
from peel_gateway.storage.sqlite.rows import read_devices
from peel_gateway.storage.sqlite.schema import APPLICATION_ID, SCHEMA, VERSION
from peel_gateway.storage.sqlite.tallies import Span, read_device_tallies, read_tallies
from peel_gateway.storage.sqlite.transaction import SqliteTransaction
from peel_gateway.storage.store import Store, StoreCorrupt, StoreMismatch, StoreTooNew, Transaction

__all__ = ["DEFAULT_BUCKET_SECONDS", "SqliteStore"]

DEFAULT_BUCKET_SECONDS = 300


class SqliteStore(Store):
    """A store in the SQLite file at `path`, which is made when it is not there.

    Parameters
    ----------
    bucket_seconds : int, optional
        Finest time bucket of the tallies, fixed when the file is made. None takes what the file has.
    quarantine_limit, quarantine_bytes : int
        Most exposures held, and most bytes of their frames, for each of the two classes (blamed on a device, and not).
    timeout : float
        Seconds to wait for another writer before `StoreLocked`.
    """

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
            connection.execute("CREATE TEMP TABLE asked (device INTEGER PRIMARY KEY, begin INTEGER)")
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
            for statement in _statements(SCHEMA):
                self._writer.execute(statement)
            bucket = DEFAULT_BUCKET_SECONDS if bucket_seconds is None else bucket_seconds
            self._writer.execute("INSERT INTO meta VALUES ('bucket_seconds', ?)", (bucket,))
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
            yield SqliteTransaction(self._writer, self.bucket_seconds, self._limits)

    # ---- reading ----

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        """One consistent view for all queries within."""
        with self._read_lock, translated(self.path):
            self._reader.execute("BEGIN")
            try:
                yield self._reader
            finally:
                if self._reader.in_transaction:
                    self._reader.execute("ROLLBACK")

    @contextmanager
    def _read_long(self) -> Iterator[sqlite3.Connection]:
        """The same on a connection of its own: a question that takes long keeps no short one waiting."""
        with translated(self.path):
            connection = self._connect()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                connection.close()

    def generation(self) -> int:
        with self._read() as connection:
            return int(connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()[0])

    def tallies(
        self, profile: int, *, since: float | None = None, until: float | None = None, bucket_seconds: int | None = None
    ) -> TallyTable:
        with self._read() as connection:
            return read_tallies(connection, profile, self._span(since, until, bucket_seconds))

    def device_tallies(
        self, profile: int, *, since: float | None = None, until: float | None = None, bucket_seconds: int | None = None
    ) -> DeviceTallyTable:
        span = self._span(since, until, bucket_seconds)
        with self._read_long() as connection:
            return read_device_tallies(connection, profile, span)

    def _span(self, since: float | None, until: float | None, bucket_seconds: int | None) -> Span:
        if bucket_seconds is not None and (bucket_seconds <= 0 or bucket_seconds % self.bucket_seconds):
            raise ValueError(f"a time bucket must be a multiple of {self.bucket_seconds} s, not {bucket_seconds}")
        return Span(since, until, bucket_seconds)

    def withdrawn_devices(self, profile: int) -> int:
        query = "SELECT COUNT(*) FROM device JOIN conduct USING (device) WHERE withdrawn AND profile = ?"
        with self._read() as connection:
            return int(connection.execute(query, (profile,)).fetchone()[0])

    def exposures(
        self,
        which: ExposureFilter | None = None,
        *,
        limit: int = 100,
        before: int | None = None,
        after: int | None = None,
        upto: int | None = None,
    ) -> list[Exposure]:
        with self._read() as connection:
            return read_exposures(connection, which, limit=limit, before=before, after=after, upto=upto)

    def audit(
        self, *, device: int | None = None, limit: int | None = None, before: int | None = None
    ) -> list[AuditEntry]:
        with self._read() as connection:
            return read_audit(connection, device=device, limit=-1 if limit is None else limit, before=before)

    def devices(self) -> DeviceTable:
        with self._read() as connection:
            return read_devices(connection)

    def log(self, device: int | None = None) -> LogTable:
        with self._read_long() as connection:
            log, _ = read_tables(connection)
        mine = np.flatnonzero(log.device == device) if device is not None else np.arange(len(log))
        order = mine[np.lexsort((log.number[mine], log.device[mine]))]
        return LogTable(*(getattr(log, each.name)[order] for each in fields(log)))

    def gaps(self) -> GapTable:
        with self._read_long() as connection:
            _, gaps = read_tables(connection)
        order = np.lexsort((gaps.number, gaps.device))
        return GapTable(*(getattr(gaps, each.name)[order] for each in fields(gaps)))

    def device_reports(self) -> dict[int, dict[Verdict, int]]:
        reports: dict[int, dict[Verdict, int]] = {}
        with self._read() as connection:
            for device, verdict, count in connection.execute(_REPORTS):
                reports.setdefault(device, {})[Verdict(verdict)] = count
        return reports

    def counts(self) -> Counts:
        with self._read() as connection:
            kinds: dict[str, dict[int, int]] = {}
            for kind, key, value in connection.execute("SELECT kind, key, value FROM counter"):
                kinds.setdefault(kind, {})[key] = value
            (generation,) = connection.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()
            (pardons,) = connection.execute("SELECT COUNT(*) FROM audit").fetchone()
            exposed, withdrawn = connection.execute("SELECT TOTAL(cause != 0), TOTAL(withdrawn) FROM device").fetchone()
        judged, replayed = kinds.get("verdict", {}), kinds.get("replayed", {})
        return Counts(
            verdicts={verdict: judged.get(verdict, 0) - replayed.get(verdict, 0) for verdict in Verdict},
            replayed={Verdict(key): value for key, value in replayed.items()},
            pardons=int(pardons),
            withdrawn_past=kinds.get("withdrawn", {}).get(0, 0),
            exposed_devices=int(exposed),
            withdrawn_devices=int(withdrawn),
            quarantined=sum(kinds.get("held", {}).values()),
            quarantined_bytes=sum(kinds.get("held_bytes", {}).values()),
            dropped={Verdict(key): value for key, value in kinds.get("dropped", {}).items()},
            gaps=kinds.get("gap", {}).get(0, 0),
            generation=generation,
        )

    @contextmanager
    def inspect(self) -> Iterator[tuple[Kept, Iterator[tuple[LogTable, GapTable]]]]:
        with self._read_long() as connection:
            yield read_kept(connection), (as_tables(columns, last) for last, columns in read_columns(connection))

    def check(self) -> None:
        with self._read_long() as connection:
            problems = [row[0] for row in connection.execute("PRAGMA integrity_check(10)") if row[0] != "ok"]
            problems += verify(connection)
        if problems:
            raise StoreCorrupt(f"{self.path}: damaged: {'; '.join(problems)}; restore a copy")

    def close(self) -> None:
        with self._write_lock, self._read_lock:
            self._reader.close()
            self._writer.close()


_REPORTS = f"""
    SELECT device, {int(Verdict.ACCEPTED)}, accepted FROM progress WHERE accepted
    UNION ALL SELECT device, verdict, reports FROM refused
"""  # noqa: S608


def _statements(script: str) -> Iterator[str]:
    """Split a script: `executescript` would commit the transaction it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
