# SPDX-License-Identifier: MIT
"""The write transaction: the engine's lookups, and the effects of a batch."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from peel_gateway.model.coins import CoinTable, DueReports, Ragged, Records
from peel_gateway.model.exposure import AuditEntry
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.grouping import add_up, extremes
from peel_gateway.model.tables import (
    MOVING_COLUMNS,
    STATE_COLUMNS,
    Aged,
    BucketSpanTable,
    DeviceTable,
    DeviceTestTable,
    Effects,
    Found,
    GapTable,
    LogTable,
    Questions,
    TallyTable,
    Written,
)
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.sql import audit, coins, retention
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.log import append, read_tables
from peel_gateway.storage.sql.quarantine import Limits, Quarantine
from peel_gateway.storage.sql.rollups import Extent, add_rollups, add_tallies, build, drop_fine, read_tail
from peel_gateway.storage.sql.rows import (
    add_counts,
    columns,
    in_chunks,
    put_test_states,
    read_devices,
    read_test_states,
)
from peel_gateway.storage.sql.tallies import Span, counted_reports, read_tallies
from peel_gateway.storage.store import Transaction

__all__ = ["SqlTransaction"]

Ints = npt.NDArray[np.int64]

_TAIL_EVENTS = 32_768
"""The roll-ups follow once the log has this many more events. Queries read these from the log, in some milliseconds."""
_LATE_SECONDS = 600
"""Units of time are built this long after their end, so that few reports come later."""

_LASTING = tuple(name for name in STATE_COLUMNS if name not in MOVING_COLUMNS)


class SqlTransaction(Transaction):
    """Implements `Transaction`; the store begins, commits and rolls back."""

    def __init__(
        self, connection: Connection, bucket_seconds: int, limits: Limits, give_back: Callable[[], bool]
    ) -> None:
        self._connection = connection
        self._bucket = bucket_seconds
        self._quarantine = Quarantine(connection, limits)
        self._give_back = give_back
        self._meta: dict[str, int] = dict(connection.rows("SELECT key, value FROM {meta} AS meta"))

    @property
    def generation(self) -> int:
        return self._meta["generation"]

    def clock(self) -> GatewayTime:
        return GatewayTime(**{each.name: self._meta[each.name] for each in fields(GatewayTime)})

    def set_clock(self, moment: GatewayTime) -> None:
        self._set_meta(vars(moment))

    @property
    def arrival(self) -> int:
        return self._meta["arrival"]

    @property
    def checkpointed(self) -> int:
        return self._meta["checkpointed"]

    def devices(self, only: Ints) -> DeviceTable:
        return read_devices(self._connection, only)

    def device_tests(self, only: Ints) -> DeviceTestTable:
        return read_test_states(self._connection, only=only)

    def checkpoint(self, device_tests: DeviceTestTable, upto: int) -> None:
        put_test_states(self._connection, device_tests)
        self._set_meta({"checkpointed": upto})

    def bases(self, only: Ints) -> DeviceTestTable:
        return read_test_states(self._connection, "test_state_base", only)

    def events(self, after: int) -> tuple[LogTable, GapTable]:
        return read_tables(self._connection, after=after)

    @property
    def _extent(self) -> Extent:
        return Extent(self._bucket, **{name: self._meta[name] for name in ("summed", "built", "fine_from")})

    def _roll(self) -> None:
        """Add all events to the roll-ups."""
        if self._meta["summed"] < self.arrival:
            add_rollups(self._connection, self._extent, read_tail(self._connection, self._extent))
            self._set_meta({"summed": self.arrival})

    def roll_up(self, now: float) -> bool:
        self._roll()
        before = self._extent
        after = build(self._connection, before, int(now) - _LATE_SECONDS)
        self._set_meta({"built": after.built})
        return after.built > before.built

    def drop_fine(self, before: float) -> None:
        after = drop_fine(self._connection, self._extent, int(before))
        if after != self._extent:
            self._set_meta({"generation": self.generation + 1, "fine_from": after.fine_from})

    def aged(self, before: float, now: float) -> Aged:
        return retention.aged(self._connection, round(before * 1000), round(now * 1000))

    def prune(self, aged: Aged, bases: DeviceTestTable) -> None:
        self._roll()
        put_test_states(self._connection, bases, "test_state_base")
        retention.prune(self._connection, aged)
        bucket = max(self._meta["pruned_bucket"], int(aged.log.bucket.max(initial=0)))
        sealed = max(self._meta["sealed"], aged.arrival)
        checkpointed = max(self.checkpointed, aged.arrival)
        self._set_meta(
            {
                "generation": self.generation + 1,
                "pruned_bucket": bucket,
                "sealed": sealed,
                "checkpointed": checkpointed,
            }
        )

    def pardon(self, device: int, *, restore: bool, reason: str, who: str, moment: GatewayTime) -> AuditEntry | None:
        self._roll()
        entry = audit.pardon(
            self._connection, self._extent, device, restore=restore, reason=reason, who=who, now=moment.seen
        )
        if entry:
            coins.void_coins(self._connection, np.array([device], np.int64))
            self._set_meta({"generation": self.generation + 1} | vars(moment))
        return entry

    def release(self, device: int, *, reason: str, who: str, moment: GatewayTime) -> AuditEntry | None:
        entry = audit.release(self._connection, device, reason=reason, who=who, now=moment.seen)
        if entry:
            self._set_meta({"generation": self.generation + 1} | vars(moment))
        return entry

    @property
    def era(self) -> bytes:
        return coins.pack_era(self._meta["era"], self._meta["era_salt"])

    def begin_era(self, now: int) -> int:
        begin = max(now, self._meta["era"] + 1)
        self._set_meta({"generation": self.generation + 1, "era": begin, "era_salt": secrets.randbits(32)})
        return coins.void_coins(self._connection)

    @property
    def mark(self) -> int:
        return self._meta["mark"]

    def renew_mark(self, mark: int) -> None:
        self._set_meta({"mark": mark})

    def coins(self, only: Ints) -> CoinTable:
        return coins.read_coins(self._connection, only)

    def due_devices(self, limit: int) -> Ints:
        return coins.read_due_devices(self._connection, limit)

    def put_coins(self, table: CoinTable) -> None:
        coins.put_coins(self._connection, table)

    def void_coins(self, only: Ints) -> None:
        coins.void_coins(self._connection, only)

    def roots(self, device: Ints, first: Ints) -> npt.NDArray[np.uint8]:
        return coins.read_roots(self._connection, device, first)

    def put_roots(self, device: Ints, first: Ints, roots: npt.NDArray[np.uint8]) -> None:
        coins.put_roots(self._connection, device, first, roots)

    def remove_roots(self, device: Ints, first: Ints) -> None:
        coins.remove_roots(self._connection, device, first)

    def append_held(self, due: int, records: Records) -> None:
        coins.append_held(self._connection, due, self.arrival, records)

    def held_records(self) -> list[tuple[int, Records]]:
        return coins.read_held_records(self._connection)

    def due_reports(self, now: int, latest: int) -> DueReports:
        return coins.read_due_reports(self._connection, now, latest)

    def remove_due_reports(self, reports: DueReports) -> None:
        coins.remove_due_reports(self._connection, reports)

    def waiting(self, only: Ints) -> tuple[Ints, list[bytes]]:
        return coins.read_waiting(self._connection, only)

    def put_waiting(self, device: Ints, reports: Ragged) -> None:
        coins.put_waiting(self._connection, device, reports)

    def forget_bucket_spans(self, before: int) -> None:
        retention.forget_bucket_spans(self._connection, before)
        self._set_meta({"spans_from": before})

    def give_back(self) -> bool:
        return self._give_back()

    def totals(self) -> TallyTable:
        return read_tallies(self._connection, self._extent, Span(None, None, None))

    def find(self, questions: Questions) -> Found:
        return Found(
            digests=self._known_digests(questions.digests),
            bucket_spans=self._bucket_spans(questions.span_device, questions.span_from, questions.span_upto),
        )

    def _bucket_spans(self, devices: Ints, begins: Ints, upto: int) -> BucketSpanTable:
        """Return devices' number ranges from each one's `begin` on. One lookup per bucket: rows of one time are adjacent.

        `upto` bounds the search: a clock that once was ahead leaves buckets far in the future.
        """
        if not len(devices):
            return BucketSpanTable(*columns([], 4))
        asked, values = self._connection.asked(devices, begins)
        rows = self._connection.rows(
            f"""WITH RECURSIVE time (bucket) AS (
                    SELECT CAST(:begin AS BIGINT)
                    UNION ALL SELECT bucket + :size FROM time
                    WHERE bucket < :upto AND bucket < (SELECT MAX(bucket) FROM {{bucket_span}} AS bucket_span))
                SELECT bucket_span.device, bucket_span.bucket, bucket_span.lowest, bucket_span.highest
                FROM {asked} AS asked CROSS JOIN time CROSS JOIN {{bucket_span}} AS bucket_span
                WHERE bucket_span.bucket = time.bucket AND bucket_span.device = asked.device AND time.bucket >= asked.begin
                ORDER BY bucket_span.device, bucket_span.bucket""",
            {"begin": int(begins.min()), "upto": upto, "size": self._bucket, **values},
        )
        return BucketSpanTable(*columns(rows, 4))

    def _known_digests(self, digests: Sequence[bytes]) -> frozenset[bytes]:
        known: set[bytes] = set()
        for marks, chunk in in_chunks(digests):
            query = f"SELECT digest FROM {{exposure}} AS exposure WHERE digest IN ({marks})"
            known.update(row[0] for row in self._connection.rows(query, chunk))
        return frozenset(known)

    def take(self, ids: Sequence[int]) -> None:
        counted = self._quarantine.take(ids)
        add_counts(self._connection, "replayed", counted)

    def write(self, effects: Effects) -> Written:
        sealed = append(self._connection, effects.log, effects.gaps, last=effects.arrival, sealed=self._meta["sealed"])
        self._add_refused(effects.log)
        add_counts(self._connection, "gap", {0: len(effects.gaps)})
        self._put_devices(effects.devices, effects.lasting)
        put_test_states(self._connection, effects.device_tests)
        add_tallies(self._connection, self._extent, effects.tallies)
        self._widen_bucket_spans(effects.bucket_spans)
        left = self._withdraw(effects.withdrawn)
        add_counts(self._connection, "verdict", {int(verdict): count for verdict, count in effects.counts.items()})
        dropped = self._quarantine.hold(effects.exposures, effects.dropped)
        marks = {"generation": self.generation + 1, "arrival": effects.arrival, "sealed": sealed}
        self._set_meta(marks | vars(effects.moment))
        if effects.arrival - self._meta["summed"] >= _TAIL_EVENTS:
            self._roll()
        return Written(dropped, left)

    def _set_meta(self, values: Mapping[str, int]) -> None:
        self._meta |= values
        self._connection.put("meta", {"key": list(values)}, {"value": list(values.values())})

    def _add_refused(self, log: LogTable) -> None:
        """Count new reports that were neither accepted nor held. A logged verdict is final: withdrawal and retention keep it."""
        rows = np.flatnonzero((log.verdict != Verdict.ACCEPTED) & (log.verdict != Verdict.HELD))
        if not len(rows):
            return
        (device, verdict), (reports,) = add_up([log.device[rows], log.verdict[rows]], [np.ones_like(rows)])
        self._connection.add("refused", {"device": device, "verdict": verdict}, {"reports": reports})

    def _widen_bucket_spans(self, bucket_spans: BucketSpanTable) -> None:
        (bucket, device), lowest, highest = extremes(
            [bucket_spans.bucket, bucket_spans.device], bucket_spans.lowest, bucket_spans.highest
        )
        self._connection.widen("bucket_span", {"bucket": bucket, "device": device}, lowest, highest)

    def _put_devices(self, devices: DeviceTable, lasting: npt.NDArray[np.bool_]) -> None:
        everything = np.ones(len(devices), np.bool_)
        for table, names, rows in (("progress", MOVING_COLUMNS, everything), ("device", _LASTING, lasting)):
            values = {name: getattr(devices, name)[rows] for name in names}
            self._connection.put(table, {"device": devices.device[rows]}, values)

    def _withdraw(self, devices: Sequence[int]) -> TallyTable:
        """Move these devices' accepted reports to the withdrawn columns."""
        if not devices:
            return TallyTable(*columns([], 7))
        left = counted_reports(self._connection, self._extent, devices)
        add_tallies(self._connection, self._extent, left)
        add_counts(self._connection, "withdrawn", {0: int(left.withdrawn_plus.sum() + left.withdrawn_minus.sum())})
        return left
