# SPDX-License-Identifier: MIT
"""Tallies of a profile in a span of time: the stored ones, and those of single devices, summed from the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_gateway.model.grouping import add_up, up_to
from peel_gateway.model.tables import UNKNOWN_DEVICE, DeviceTallyTable, TallyTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import Columns, signs
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.log import read_columns
from peel_gateway.storage.sql.rows import TALLY_SUMS, columns, read_pruned

__all__ = ["Span", "counted_reports", "read_device_tallies", "read_forfeits", "read_tallies", "recount_tallies"]

Ints = npt.NDArray[np.int64]

_COUNTED = int(Verdict.ACCEPTED)


@dataclass(frozen=True)
class Span:
    """A choice of buckets: those that start in [since, until), grouped by `size` seconds or into one (bucket 0)."""

    since: float | None
    until: float | None
    size: int | None

    @property
    def whole(self) -> bool:
        """Whether it covers everything ever counted, with or without a time."""
        return self.since is None and self.until is None and self.size is None

    @property
    def start(self) -> str:
        """The SQL expression of a row's group."""
        return "0" if self.size is None else "bucket / :size * :size"

    @property
    def conditions(self) -> str:
        """Further conditions of a WHERE clause."""
        if self.whole:
            return ""
        since = "" if self.since is None else " AND bucket >= :since"
        until = "" if self.until is None else " AND bucket < :until"
        return f" AND bucket > 0{since}{until}"  # bucket 0 holds reports without a time

    @property
    def values(self) -> dict[str, float | None]:
        """The parameters of `start` and `conditions`."""
        return {"since": self.since, "until": self.until, "size": self.size}

    def starts(self, bucket: Ints) -> Ints:
        """Return the group of each bucket, -1 outside the span."""
        start = np.zeros(len(bucket), np.int64) if self.size is None else bucket // self.size * self.size
        within = np.ones(len(bucket), np.bool_) if self.whole else bucket > 0
        if self.since is not None:
            within &= bucket >= self.since
        if self.until is not None:
            within &= bucket < self.until
        return np.where(within, start, -1)


def read_tallies(connection: Connection, profile: int, span: Span) -> TallyTable:
    """Read the stored tallies."""
    query = f"""SELECT profile, {span.start} AS start, idx, {TALLY_SUMS} FROM {{tally}} AS tally
                WHERE profile = :profile{span.conditions} GROUP BY profile, start, idx ORDER BY start, idx"""
    return TallyTable(*columns(connection.rows(query, {"profile": profile, **span.values}), 7))


def counted_reports(connection: Connection, devices: Sequence[int]) -> TallyTable:
    """Return the accepted, not forfeited reports of devices, in the withdrawn columns. A withdrawal or pardon moves these.

    Pruned reports are in bucket 0.
    """
    sums, forfeits = _Sums(3), read_forfeits(connection)
    for piece in _accepted(connection):
        mine = np.isin(piece["device"], devices) & ~up_to(*forfeits, piece["device"], piece["arrival"])
        sums.add([piece["profile"][mine], piece["bucket"][mine], piece["index"][mine]], signs(piece["marks"][mine]))
    pruned = read_pruned(connection)
    mine = np.isin(pruned.device, devices) & (pruned.verdict == _COUNTED) & (pruned.forfeited == 0)
    sums.add_sums(
        [pruned.profile[mine], 0 * pruned.profile[mine], pruned.index[mine]], [pruned.plus[mine], pruned.minus[mine]]
    )
    profile, bucket, index, plus, minus = sums.total()
    return TallyTable(profile, bucket, index, 0 * plus, 0 * minus, plus, minus)


def recount_tallies(connection: Connection) -> TallyTable:
    """Sum the tallies again from a partition's log and pruned reports, which are in bucket 0."""
    sums, forfeits, withdrawn = _Sums(4), read_forfeits(connection), _read_withdrawn(connection)
    for piece in _accepted(connection):
        gone = np.isin(piece["device"], withdrawn) | up_to(*forfeits, piece["device"], piece["arrival"])
        sums.add([piece["profile"], piece["bucket"], piece["index"], gone], signs(piece["marks"]))
    pruned = read_pruned(connection)
    mine = pruned.verdict == _COUNTED
    gone = (np.isin(pruned.device, withdrawn) | (pruned.forfeited != 0))[mine]
    keys = [pruned.profile[mine], 0 * pruned.profile[mine], pruned.index[mine], gone]
    sums.add_sums(keys, [pruned.plus[mine], pruned.minus[mine]])
    profile, bucket, index, state, plus, minus = sums.total()
    keys, values = add_up([profile, bucket, index], [plus, minus, plus * state, minus * state])
    return TallyTable(*keys, *values)


def _read_withdrawn(connection: Connection) -> Ints:
    """Devices whose reports do not count."""
    query = "SELECT device FROM {device} AS device WHERE cause != 0 AND withdrawn != 0"
    (withdrawn,) = columns(connection.rows(query), 1)
    return withdrawn


def read_forfeits(connection: Connection) -> tuple[Ints, Ints]:
    """Devices, and the events up to which pardons have left their reports withdrawn for ever."""
    query = "SELECT device, forfeited FROM {device} AS device WHERE forfeited != 0 ORDER BY device"
    device, forfeited = columns(connection.rows(query), 2)
    return device, forfeited


def read_device_tallies(connection: Connection, profile: int, span: Span) -> DeviceTallyTable:
    """Sum the accepted reports of each device; what retention has dropped is of nobody known, but in the sum over the whole time."""
    sums, forfeits, withdrawn = _Sums(4), read_forfeits(connection), _read_withdrawn(connection)
    for piece in _accepted(connection):
        start = span.starts(piece["bucket"].astype(np.int64))
        mine = (piece["profile"] == profile) & (start >= 0)
        device = piece["device"][mine].astype(np.int64)
        gone = np.isin(device, withdrawn) | up_to(*forfeits, device, piece["arrival"][mine])
        sums.add([start[mine], device, piece["index"][mine], gone], signs(piece["marks"][mine]))
    if span.whole:
        pruned = read_pruned(connection)
        mine = (pruned.profile == profile) & (pruned.verdict == _COUNTED)
        gone = (np.isin(pruned.device, withdrawn) | (pruned.forfeited != 0))[mine]
        keys = [0 * pruned.device[mine], pruned.device[mine], pruned.index[mine], gone]
        sums.add_sums(keys, [pruned.plus[mine], pruned.minus[mine]])
    start, device, index, state, plus, minus = sums.total()
    known = DeviceTallyTable(start, device, index, plus, minus, state)
    return known if span.whole else _with_unknown(known, read_tallies(connection, profile, span))


def _with_unknown(known: DeviceTallyTable, tallies: TallyTable) -> DeviceTallyTable:
    """Add the tallies beyond the devices' sums as an unknown device: these reports were pruned."""
    none = np.zeros(len(tallies), np.int64)
    parts = []
    for withdrawn, kept in (
        (0, (tallies.plus - tallies.withdrawn_plus, tallies.minus - tallies.withdrawn_minus)),
        (1, (tallies.withdrawn_plus, tallies.withdrawn_minus)),
    ):
        mine = known.withdrawn == withdrawn
        sums = _Sums(2)
        sums.add_sums([tallies.bucket, tallies.index], kept)
        sums.add_sums([known.bucket[mine], known.index[mine]], [-known.plus[mine], -known.minus[mine]])
        bucket, index, plus, minus = sums.total()
        rest = (plus > 0) | (minus > 0)
        none = np.zeros(np.count_nonzero(rest), np.int64)
        parts.append([bucket[rest], none + UNKNOWN_DEVICE, index[rest], plus[rest], minus[rest], none + withdrawn])
    parts.append([getattr(known, each.name) for each in fields(known)])
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort((joined[5], joined[2], joined[1], joined[0]))
    return DeviceTallyTable(*(column[order] for column in joined))


def _accepted(connection: Connection) -> Iterator[Columns]:
    """Yield accepted reports with their arrivals, in pieces."""
    for last, piece in read_columns(connection, ("device", "profile", "bucket", "index", "verdict", "marks")):
        counted = np.flatnonzero(piece["verdict"] == _COUNTED)
        arrival = last - len(piece["verdict"]) + 1 + counted
        yield {"arrival": arrival} | {name: column[counted] for name, column in piece.items()}


class _Sums:
    """Sums of plus and minus reports by key columns. Many pieces are folded into one."""

    _ROWS = 1_000_000

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._parts: list[list[Ints]] = [[np.zeros(0, np.int64) for _ in range(keys + 2)]]

    def add(self, keys: Sequence[npt.NDArray[Any]], sign: Ints) -> None:
        """Add single reports."""
        self.add_sums(keys, [(sign > 0).astype(np.int64), (sign < 0).astype(np.int64)])

    def add_sums(self, keys: Sequence[npt.NDArray[Any]], sums: Sequence[Ints]) -> None:
        """Add sums of plus and minus reports."""
        unique, added = add_up([key.astype(np.int64) for key in keys], sums)
        self._parts.append([*unique, *added])
        if sum(len(part[0]) for part in self._parts[1:]) > self._ROWS:
            self._parts = [self.total()]

    def total(self) -> list[Ints]:
        """Return the key columns in ascending order, then plus and minus."""
        columns = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        keys, sums = add_up(columns[: self._keys], columns[self._keys :])
        return [*keys, *sums]
