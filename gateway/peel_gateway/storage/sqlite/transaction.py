# SPDX-License-Identifier: MIT
"""One write transaction on SQLite: the engine's lookups, and all effects of a batch."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

import numpy as np
import numpy.typing as npt

from peel_gateway.model.audit import AuditEntry
from peel_gateway.model.moment import Moment
from peel_gateway.model.tables import (
    DEVICE_COLUMNS,
    Aged,
    ConductTable,
    DeviceTable,
    Effects,
    FiledTable,
    Found,
    GapTable,
    LogTable,
    Questions,
    TallyTable,
    Written,
)
from peel_gateway.storage.sqlite import audit, retention
from peel_gateway.storage.sqlite.audit import counted_reports
from peel_gateway.storage.sqlite.quarantine import Limits, Quarantine
from peel_gateway.storage.sqlite.rows import (
    GAP_COLUMNS,
    LOG_COLUMNS,
    add_counts,
    add_tallies,
    as_rows,
    columns,
    in_chunks,
    put_conduct,
    read_conduct,
    read_devices,
    read_gaps,
    read_log,
)
from peel_gateway.storage.store import Transaction

__all__ = ["SqliteTransaction"]

Ints = npt.NDArray[np.int64]

_VERDICT_BITS = 8


class SqliteTransaction(Transaction):
    """See `Transaction`; the store begins, commits and rolls back."""

    def __init__(self, connection: sqlite3.Connection, bucket_seconds: int, limits: Limits) -> None:
        self._connection = connection
        self._bucket = bucket_seconds
        self._quarantine = Quarantine(connection, limits)
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

    def conduct(self) -> ConductTable:
        return read_conduct(self._connection)

    def checkpoint(self, conduct: ConductTable) -> None:
        put_conduct(self._connection, conduct)

    def bases(self) -> ConductTable:
        return read_conduct(self._connection, "conduct_base")

    def tail(self) -> tuple[LogTable, GapTable]:
        after = """JOIN device USING (device) LEFT JOIN conduct USING (device, profile)
                   WHERE {0}.arrival > MAX(COALESCE(conduct.arrival, 0), pardoned)"""
        return (
            read_log(self._connection, f"log {after.format('log')}"),
            read_gaps(self._connection, f"gap {after.format('gap')}"),
        )

    def aged(self, before: float) -> Aged:
        return retention.aged(self._connection, round(before * 1000))

    def prune(self, aged: Aged, bases: ConductTable) -> None:
        put_conduct(self._connection, bases, "conduct_base")
        retention.prune(self._connection, aged)
        self._set_meta({"generation": self.generation + 1})

    def pardon(self, device: int, *, restore: bool, reason: str, who: str, moment: Moment) -> AuditEntry | None:
        entry = audit.pardon(self._connection, device, restore=restore, reason=reason, who=who, now=moment.seen)
        if entry:
            self._set_meta({"generation": self.generation + 1} | asdict(moment))
        return entry

    def totals(self) -> TallyTable:
        rows = self._connection.execute(
            """SELECT profile, 0, idx, SUM(plus), SUM(minus), SUM(withdrawn_plus), SUM(withdrawn_minus)
               FROM tally GROUP BY profile, idx"""
        ).fetchall()
        return TallyTable(*columns(rows, 7))

    def _ask(self, devices: Ints, numbers: Ints) -> None:
        self._connection.execute("DELETE FROM temp.asked")
        positions = np.arange(len(devices))
        self._connection.executemany("INSERT INTO temp.asked VALUES (?, ?, ?)", as_rows(positions, devices, numbers))

    def find(self, questions: Questions) -> Found:
        logged, body = self._bodies(questions.device, questions.number)
        device, number = self._numbers(questions.span_device, questions.span_above)
        return Found(
            logged=logged,
            body=body,
            span_device=device,
            span_number=number,
            digests=self._known_digests(questions.digests),
            filed=self._filed(questions.filed_device, questions.filed_from),
        )

    def _bodies(self, devices: Ints, numbers: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
        found = np.zeros(len(devices), np.bool_)
        bodies = np.zeros(len(devices), np.int64)
        if len(devices):
            self._ask(devices, numbers)
            rows = self._connection.execute(
                """SELECT position, body FROM temp.asked AS asked CROSS JOIN log
                   ON log.device = asked.device AND log.number = asked.number"""
            ).fetchall()
            position, body = columns(rows, 2)
            found[position] = True
            bodies[position] = body
        return found, bodies

    def _numbers(self, devices: Ints, above: Ints) -> tuple[Ints, Ints]:
        if not len(devices):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._ask(devices, above)
        rows = self._connection.execute(
            """SELECT log.device, log.number FROM temp.asked AS asked CROSS JOIN log
               ON log.device = asked.device AND log.number > asked.number"""
        ).fetchall()
        device, number = columns(rows, 2)
        return device, number

    def _filed(self, devices: Ints, begins: Ints) -> FiledTable:
        self._ask(devices, begins)
        rows = self._connection.execute(
            """SELECT filed.device, filed.bucket, filed.reports FROM temp.asked AS asked CROSS JOIN filed
               ON filed.device = asked.device AND filed.bucket >= asked.number
               ORDER BY filed.device, filed.bucket"""
        ).fetchall()
        return FiledTable(*columns(rows, 3))

    def _known_digests(self, digests: Sequence[bytes]) -> frozenset[bytes]:
        known: set[bytes] = set()
        for marks, chunk in in_chunks(digests):
            query = f"SELECT digest FROM exposure WHERE digest IN ({marks})"  # noqa: S608
            known.update(row[0] for row in self._connection.execute(query, chunk))
        return frozenset(known)

    def take(self, ids: Sequence[int]) -> None:
        counted = self._quarantine.take(ids)
        add_counts(self._connection, "replayed", counted)

    def write(self, effects: Effects) -> Written:
        self._insert_log(effects.log)
        self._add_device_reports(effects.log)
        self._insert_gaps(effects.gaps)
        self._put_devices(effects.devices)
        put_conduct(self._connection, effects.conduct)
        add_tallies(self._connection, effects.tallies)
        self._add_filed(effects.filed)
        left = self._withdraw(effects.withdrawn)
        add_counts(self._connection, "verdict", {int(verdict): count for verdict, count in effects.counts.items()})
        dropped = self._quarantine.hold(effects.exposures)
        self._set_meta({"generation": self.generation + 1} | asdict(effects.moment))
        return Written(dropped, left)

    def _set_meta(self, values: Mapping[str, int]) -> None:
        self._meta |= values
        self._connection.executemany(
            "UPDATE meta SET value = ? WHERE key = ?", [(value, key) for key, value in values.items()]
        )

    def _insert_log(self, log: LogTable) -> None:
        marks = ", ".join("?" * len(LOG_COLUMNS))
        self._connection.executemany(
            f"INSERT INTO log ({', '.join(LOG_COLUMNS)}) VALUES ({marks})",  # noqa: S608
            as_rows(*(getattr(log, each.name) for each in fields(log))),
        )

    def _add_device_reports(self, log: LogTable) -> None:
        """Count new log rows per device and verdict: a logged verdict is final, neither withdrawal nor retention changes it."""
        keys, reports = np.unique(log.device << _VERDICT_BITS | log.verdict, return_counts=True)
        self._connection.executemany(
            "INSERT INTO device_report VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET reports = reports + excluded.reports",
            as_rows(keys >> _VERDICT_BITS, keys & (1 << _VERDICT_BITS) - 1, reports),
        )

    def _insert_gaps(self, gaps: GapTable) -> None:
        self._connection.executemany(
            f"INSERT INTO gap ({', '.join(GAP_COLUMNS)}) VALUES (?, ?, ?, ?, ?)",  # noqa: S608
            as_rows(gaps.device, gaps.number, gaps.profile, gaps.index, gaps.arrival),
        )
        add_counts(self._connection, "gap", {0: len(gaps)})

    def _add_filed(self, filed: FiledTable) -> None:
        self._connection.executemany(
            "INSERT INTO filed VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET reports = reports + excluded.reports",
            as_rows(filed.device, filed.bucket, filed.reports),
        )

    def _put_devices(self, devices: DeviceTable) -> None:
        marks = ", ".join("?" * len(DEVICE_COLUMNS))
        self._connection.executemany(
            f"INSERT OR REPLACE INTO device ({', '.join(DEVICE_COLUMNS)}) VALUES ({marks})",  # noqa: S608
            as_rows(*(getattr(devices, name) for name in DEVICE_COLUMNS)),
        )

    def _withdraw(self, devices: Sequence[int]) -> TallyTable:
        """Move what these devices had counted to the withdrawn columns."""
        left = counted_reports(self._connection, devices)
        add_tallies(self._connection, left)
        add_counts(self._connection, "withdrawn", {0: int(left.withdrawn_plus.sum() + left.withdrawn_minus.sum())})
        return left
