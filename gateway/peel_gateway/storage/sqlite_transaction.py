# SPDX-License-Identifier: MIT
"""One write transaction on SQLite: the engine's lookups, and all effects of a batch."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields

import numpy as np
import numpy.typing as npt

from peel_gateway.screening.clock import Moment
from peel_gateway.screening.verdict import Verdict
from peel_gateway.storage.store import (
    EVIDENCE_COLUMNS,
    BatchWrite,
    DeviceTable,
    EvidenceTable,
    Exposure,
    GapTable,
    LogTable,
    TallyTable,
    Transaction,
    Written,
)

__all__ = [
    "DEVICE_COLUMNS",
    "REPORTS_SQL",
    "Limits",
    "SqliteTransaction",
    "add_counts",
    "add_tallies",
    "columns",
    "read_devices",
    "read_evidence",
]

Ints = npt.NDArray[np.int64]

DEVICE_COLUMNS = (
    "device", "first_number", "first_tick", "last_number", "settled", "low_water",
    "sealed", "cause", "cause_time", "withdrawn", "first_received", "last_received", "quota", "period",
)  # fmt: skip

REPORTS_SQL = """
    SELECT device, profile, received / 1000 / :bucket * :bucket AS bucket, idx, verdict,
           sign > 0 AS plus, sign < 0 AS minus, sign = cohort AS agree, sign = -cohort AS disagree, late = 0 AS fresh
    FROM log
    UNION ALL
    SELECT device, profile, bucket, idx, verdict, plus, minus, agree, disagree, fresh FROM pruned
"""
"""Every report ever logged, pruned ones as sums: what all cached numbers are functions of."""

_CHUNK = 500
_VERDICT_BITS = 8
_MAY_LEAVE = f"""
    (blamed = 0 OR verdict != {int(Verdict.STATISTICS)} AND EXISTS (
        SELECT 1 FROM exposure AS earlier
        WHERE earlier.blamed = 1 AND earlier.device = exposure.device AND earlier.id < exposure.id))
"""  # noqa: S608


class Limits:
    """How much the quarantine holds, for each of its two classes: blamed on a device, and not."""

    def __init__(self, *, rows: int, size: int) -> None:
        self.rows = rows
        self.size = size
        self.device_rows = max(100, rows // 100)
        """Exposures that are held of one device at a time, beside the one by statistics."""


def columns(rows: Sequence[Sequence[int]], count: int) -> list[Ints]:
    """Turn rows of integers into `count` arrays."""
    if not rows:
        return [np.zeros(0, np.int64) for _ in range(count)]
    return [np.ascontiguousarray(column) for column in np.array(rows, dtype=np.int64).T]


def _rows(*arrays: Ints) -> Iterable[tuple[int, ...]]:
    return zip(*(array.tolist() for array in arrays), strict=True)


def read_devices(connection: sqlite3.Connection) -> DeviceTable:
    """Read all device states."""
    rows = connection.execute(f"SELECT {', '.join(DEVICE_COLUMNS)} FROM device ORDER BY device").fetchall()  # noqa: S608
    return DeviceTable(**dict(zip(DEVICE_COLUMNS, columns(rows, len(DEVICE_COLUMNS)), strict=True)))


def read_evidence(connection: sqlite3.Connection) -> EvidenceTable:
    """Read all counts of the statistics layer."""
    names = ", ".join(EVIDENCE_COLUMNS)
    rows = connection.execute(f"SELECT device, profile, idx, {names} FROM evidence").fetchall()  # noqa: S608
    device, profile, index, *counts = columns(rows, 3 + len(EVIDENCE_COLUMNS))
    return EvidenceTable(device, profile, index, np.stack(counts, axis=1))


def add_tallies(connection: sqlite3.Connection, tallies: TallyTable) -> None:
    """Add to the tallies."""
    connection.executemany(
        """INSERT INTO tally VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
           plus = plus + excluded.plus, minus = minus + excluded.minus,
           withdrawn_plus = withdrawn_plus + excluded.withdrawn_plus,
           withdrawn_minus = withdrawn_minus + excluded.withdrawn_minus""",
        _rows(
            tallies.profile, tallies.bucket, tallies.index,
            tallies.plus, tallies.minus, tallies.withdrawn_plus, tallies.withdrawn_minus,
        ),
    )  # fmt: skip


def add_counts(connection: sqlite3.Connection, kind: str, counts: Mapping[int, int]) -> None:
    """Add to the counters of a kind."""
    connection.executemany(
        "INSERT INTO counter VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value",
        [(kind, int(key), value) for key, value in counts.items() if value],
    )


class SqliteTransaction(Transaction):
    """See `Transaction`; the store begins, commits and rolls back."""

    def __init__(self, connection: sqlite3.Connection, bucket_seconds: int, limits: Limits) -> None:
        self._connection = connection
        self._bucket = bucket_seconds
        self._limits = limits
        self._meta: dict[str, int] = dict(connection.execute("SELECT key, value FROM meta"))

    @property
    def generation(self) -> int:
        return self._meta["generation"]

    def clock(self) -> Moment:
        return Moment(**{each.name: self._meta[each.name] for each in fields(Moment)})

    def set_clock(self, moment: Moment) -> None:
        self._set_meta(asdict(moment))

    def devices(self) -> DeviceTable:
        return read_devices(self._connection)

    def evidence(self) -> EvidenceTable:
        return read_evidence(self._connection)

    def totals(self) -> TallyTable:
        rows = self._connection.execute(
            """SELECT profile, 0, idx, SUM(plus), SUM(minus), SUM(withdrawn_plus), SUM(withdrawn_minus)
               FROM tally GROUP BY profile, idx"""
        ).fetchall()
        return TallyTable(*columns(rows, 7))

    def _ask(self, devices: Ints, low: Ints, high: Ints) -> None:
        self._connection.execute("DELETE FROM temp.asked")
        positions = np.arange(len(devices))
        self._connection.executemany("INSERT INTO temp.asked VALUES (?, ?, ?, ?)", _rows(positions, devices, low, high))

    def bodies(self, devices: Ints, numbers: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
        found = np.zeros(len(devices), np.bool_)
        bodies = np.zeros(len(devices), np.int64)
        if len(devices):
            self._ask(devices, numbers, numbers)
            rows = self._connection.execute(
                """SELECT position, body FROM temp.asked AS asked CROSS JOIN log
                   ON log.device = asked.device AND log.number = asked.low"""
            ).fetchall()
            position, body = columns(rows, 2)
            found[position] = True
            bodies[position] = body
        return found, bodies

    def numbers(self, devices: Ints, above: Ints, upto: Ints) -> tuple[Ints, Ints]:
        if not len(devices):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._ask(devices, above, upto)
        rows = self._connection.execute(
            """SELECT log.device, log.number FROM temp.asked AS asked CROSS JOIN log
               ON log.device = asked.device AND log.number > asked.low AND log.number <= asked.high"""
        ).fetchall()
        device, number = columns(rows, 2)
        return device, number

    def known_digests(self, digests: Sequence[bytes]) -> set[bytes]:
        known: set[bytes] = set()
        for start in range(0, len(digests), _CHUNK):
            chunk = digests[start : start + _CHUNK]
            marks = ", ".join("?" * len(chunk))
            query = f"SELECT digest FROM exposure WHERE digest IN ({marks})"  # noqa: S608
            known.update(row[0] for row in self._connection.execute(query, chunk))
        return known

    def take(self, ids: Sequence[int]) -> None:
        for start in range(0, len(ids), _CHUNK):
            chunk = ids[start : start + _CHUNK]
            marks = ", ".join("?" * len(chunk))
            query = f"SELECT id, verdict, blamed, LENGTH(raw) FROM exposure WHERE id IN ({marks})"  # noqa: S608
            taken = self._connection.execute(query, chunk).fetchall()
            self._release(taken)
            counted = Counter(verdict for _, verdict, _, _ in taken)
            add_counts(self._connection, "verdict", {verdict: -count for verdict, count in counted.items()})

    def write(self, batch: BatchWrite) -> Written:
        self._insert_log(batch.log)
        self._add_device_reports(batch.log)
        self._insert_gaps(batch.gaps)
        self._put_devices(batch.devices)
        self._add_evidence(batch.evidence)
        add_tallies(self._connection, batch.tallies)
        left = self._withdraw(batch.withdrawn)
        add_counts(self._connection, "verdict", {int(verdict): count for verdict, count in batch.counts.items()})
        dropped = self._insert_exposures(batch.exposures)
        self._set_meta({"generation": self.generation + 1} | asdict(batch.moment))
        return Written(dropped, left)

    def _set_meta(self, values: Mapping[str, int]) -> None:
        self._meta |= values
        self._connection.executemany(
            "UPDATE meta SET value = ? WHERE key = ?", [(value, key) for key, value in values.items()]
        )

    def _insert_log(self, log: LogTable) -> None:
        self._connection.executemany(
            "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            _rows(
                log.device, log.number, log.profile, log.received, log.verdict,
                log.index, log.sign, log.cohort, log.late, log.body,
            ),
        )  # fmt: skip

    def _add_device_reports(self, log: LogTable) -> None:
        """Count new log rows per device and verdict: a logged verdict is final, neither withdrawal nor retention changes it."""
        keys, reports = np.unique(log.device << _VERDICT_BITS | log.verdict, return_counts=True)
        self._connection.executemany(
            "INSERT INTO device_report VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET reports = reports + excluded.reports",
            _rows(keys >> _VERDICT_BITS, keys & (1 << _VERDICT_BITS) - 1, reports),
        )

    def _insert_gaps(self, gaps: GapTable) -> None:
        self._connection.executemany(
            "INSERT INTO gap VALUES (?, ?, ?, ?)", _rows(gaps.device, gaps.number, gaps.profile, gaps.index)
        )

    def _put_devices(self, devices: DeviceTable) -> None:
        marks = ", ".join("?" * len(DEVICE_COLUMNS))
        self._connection.executemany(
            f"INSERT OR REPLACE INTO device ({', '.join(DEVICE_COLUMNS)}) VALUES ({marks})",  # noqa: S608
            _rows(*(getattr(devices, name) for name in DEVICE_COLUMNS)),
        )

    def _add_evidence(self, evidence: EvidenceTable) -> None:
        marks = ", ".join("?" * (3 + len(EVIDENCE_COLUMNS)))
        sums = ", ".join(f"{name} = {name} + excluded.{name}" for name in EVIDENCE_COLUMNS)
        self._connection.executemany(
            f"INSERT INTO evidence VALUES ({marks}) ON CONFLICT DO UPDATE SET {sums}",  # noqa: S608
            _rows(evidence.device, evidence.profile, evidence.index, *evidence.counts.T),
        )

    def _withdraw(self, devices: Sequence[int]) -> TallyTable:
        """Move what these devices had counted to the withdrawn columns."""
        rows: list[tuple[int, ...]] = []
        for device in devices:
            rows += self._connection.execute(
                f"""SELECT profile, bucket, idx, 0, 0, SUM(plus), SUM(minus) FROM ({REPORTS_SQL})
                    WHERE device = :device AND verdict = :accepted GROUP BY profile, bucket, idx""",  # noqa: S608
                {"bucket": self._bucket, "device": device, "accepted": int(Verdict.ACCEPTED)},
            ).fetchall()
        left = TallyTable(*columns(rows, 7))
        add_tallies(self._connection, left)
        add_counts(self._connection, "withdrawn", {0: int(left.withdrawn_plus.sum() + left.withdrawn_minus.sum())})
        return left

    def _insert_exposures(self, exposures: Sequence[Exposure]) -> int:
        """Hold exposures as far as there is room; return how many were dropped."""
        held = self._within_device_limit(exposures)
        held_ids = {id(each) for each in held}
        surplus = Counter(int(each.verdict) for each in exposures if id(each) not in held_ids)
        add_counts(self._connection, "dropped", surplus)
        self._hold(held)
        return surplus.total() + sum(self._evict(blamed) for blamed in (False, True))

    def _within_device_limit(self, exposures: Sequence[Exposure]) -> list[Exposure]:
        """Leave out what a device has too many of: one that misbehaves all day must not push out what others did."""
        room: dict[int, int] = {}
        within = []
        for each in exposures:
            if each.blamed and each.verdict != Verdict.STATISTICS:
                if each.device not in room:
                    room[each.device] = self._limits.device_rows - self._held_of(each.device)
                room[each.device] -= 1
                if room[each.device] < 0:
                    continue
            within.append(each)
        return within

    def _held_of(self, device: int) -> int:
        query = "SELECT COUNT(*) FROM exposure WHERE blamed = 1 AND device = ?"
        return int(self._connection.execute(query, (device,)).fetchone()[0])

    def _hold(self, exposures: Sequence[Exposure]) -> None:
        self._connection.executemany(
            """INSERT INTO exposure (verdict, blamed, device, number, profile, received, topic, raw, digest, evidence)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
            [
                (
                    int(each.verdict), int(each.blamed), each.device, each.number, each.profile,
                    round(each.received * 1000), each.topic, each.raw, each.digest,
                    json.dumps(dict(each.evidence), separators=(",", ":")),
                )
                for each in exposures
            ],
        )  # fmt: skip
        for blamed in (False, True):
            held = [each for each in exposures if each.blamed == blamed]
            add_counts(self._connection, "held", {int(blamed): len(held)})
            add_counts(self._connection, "held_bytes", {int(blamed): sum(len(each.raw) for each in held)})

    def _evict(self, blamed: bool) -> int:
        """Make room in one class, oldest first; what first exposed a device stays, and so does its exposure by statistics."""
        dropped = 0
        while True:
            rows, size = self._counter("held", blamed), self._counter("held_bytes", blamed)
            if rows <= self._limits.rows and size <= self._limits.size:
                return dropped
            oldest = self._connection.execute(
                f"""SELECT id, verdict, blamed, LENGTH(raw) FROM exposure
                    WHERE blamed = ? AND {_MAY_LEAVE} ORDER BY id LIMIT ?""",  # noqa: S608
                (int(blamed), max(_CHUNK, rows - self._limits.rows)),
            ).fetchall()
            if not oldest:
                return dropped
            leaving = []
            for row in oldest:
                if rows <= self._limits.rows and size <= self._limits.size:
                    break
                leaving.append(row)
                rows, size = rows - 1, size - row[3]
            self._release(leaving)
            add_counts(self._connection, "dropped", Counter(row[1] for row in leaving))
            dropped += len(leaving)

    def _release(self, rows: Sequence[tuple[int, int, int, int]]) -> None:
        """Delete exposures given as (id, verdict, blamed, bytes) and keep the sums of what is held."""
        self._connection.executemany("DELETE FROM exposure WHERE id = ?", [(row[0],) for row in rows])
        held: Counter[int] = Counter()
        size: Counter[int] = Counter()
        for _, _, blamed, length in rows:
            held[blamed] -= 1
            size[blamed] -= length
        add_counts(self._connection, "held", held)
        add_counts(self._connection, "held_bytes", size)

    def _counter(self, kind: str, key: int) -> int:
        row = self._connection.execute(
            "SELECT value FROM counter WHERE kind = ? AND key = ?", (kind, int(key))
        ).fetchone()
        return int(row[0]) if row else 0
