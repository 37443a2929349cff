# SPDX-License-Identifier: MIT
"""The queries of an archive, and the snapshot for the recount."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import numpy.typing as npt

from peel_gateway.model.coins import NO_COIN, WAITING, CoinTable, Ragged
from peel_gateway.model.exposure import PARDON, AuditEntry, Exposure, ExposureFilter
from peel_gateway.model.tables import (
    BucketSpanTable,
    Counts,
    DeviceTable,
    DeviceTallyTable,
    DirectoryVersion,
    GapTable,
    LogTable,
    NewestReports,
    StoredState,
    TallyTable,
)
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import as_tables
from peel_gateway.storage.sql.audit import read_audit, read_forfeited
from peel_gateway.storage.sql.coins import (
    has_due,
    read_asked,
    read_coins,
    read_committed,
    read_era,
    read_held_records,
    read_waiting,
)
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.log import read_columns
from peel_gateway.storage.sql.migration import copy_archive
from peel_gateway.storage.sql.quarantine import read_exposures
from peel_gateway.storage.sql.rollup_check import SqlRollupCheck
from peel_gateway.storage.sql.rollups import Extent, read_extent
from peel_gateway.storage.sql.rows import (
    columns,
    read_counters,
    read_devices,
    read_newest_reports,
    read_pruned,
    read_reports,
    read_test_states,
)
from peel_gateway.storage.sql.schema import REGISTRY
from peel_gateway.storage.sql.tallies import Span, joined_tallies, read_device_tallies, read_tallies
from peel_gateway.storage.store import Archive, Inspection, Store, StoreMismatch

__all__ = ["DEFAULT_BUCKET_SECONDS", "SqlArchive", "SqlStore", "read_stored_state"]

Ints = npt.NDArray[np.int64]

DEFAULT_BUCKET_SECONDS = 300

_GENERATION = "SELECT CAST(SUM(value) AS BIGINT) FROM {meta} AS meta WHERE key = 'generation'"

_EXPOSED = """
    SELECT COUNT(*), COUNT(*) FILTER (WHERE withdrawn != 0) FROM {device} AS device WHERE cause != 0
"""

_FIRST_RECEIVED = "SELECT COALESCE(MIN(first_received), 0) FROM {device} AS device WHERE first_received > 0"


class SqlArchive(Archive):
    """Reads all partitions, or one."""

    @abc.abstractmethod
    def _read(self) -> AbstractContextManager[Connection]:
        """Open a snapshot for the queries within."""

    @abc.abstractmethod
    def _read_long(self) -> AbstractContextManager[Connection]:
        """Open a snapshot on its own connection, so that a long query does not delay short ones."""

    @abc.abstractmethod
    def _write_all(self) -> AbstractContextManager[Connection]:
        """Open one write transaction on all partitions."""

    def fill(self, source: Archive) -> None:
        if not isinstance(source, SqlArchive):
            raise TypeError(f"{source.place}: not an SQL archive")
        with source._read_long() as old, self._write_all() as new:
            if new.value(_GENERATION):
                raise StoreMismatch(f"{self.place}: already has reports. Choose a new database.")
            copy_archive(old, new, source.bucket_seconds)

    def registry(self) -> DirectoryVersion:
        with self._read() as connection:
            return _registry(connection)

    def follow_registry(self, follow: Callable[[DirectoryVersion], DirectoryVersion]) -> None:
        seen = self.registry()
        if follow(seen) == seen:
            return
        with self._write_all() as connection:
            state = follow(_registry(connection))
            connection.scopes()[0].put("meta", {"key": list(REGISTRY)}, {"value": list(state)})

    def generation(self) -> int:
        with self._read() as connection:
            return connection.value(_GENERATION)

    def tallies(
        self, profile: int, *, since: float | None = None, until: float | None = None, bucket_seconds: int | None = None
    ) -> TallyTable:
        with self._read() as connection:
            span = self._span(since, until, bucket_seconds)
            parts = [
                read_tallies(scope, read_extent(scope, self.bucket_seconds), span, profile)
                for scope in connection.scopes()
            ]
        return joined_tallies(parts)

    def device_tally_parts(
        self,
        profile: int,
        *,
        since: float | None = None,
        until: float | None = None,
        bucket_seconds: int | None = None,
        only: Ints | None = None,
    ) -> Iterator[DeviceTallyTable]:
        span = self._span(since, until, bucket_seconds)
        with self._read_long() as connection:
            yield from read_device_tallies(connection, self.bucket_seconds, profile, span, only)

    def _span(self, since: float | None, until: float | None, bucket_seconds: int | None) -> Span:
        if bucket_seconds is not None and (bucket_seconds <= 0 or bucket_seconds % self.bucket_seconds):
            raise ValueError(f"a time bucket must be a multiple of {self.bucket_seconds} s, not {bucket_seconds}")
        return Span(since, until, bucket_seconds)

    def withdrawn_devices(self, profile: int) -> int:
        with self._read() as connection:
            return connection.value(
                f"""SELECT COUNT(*) FROM {{device}} AS device JOIN {{test_state}} AS test_state {connection.same_device}
                    WHERE cause != 0 AND withdrawn != 0 AND profile = ?""",
                (profile,),
            )

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
            return read_audit(connection, device=device, limit=limit, before=before)

    def devices(self, only: Ints | None = None) -> DeviceTable:
        with self._read() as connection:
            return read_devices(connection, only)

    def newest_reports(self) -> NewestReports:
        with self._read() as connection:
            return read_newest_reports(connection)

    @contextmanager
    def history(self) -> Iterator[Iterator[tuple[LogTable, GapTable]]]:
        with self._read_long() as connection:
            yield (as_tables(columns, last) for scope in connection.scopes() for last, columns in read_columns(scope))

    def exposed(self) -> DeviceTable:
        with self._read() as connection:
            return read_devices(connection, where="cause != 0")

    def device_reports(self, only: Ints | None = None) -> dict[int, dict[Verdict, int]]:
        reports: dict[int, dict[Verdict, int]] = {}
        with self._read() as connection:
            for device, verdict, count in read_reports(connection, only):
                reports.setdefault(device, {})[Verdict(verdict)] = count
        return reports

    def forfeited_reports(self, only: Ints) -> dict[int, int]:
        with self._read() as connection:
            return dict(read_forfeited(connection, only))

    def unanswered(self, only: Ints | None = None) -> dict[int, int]:
        with self._read() as connection:
            return read_asked(connection, only)

    def first_received(self) -> float | None:
        with self._read() as connection:
            return connection.value(_FIRST_RECEIVED) / 1000 or None

    def counts(self) -> Counts:
        with self._read() as connection:
            kinds = read_counters(connection)
            generation = connection.value(_GENERATION)
            pardons = connection.value("SELECT COUNT(*) FROM {audit} AS audit WHERE cause != 0")
            ((exposed, withdrawn),) = connection.rows(_EXPOSED)
        judged, replayed = kinds.get("verdict", {}), kinds.get("replayed", {})
        return Counts(
            verdicts={verdict: judged.get(verdict, 0) - replayed.get(verdict, 0) for verdict in Verdict},
            replayed={Verdict(key): value for key, value in replayed.items()},
            pardons=pardons,
            withdrawn_past=kinds.get("withdrawn", {}).get(0, 0),
            exposed_devices=exposed,
            withdrawn_devices=withdrawn,
            quarantined=sum(kinds.get("held", {}).values()),
            quarantined_bytes=sum(kinds.get("held_bytes", {}).values()),
            dropped={Verdict(key): value for key, value in kinds.get("dropped", {}).items()},
            gaps=kinds.get("gap", {}).get(0, 0),
            generation=generation,
        )


class SqlStore(SqlArchive, Store):
    """A store that reads like an archive."""

    def stores(self) -> Iterator[Store]:
        yield self

    def read_coins(self, only: Ints) -> tuple[bytes, CoinTable]:
        with self._read() as connection:
            return read_era(connection), read_coins(connection, only)

    def has_due_coins(self, now: int, latest: int) -> bool:
        with self._read() as connection:
            return has_due(connection, now, latest)

    @contextmanager
    def inspect(self) -> Iterator[Inspection]:
        with self._read_long() as connection:
            extent = read_extent(connection, self.bucket_seconds)
            kept = read_stored_state(connection, extent)
            yield Inspection(
                kept=kept,
                events=lambda: (as_tables(columns, last) for last, columns in read_columns(connection)),
                device_tests=lambda only: read_test_states(connection, only=only),
                bases=lambda only: read_test_states(connection, "test_state_base", only),
                rollups=SqlRollupCheck(connection, extent, kept.pruned_bucket),
            )


def _waiting(connection: Connection) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Return device and number of all reports that wait for coins, in both tables, and whether each has a coin."""
    held = [records for _, records in read_held_records(connection)]
    devices, data = read_waiting(connection)
    reports = Ragged.of(data, WAITING)
    tables = [*held, reports.records]
    device = np.concatenate([*(records["device"] for records in held), devices[reports.at]]).astype(np.int64)
    number, masked = (np.concatenate([records[name] for records in tables]) for name in ("number", "masked"))
    return device, number.astype(np.int64), masked != NO_COIN


def _registry(connection: Connection) -> DirectoryVersion:
    meta: dict[str, int] = dict(connection.scopes()[0].rows("SELECT key, value FROM {meta} AS meta"))
    return DirectoryVersion(*(meta[key] for key in REGISTRY))


def read_stored_state(connection: Connection, extent: Extent) -> StoredState:
    """Read everything except the log and the test states."""
    meta: dict[str, int] = dict(connection.rows("SELECT key, value FROM {meta} AS meta"))
    held = connection.rows(
        "SELECT blamed, COUNT(*), CAST(SUM(LENGTH(raw)) AS BIGINT) FROM {exposure} AS exposure GROUP BY blamed"
    )
    verdicts = connection.rows("SELECT verdict, COUNT(*) FROM {exposure} AS exposure GROUP BY verdict")
    refused = connection.rows("SELECT device, verdict, reports FROM {refused} AS refused")
    return StoredState(
        devices=read_devices(connection),
        played=columns(connection.rows("SELECT DISTINCT device FROM {test_state} AS test_state ORDER BY device"), 1)[0],
        pruned=read_pruned(connection),
        tallies=read_tallies(connection, extent, Span(None, None, extent.bucket_seconds, timed=False)),
        bucket_spans=BucketSpanTable(
            *columns(connection.rows("SELECT device, bucket, lowest, highest FROM {bucket_span} AS bucket_span"), 4)
        ),
        refused={(device, verdict): reports for device, verdict, reports in refused},
        counters=read_counters(connection),
        held={blamed: (count, size) for blamed, count, size in held},
        held_verdicts=dict(verdicts),
        coins=read_coins(connection),
        committed=read_committed(connection),
        waiting=_waiting(connection),
        pardons=[entry for entry in read_audit(connection)[::-1] if entry.action == PARDON],
        convictions=read_exposures(connection, ExposureFilter(verdicts=frozenset({Verdict.STATISTICS})), after=0),
        arrival=meta["arrival"],
        pruned_bucket=meta["pruned_bucket"],
        spans_from=meta["spans_from"],
        fine_from=extent.fine_from,
        day=extent.day,
    )
