# SPDX-License-Identifier: MIT
"""Tallies of a profile in a span of time: the stored ones, and those of single devices, from the roll-ups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from peel_gateway.model.grouping import add_up
from peel_gateway.model.tables import DeviceTallyTable, RollupTable, TallyTable
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.rollups import END, Chosen, Extent, Forfeits, RollupSums, read_rollups
from peel_gateway.storage.sql.rows import TALLY_COUNTS, TALLY_SUMS, columns

__all__ = [
    "Span",
    "counted_reports",
    "joined_tallies",
    "read_device_tallies",
    "read_forfeits",
    "read_tallies",
    "recount_tallies",
]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Span:
    """A choice of buckets: those that start in [since, until), grouped by `size` seconds or into one (bucket 0)."""

    since: float | None
    until: float | None
    size: int | None
    timed: bool = True
    """Without a time bound, whether a span with a size leaves out reports without a time."""

    @property
    def whole(self) -> bool:
        """Whether it covers everything ever counted, with or without a time."""
        return self.since is None and self.until is None and (self.size is None or not self.timed)

    @property
    def begin(self) -> int:
        """The first second; 0 includes reports without a time."""
        return 0 if self.whole else max(1, ceil(self.since or 0))

    @property
    def end(self) -> int:
        """The second after the last."""
        return END if self.until is None else ceil(self.until)


def read_tallies(connection: Connection, extent: Extent, span: Span, profile: int | None = None) -> TallyTable:
    """Read the stored tallies of all profiles or one."""
    size = span.size or END
    parts = [columns([], 7)]
    for level, first, last in extent.spans(span.begin, span.end, span.size):
        query = f"""SELECT profile, bucket / :size * :size AS start, idx, {TALLY_SUMS} FROM {{tally}} AS tally
                    WHERE level = :level{"" if profile is None else " AND profile = :profile"} AND bucket >= :first AND bucket < :last
                    GROUP BY profile, start, idx"""
        given = {"size": size, "level": level, "profile": profile, "first": first, "last": last}
        parts.append(columns(connection.rows(query, given), 7))
    return joined_tallies([TallyTable(*part) for part in parts])


def read_level_tallies(connection: Connection, level: int) -> list[Ints]:
    """Read the tallies of all units of a level, as the columns of a `TallyTable`."""
    query = f"SELECT profile, bucket, idx, {', '.join(TALLY_COUNTS)} FROM {{tally}} AS tally WHERE level = ?"
    return columns(connection.rows(query, (level,)), 7)


def joined_tallies(tables: Sequence[TallyTable]) -> TallyTable:
    """Add up tallies."""
    joined = [np.concatenate(column) for column in zip(*(vars(table).values() for table in tables), strict=True)]
    keys, sums = add_up(joined[:3], joined[3:])
    return TallyTable(*keys, *sums)


def counted_reports(connection: Connection, extent: Extent, devices: Sequence[int]) -> TallyTable:
    """Return the accepted, not forfeited reports of devices, in the withdrawn columns. A withdrawal or pardon moves these."""
    sums, forfeits = RollupSums(3), Forfeits(connection)
    chosen = Chosen.of(np.array(devices, np.int64))
    for piece in read_rollups(connection, extent, 0, END, extent.bucket_seconds, chosen=chosen):
        mine = piece.at(piece.forfeits == forfeits.of(piece.device))
        sums.add([mine.profile, mine.start, mine.index], [mine.plus, mine.minus])
    profile, bucket, index, plus, minus = sums.total()
    return TallyTable(profile, bucket, index, 0 * plus, 0 * minus, plus, minus)


def recount_tallies(connection: Connection, extent: Extent) -> TallyTable:
    """Sum the tallies again from a partition's roll-ups."""
    sums, gone = RollupSums(4), _Gone(connection)
    for piece in read_rollups(connection, extent, 0, END, extent.bucket_seconds):
        sums.add([piece.profile, piece.start, piece.index, gone.of(piece)], [piece.plus, piece.minus])
    profile, bucket, index, state, plus, minus = sums.total()
    keys, values = add_up([profile, bucket, index], [plus, minus, plus * state, minus * state])
    return TallyTable(*keys, *values)


class _Gone:
    """The devices whose reports do not count, and the reports that pardons have forfeited."""

    def __init__(self, connection: Connection) -> None:
        query = "SELECT device FROM {device} AS device WHERE cause != 0 AND withdrawn != 0"
        (self._withdrawn,) = columns(connection.rows(query), 1)
        self._forfeits = Forfeits(connection)

    def of(self, piece: RollupTable) -> Ints:
        """Return 1 for each row that does not count."""
        if not len(self._withdrawn) and not self._forfeits:
            return np.zeros(len(piece), np.int64)
        gone = np.isin(piece.device, self._withdrawn) | (piece.forfeits < self._forfeits.of(piece.device))
        return gone.astype(np.int64)


def read_forfeits(connection: Connection) -> tuple[Ints, Ints]:
    """Devices, and the events up to which pardons have left their reports withdrawn for ever."""
    query = "SELECT device, forfeited FROM {device} AS device WHERE forfeited != 0 ORDER BY device"
    device, forfeited = columns(connection.rows(query), 2)
    return device, forfeited


def read_device_tallies(
    connection: Connection, extent: Extent, profile: int, span: Span, only: Ints | None
) -> DeviceTallyTable:
    """Sum the accepted reports of each device, or of some devices (ascending ids)."""
    sums, gone, size = RollupSums(4), _Gone(connection), span.size
    chosen = None if only is None else Chosen.of(only)
    for piece in read_rollups(connection, extent, span.begin, span.end, size, profile=profile, chosen=chosen):
        start = piece.start // size if size else np.zeros(len(piece), np.int64)
        sums.add([start, piece.device, piece.index, gone.of(piece)], [piece.plus, piece.minus])
    start, device, index, state, plus, minus = sums.total()
    return DeviceTallyTable(start * (size or 0), device, index, plus, minus, state)
