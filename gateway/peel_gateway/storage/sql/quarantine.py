# SPDX-License-Identifier: MIT
"""Exposures and quarantined pieces. Their number is bounded; the oldest leave first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from peel_gateway.model.exposure import Exposure, ExposureFilter
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.sql.connection import Connection, Row
from peel_gateway.storage.sql.rows import CHUNK, add_counts, in_chunks

__all__ = ["DEFAULT_BYTES", "DEFAULT_ROWS", "Limits", "Quarantine", "read_exposures"]

_MAY_LEAVE = f"""
    (blamed = 0 OR verdict != {int(Verdict.STATISTICS)} AND EXISTS (
        SELECT 1 FROM {{exposure}} AS earlier
        WHERE earlier.blamed = 1 AND earlier.device = exposure.device AND earlier.id < exposure.id AND earlier.id > COALESCE(
            (SELECT MAX(last_exposure) FROM {{audit}} AS audit WHERE audit.device = exposure.device AND last_exposure < exposure.id), 0)))
"""

_HELD_SINCE_PARDON = """
    SELECT COUNT(*) FROM {exposure} AS exposure WHERE blamed = 1 AND device = :device
    AND id > COALESCE((SELECT MAX(last_exposure) FROM {audit} AS audit WHERE audit.device = :device), 0)
"""


DEFAULT_ROWS = 100_000
DEFAULT_BYTES = 64 * 1024 * 1024


class Limits:
    """Limits for each of two classes: blamed on a device, and not."""

    def __init__(self, *, rows: int, size: int) -> None:
        self.rows = rows
        self.size = size
        self.device_rows = max(100, rows // 100)
        """Exposures that are held of one device at a time, beside the one by statistics."""


class Quarantine:
    """The exposures of a store, within a write transaction."""

    def __init__(self, connection: Connection, limits: Limits) -> None:
        self._connection = connection
        self._limits = limits

    def take(self, ids: Sequence[int]) -> Counter[int]:
        """Remove exposures; return how many there were of each verdict."""
        counted: Counter[int] = Counter()
        for marks, chunk in in_chunks(ids):
            query = f"SELECT id, verdict, blamed, LENGTH(raw) FROM {{exposure}} AS exposure WHERE id IN ({marks})"
            taken = self._connection.rows(query, chunk)
            self._release(taken)
            counted.update(verdict for _, verdict, _, _ in taken)
        return counted

    def hold(self, exposures: Sequence[Exposure], dropped: Mapping[Verdict, int]) -> int:
        """Hold exposures as far as there is room; return how many were dropped, those included that were dropped before."""
        if not exposures and not dropped:
            return 0
        held = self._within_device_limit(exposures)
        held_ids = {id(each) for each in held}
        surplus = Counter(int(each.verdict) for each in exposures if id(each) not in held_ids)
        surplus.update({int(verdict): count for verdict, count in dropped.items()})
        add_counts(self._connection, "dropped", surplus)
        self._insert(held)
        return surplus.total() + sum(self._evict(blamed) for blamed in (False, True))

    def _within_device_limit(self, exposures: Sequence[Exposure]) -> list[Exposure]:
        """Drop exposures beyond a device's own limit, so that one device cannot push out the others'."""
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
        """Return the number of a device's exposures since its last pardon."""
        return self._connection.value(_HELD_SINCE_PARDON, {"device": device})

    def _insert(self, exposures: Sequence[Exposure]) -> None:
        self._connection.insert(
            "exposure",
            ("verdict", "blamed", "device", "number", "profile", "received", "topic", "raw", "digest", "evidence"),
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
        """Delete the oldest of one class. A device's first exposure since each pardon and its exposure by statistics stay."""
        dropped = 0
        while True:
            rows, size = self._counter("held", blamed), self._counter("held_bytes", blamed)
            if rows <= self._limits.rows and size <= self._limits.size:
                return dropped
            oldest = self._connection.rows(
                f"""SELECT id, verdict, blamed, LENGTH(raw) FROM {{exposure}} AS exposure
                    WHERE blamed = ? AND {_MAY_LEAVE} ORDER BY id LIMIT ?""",
                (int(blamed), max(CHUNK, rows - self._limits.rows)),
            )
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

    def _release(self, rows: Sequence[Row]) -> None:
        """Delete exposures, given as (id, verdict, blamed, bytes), and update the sums."""
        for marks, ids in in_chunks([row[0] for row in rows]):
            self._connection.delete("exposure", f"id IN ({marks})", ids)
        held: Counter[int] = Counter()
        size: Counter[int] = Counter()
        for _, _, blamed, length in rows:
            held[blamed] -= 1
            size[blamed] -= length
        add_counts(self._connection, "held", held)
        add_counts(self._connection, "held_bytes", size)

    def _counter(self, kind: str, key: int) -> int:
        query = "SELECT value FROM {counter} AS counter WHERE kind = ? AND key = ?"
        row = self._connection.row(query, (kind, int(key)))
        return int(row[0]) if row else 0


def read_exposures(
    connection: Connection,
    which: ExposureFilter | None = None,
    *,
    limit: int | None = None,
    before: int | None = None,
    after: int | None = None,
    upto: int | None = None,
) -> list[Exposure]:
    """List exposures, newest first, or oldest first with `after`; at most `limit`."""
    conditions, values = _conditions(which or ExposureFilter())
    for condition, bound in (("id < ?", before), ("id > ?", after), ("id <= ?", upto)):
        if bound is not None:
            conditions.append(condition)
            values.append(bound)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    order = "DESC" if after is None else "ASC"
    query = f"""SELECT id, verdict, device, number, profile, received, topic, raw, evidence
                FROM {{exposure}} AS exposure {where} ORDER BY id {order}{"" if limit is None else " LIMIT ?"}"""
    return [
        Exposure(
            id=row[0], verdict=Verdict(row[1]), device=row[2], number=row[3], profile=row[4],
            received=row[5] / 1000, topic=row[6], raw=row[7], evidence=json.loads(row[8]),
        )
        for row in connection.rows(query, values if limit is None else [*values, limit])
    ]  # fmt: skip


def _conditions(which: ExposureFilter) -> tuple[list[str], list[int]]:
    conditions: list[str] = []
    values: list[int] = []
    if which.verdicts:
        conditions.append(f"verdict IN ({', '.join(str(int(verdict)) for verdict in sorted(which.verdicts))})")
    for column, value in (
        ("device = ?", which.device),
        ("received >= ?", None if which.since is None else round(which.since * 1000)),
        ("received < ?", None if which.until is None else round(which.until * 1000)),
        ("blamed = ?", None if which.blamed is None else int(which.blamed)),
    ):
        if value is not None:
            conditions.append(column)
            values.append(value)
    return conditions, values
