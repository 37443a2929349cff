# SPDX-License-Identifier: MIT
"""Tallies of a profile in a span of time: the stored ones, and those of single devices, from the roll-ups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil

import numpy as np
import numpy.typing as npt

from peel_gateway.model.grouping import add_up
from peel_gateway.model.tables import DeviceTallyTable, RollupTable, TallyTable
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.device_sums import NEVER, DeviceSums, Slots
from peel_gateway.storage.sql.rollups import (
    END,
    Chosen,
    Extent,
    Forfeits,
    RollupSums,
    Spans,
    read_extent,
    read_rollups,
    read_spans,
    read_tail,
)
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
    chosen = "" if profile is None else f" AND profile = {profile}"
    parts = [
        f"""SELECT profile, bucket / {size} * {size}, idx, {TALLY_SUMS} FROM {{tally}} AS tally
            WHERE level = {level}{chosen} AND bucket >= {first} AND bucket < {last} GROUP BY 1, 2, 3"""
        for level, first, last in extent.spans(span.begin, span.end, span.size)
    ]
    rows = connection.rows(" UNION ALL ".join(parts)) if parts else []
    return joined_tallies([TallyTable(*columns(rows, 7))])


def read_level_tallies(connection: Connection, level: int) -> list[Ints]:
    """Read the tallies of all units of a level, as the columns of a `TallyTable`."""
    query = f"SELECT profile, bucket, idx, {', '.join(TALLY_COUNTS)} FROM {{tally}} AS tally WHERE level = ?"
    return columns(connection.rows(query, (level,)), 7)


def read_last_cell(connection: Connection, extent: Extent, span: Span, profile: int) -> int:
    """Return the largest cell that has a tally in a span; 0 without tallies."""
    parts = [
        f"""SELECT MAX(idx) AS idx FROM {{tally}} AS tally
            WHERE level = {level} AND profile = {profile} AND bucket >= {first} AND bucket < {last}"""
        for level, first, last in extent.spans(span.begin, span.end, span.size)
    ]
    return connection.value(f"SELECT COALESCE(MAX(idx), 0) FROM ({' UNION ALL '.join(parts)}) AS found") if parts else 0


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
        self.forfeits = Forfeits(connection)

    def of(self, piece: RollupTable) -> Ints:
        """Return 1 for each row that does not count."""
        if not len(self._withdrawn) and not self.forfeits:
            return np.zeros(len(piece), np.int64)
        gone = np.isin(piece.device, self._withdrawn) | (piece.forfeits < self.forfeits.of(piece.device))
        return gone.astype(np.int64)

    def leave_out(self, slots: Slots) -> None:
        """Note the same for the devices of sums."""
        if len(self.forfeits.device):
            slots.leave_out(self.forfeits.device, self.forfeits.count)
        if len(self._withdrawn):
            slots.leave_out(self._withdrawn, NEVER)


def read_forfeits(connection: Connection) -> tuple[Ints, Ints]:
    """Devices, and the events up to which pardons have left their reports withdrawn for ever."""
    query = "SELECT device, forfeited FROM {device} AS device WHERE forfeited != 0 ORDER BY device"
    device, forfeited = columns(connection.rows(query), 2)
    return device, forfeited


_SUMS_AT_ONCE = 250_000
"""Sums that a query has in memory at a time, about 100 bytes each with the estimates from them. One group may have more."""
_DENSE = 8
"""Up to this many places of a table per row, the table of all sums costs less than sorting the rows."""
_MOST_PLACES = 32_000_000


def read_device_tallies(
    connection: Connection, bucket_seconds: int, profile: int, span: Span, only: Ints | None
) -> Iterator[DeviceTallyTable]:
    """Sum the accepted reports of each device, or of some devices (ascending ids), in all partitions.

    Yields tables of some groups of time each, in order. Memory depends on the devices and cells, not on the number of reports.
    """
    query = _DeviceQuery(connection, bucket_seconds, profile, span, only)
    if not query.empty:
        for begin, end in query.parts():
            yield query.read(begin, end)


class _DeviceQuery:
    """A query for sums per device: the extents and tails of its scopes, and how much they have to read."""

    def __init__(
        self, connection: Connection, bucket_seconds: int, profile: int, span: Span, only: Ints | None
    ) -> None:
        self._profile, self._span, self._only = profile, span, only
        self._chosen = None if only is None else Chosen.of(only)
        self._gone = _Gone(connection)
        self._scopes = [(scope, read_extent(scope, bucket_seconds)) for scope in connection.scopes()]
        self._tails = [self._tail(scope, extent) for scope, extent in self._scopes]
        found = [self._spans(extent, span.begin, span.end).measure(scope) for scope, extent in self._scopes] + [
            (*_ends(tail.start), *_ends(tail.device), len(tail)) for tail in self._tails if len(tail)
        ]
        measured = [each for each in found if each is not None]
        self.empty = not measured or (only is not None and not len(only))
        if self.empty:
            return
        first, last, low, high, rows = zip(*measured, strict=True)
        self._rows: int = sum(rows)
        self._low: int = min(low) if only is None else int(only[0])
        self._high: int = max(high) if only is None else int(only[-1])
        size = span.size
        self._first = max(min(first), span.begin) // size * size if size else 0
        self._groups: int = (min(max(last), span.end - 1) - self._first) // size + 1 if size else 1
        self._cells = 1 + max(
            max(read_last_cell(scope, extent, span, profile) for scope, extent in self._scopes),
            max(int(tail.index.max(initial=0)) for tail in self._tails),
        )

    def _tail(self, scope: Connection, extent: Extent) -> RollupTable:
        tail = read_tail(scope, extent, self._gone.forfeits)
        tail = tail.at(
            (tail.start >= self._span.begin) & (tail.start < self._span.end) & (tail.profile == self._profile)
        )
        return tail if self._chosen is None else tail.at(self._chosen.rows(tail.device))

    def _spans(self, extent: Extent, begin: int, end: int) -> Spans:
        return Spans(extent.spans(begin, end, self._span.size), self._profile, self._chosen)

    @property
    def _places(self) -> int:
        """The places of a table of one group's sums."""
        return self._cells * (self._high - self._low + 1 if self._only is None else len(self._only))

    @property
    def _dense(self) -> bool:
        most, ids = max(_SUMS_AT_ONCE, _DENSE * self._rows), self._high - self._low + 1
        return max(self._places, ids) <= _MOST_PLACES and self._places * self._groups <= most

    def parts(self) -> Iterator[tuple[int, int]]:
        """Yield the begin and end of spans that have some groups each, and together all."""
        size, span = self._span.size, self._span
        if size is None:
            yield span.begin, span.end
            return
        each = self._places if self._dense else self._rows // self._groups
        step = max(1, _SUMS_AT_ONCE // max(1, each)) * size
        for begin in range(self._first, self._first + self._groups * size, step):
            yield max(begin, span.begin), min(begin + step, span.end, self._first + self._groups * size)

    def read(self, begin: int, end: int) -> DeviceTallyTable:
        """Return the sums of a part."""
        return self._read_dense(begin, end) if self._dense else self._read_sparse(begin, end)

    def _read_dense(self, begin: int, end: int) -> DeviceTallyTable:
        size = self._span.size
        slots = Slots(self._low, self._high, self._only)
        self._gone.leave_out(slots)
        first = begin // size * size if size else 0
        groups = -(-(end - first) // size) if size else 1
        sums = DeviceSums(slots, self._cells, size, first, groups)
        for (scope, extent), tail in zip(self._scopes, self._tails, strict=True):
            self._spans(extent, begin, end).add_to(sums, scope)
            sums.add_table(tail.at((tail.start >= begin) & (tail.start < end)))
        return sums.table()

    def _read_sparse(self, begin: int, end: int) -> DeviceTallyTable:
        sums, size = RollupSums(4), self._span.size
        for (scope, extent), tail in zip(self._scopes, self._tails, strict=True):
            stored = read_spans(scope, extent.spans(begin, end, size), profile=self._profile, chosen=self._chosen)
            for piece in chain(stored, [tail.at((tail.start >= begin) & (tail.start < end))]):
                start = piece.start // size if size else np.zeros(len(piece), np.int64)
                sums.add([start, piece.device, piece.index, self._gone.of(piece)], [piece.plus, piece.minus])
        start, device, index, state, plus, minus = sums.total()
        return DeviceTallyTable(start * (size or 0), device, index, plus, minus, state)


def _ends(column: Ints) -> tuple[int, int]:
    return int(column.min()), int(column.max())
