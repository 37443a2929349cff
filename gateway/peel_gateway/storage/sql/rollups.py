# SPDX-License-Identifier: MIT
"""Roll-ups: the accepted reports of each device and cell, summed by units of time. Queries read them in place of the log.

A *level* has units of one length: a bucket, an hour, six hours, a day, 4, 16, 64 and 256 days. Units nest, so a span of time is a few
large units and some smaller ones at its ends. Level 0 holds the reports without a time.

- `roll` adds the events since the last roll to the smallest units, in the transaction of a batch. Later events, the *tail*, are read from
  the log. It also adds them to the larger units that are built already, for reports that came late.
- `build` makes larger units from smaller ones, once they are over. `meta.built` says how far.
- `drop_fine` deletes units shorter than a day before `meta.fine_from`.

Tallies, the sums over all devices, have the same units. They are written with each batch, and so have no tail.

A row belongs to its device for good. A withdrawal changes no row: a query leaves out the devices that are withdrawn. A pardon that forfeits
reports starts a new count for its device: `forfeits` is the number of such pardons before the reports of a row.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from peel_gateway.model.grouping import add_up
from peel_gateway.model.tables import RollupTable, TallyTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import add_checksum, drop_checksum, signs
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.device_sums import DeviceSums, PackedPiece
from peel_gateway.storage.sql.log import read_columns
from peel_gateway.storage.sql.rows import TALLY_COUNTS, TALLY_SUMS, columns, write_tallies
from peel_gateway.storage.store import StoreCorrupt

__all__ = [
    "DAY",
    "END",
    "UNTIMED",
    "Chosen",
    "Extent",
    "Forfeits",
    "RollupSums",
    "Spans",
    "add_rollups",
    "add_tallies",
    "build",
    "drop_fine",
    "levels_upto",
    "read_extent",
    "read_level",
    "read_rollups",
    "read_spans",
    "read_tail",
    "verify_rollups",
    "write_level",
]

Ints = npt.NDArray[np.int64]

DAY = 86_400
_LENGTHS = (3600, 6 * 3600, DAY, 4 * DAY, 16 * DAY, 64 * DAY, 256 * DAY)
UNTIMED = 0
"""The level of reports without a time."""
END = 2**62
"""After every bucket."""

_CHUNK = 16_384
"""Rows of a stored piece."""
_AT_ONCE = 2_000_000
"""Rows that a build adds up at once; bounds its memory."""
_APART_SECONDS = 86400
"""Units further apart than this are in different pieces."""
_STEP_ROWS = 200_000
"""A transaction of `build` ends after this many rows, because the gateway waits for it."""
_MOST_IDS = 10_000_000
_KEYS = ("profile", "start", "device", "index", "forfeits")


@dataclass(frozen=True)
class Extent:
    """The levels of a partition, and how far each reaches."""

    bucket_seconds: int
    summed: int = 0
    """The last event of the log that is in the roll-ups."""
    built: int = 0
    """Larger units that end at or before this time are built, Unix seconds."""
    fine_from: int = 0
    """Units shorter than a day begin here, at the start of a day."""

    @property
    def levels(self) -> tuple[int, ...]:
        """Seconds of each level's units, ascending; each is a multiple of the one before."""
        found = [self.bucket_seconds]
        for length in _LENGTHS:
            if length > found[-1]:
                found.append(-(-length // found[-1]) * found[-1])
        return tuple(found)

    @property
    def day(self) -> int:
        """The level of days, or of the first longer units."""
        return next(level for level in self.levels if level >= DAY)

    def complete(self, level: int) -> int:
        """Return the time up to which a level has all reports in its units."""
        return END if level <= self.bucket_seconds else self.built // level * level

    def kept(self, start: Ints) -> Ints:
        """Return the starts under which sums of these buckets are kept: days, before the smaller units begin."""
        return np.where(start < self.fine_from, start // self.day * self.day, start)

    def cover(self, begin: int, end: int, group: int | None) -> Iterator[tuple[int, int, int]]:
        """Yield the level, begin and end of units that make up a span of time; no unit has reports of two groups of `group` seconds."""
        fit = [level for level in self.levels if group is None or group % level == 0]
        days = [level for level in fit if level > self.day]
        yield from self._cut(begin, min(end, self.fine_from), [self.day, *days])
        yield from self._cut(max(begin, self.fine_from), end, fit)

    def spans(self, begin: int, end: int, group: int | None) -> list[tuple[int, int, int]]:
        """Return the same as a list. A begin of 0 includes reports without a time."""
        return [*self.cover(begin, end, group), *([] if begin else [(UNTIMED, 0, 1)])]

    def _cut(self, begin: int, end: int, levels: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        if begin >= end:
            return
        *smaller, level = levels
        first = -(-begin // level) * level
        if not smaller:
            yield level, first, end
            return
        last = min(end // level * level, self.complete(level))
        if first >= last:
            yield from self._cut(begin, end, smaller)
            return
        yield from self._cut(begin, first, smaller)
        yield level, first, last
        yield from self._cut(last, end, smaller)


def read_extent(connection: Connection, bucket_seconds: int) -> Extent:
    """Read how far a partition's roll-ups reach."""
    names = [each.name for each in fields(Extent)][1:]
    marks = ", ".join("?" * len(names))
    return Extent(
        bucket_seconds,
        **dict(connection.rows(f"SELECT key, value FROM {{meta}} AS meta WHERE key IN ({marks})", names)),
    )


@dataclass(frozen=True)
class Chosen:
    """A choice of devices: those of a range of ids, or some of these."""

    low: int
    high: int
    ids: Ints | None = None

    @classmethod
    def of(cls, ids: Ints) -> Chosen:
        """Choose devices by their ids."""
        return cls(int(ids.min(initial=END)), int(ids.max(initial=0)), ids)

    @cached_property
    def _table(self) -> npt.NDArray[np.bool_] | None:
        """True for each chosen id of the range, if a table of it is small."""
        if self.ids is None or self.high - self.low > _MOST_IDS:
            return None
        table = np.zeros(max(0, self.high - self.low + 1), np.bool_)
        table[self.ids - self.low] = True
        return table

    def rows(self, device: Ints) -> Ints:
        """Return the rows of chosen devices."""
        within = np.flatnonzero((device >= self.low) & (device <= self.high))
        if self.ids is None:
            return within
        if self._table is None:
            return within[np.isin(device[within], self.ids)]
        return within[self._table[device[within] - self.low]]


class RollupSums:
    """Sums of plus and minus reports by key columns. Many pieces are folded into one."""

    _ROWS = 1_000_000

    def __init__(self, keys: int) -> None:
        self._keys = keys
        self._parts: list[list[Ints]] = [[np.zeros(0, np.int64) for _ in range(keys + 2)]]
        self._waiting = 0

    def add(self, keys: Sequence[Ints], sums: Sequence[Ints]) -> None:
        """Add sums of plus and minus reports."""
        self._parts.append([*keys, *sums])
        self._waiting += len(sums[0])
        if self._waiting > max(self._ROWS, len(self._parts[0][0])):
            self._parts, self._waiting = [self.total()], 0

    def total(self) -> list[Ints]:
        """Return the key columns in ascending order, then plus and minus."""
        columns = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        keys, sums = add_up(columns[: self._keys], columns[self._keys :])
        return [*keys, *sums]


def _added(tables: Iterable[RollupTable]) -> RollupTable:
    """Add up rows with the same keys; return them in the order of the keys."""
    sums = RollupSums(len(_KEYS))
    for table in tables:
        sums.add([getattr(table, name) for name in _KEYS], [table.plus, table.minus])
    return RollupTable(*sums.total())


class Forfeits:
    """The numbers of pardons that forfeited a device's reports."""

    def __init__(self, connection: Connection) -> None:
        query = "SELECT device, COUNT(*) FROM {audit} AS audit WHERE restored = 0 GROUP BY device ORDER BY device"
        self.device, self.count = columns(connection.rows(query), 2)

    def __bool__(self) -> bool:
        return len(self.device) > 0

    def of(self, device: Ints) -> Ints:
        """Return the number for each device."""
        if not self:
            return np.zeros(len(device), np.int64)
        place = np.minimum(np.searchsorted(self.device, device), len(self.device) - 1)
        return np.where(self.device[place] == device, self.count[place], 0)


def read_tail(connection: Connection, extent: Extent, forfeits: Forfeits | None = None) -> RollupTable:
    """Sum the events that are not in the roll-ups yet. A pardon that forfeits reports rolls first, so one number is right for all.

    `forfeits` are those of the connection, if they are known already.
    """
    return _added(_accepted(connection, extent, Forfeits(connection) if forfeits is None else forfeits))


def _accepted(connection: Connection, extent: Extent, forfeits: Forfeits) -> Iterator[RollupTable]:
    names = ("device", "profile", "bucket", "index", "verdict", "marks")
    for _, piece in read_columns(connection, names, after=extent.summed):
        rows = np.flatnonzero(piece["verdict"] == Verdict.ACCEPTED)
        profile, bucket, device, index = (
            piece[name][rows].astype(np.int64) for name in ("profile", "bucket", "device", "index")
        )
        plus = (signs(piece["marks"][rows]) > 0).astype(np.int64)
        yield RollupTable(profile, extent.kept(bucket), device, index, forfeits.of(device), plus, 1 - plus)


def add_rollups(connection: Connection, extent: Extent, table: RollupTable) -> None:
    """Add sums of buckets to the roll-ups: to the smallest units, and to larger ones that are built already."""
    timed = table.start > 0
    write_level(connection, UNTIMED, table.at(~timed))
    for level in extent.levels:
        mine = timed & (table.start < extent.complete(level))
        if level < extent.day:
            mine &= table.start >= extent.fine_from
        write_level(connection, level, _coarser(table.at(mine), level))


def add_tallies(connection: Connection, extent: Extent, table: TallyTable) -> None:
    """Add tallies of buckets to all units that include them, as `add_rollups` does."""
    timed = table.bucket > 0
    late = timed & (table.bucket < max(extent.built, extent.fine_from))
    for level in (UNTIMED, *extent.levels) if late.any() else (UNTIMED, extent.bucket_seconds):
        mine = timed & (table.bucket < extent.complete(level)) if level else ~timed
        if level < extent.day:
            mine &= (table.bucket >= extent.fine_from) | ~timed
        if level == extent.bucket_seconds and mine.all():
            write_tallies(connection, level, table)
        elif mine.any():
            unit = table.bucket[mine] // max(1, level) * level
            sums = [getattr(table, name)[mine] for name in TALLY_COUNTS]
            keys, sums = add_up([table.profile[mine], unit, table.index[mine]], sums)
            write_tallies(connection, level, TallyTable(*keys, *sums))


def _coarser(table: RollupTable, level: int) -> RollupTable:
    return _added([replace(table, start=table.start // level * level)])


def build(connection: Connection, extent: Extent, now: int) -> Extent:
    """Build larger units that ended before `now`, a transaction's worth of them. The new extent is to be stored.

    All events must be in the roll-ups: an hour without roll-ups is taken for one without tallies.
    """
    smallest, *larger = extent.levels
    hour = larger[0]  # or longer, where buckets are
    rows = 0
    while rows < _STEP_ROWS:
        built = extent.built
        if (found := _next(connection, smallest, built)) is None:
            return extent
        built = built or found // hour * hour
        after = _next(connection, smallest, built + hour)
        # Nothing is between the hour that is built now and the next one with reports.
        until = min(max(built + hour, (END if after is None else after) // hour * hour), now // hour * hour)
        if until < built + hour:
            return replace(extent, built=built)
        finer = smallest
        for level in larger:
            start = built // level * level
            if until // level * level > start:
                rows += _build_unit(connection, finer, level, start)
                _build_tallies(connection, finer, level, start)
            finer = level
        extent = replace(extent, built=until)
    return extent


def _next(connection: Connection, level: int, after: int) -> int | None:
    """Return a time at or after `after` before which no unit starts; None if no unit starts later."""
    query = "SELECT MIN(first) FROM {rollup} AS rollup WHERE level = ? AND last >= ?"
    row = connection.row(query, (level, after))
    return None if row is None or row[0] is None else max(after, int(row[0]))


def _build_unit(connection: Connection, finer: int, level: int, start: int) -> int:
    """Build a unit of all profiles from the next smaller units; return its rows."""
    written = 0
    where = "level = ? AND first < ? AND last >= ?"
    within = (finer, start + level, start)
    query = f"SELECT profile, MIN(low), MAX(high), CAST(SUM(entries) AS BIGINT) FROM {{rollup}} AS rollup WHERE {where} GROUP BY profile"
    for profile, low, high, entries in connection.rows(query, within):
        parts = -(-entries // _AT_ONCE)
        step = (high - low) // parts + 1
        for first in range(low, high + 1, step):
            chosen = Chosen(first, first + step - 1)
            rows = read_level(connection, finer, start, start + level, profile=profile, chosen=chosen)
            table = _added(replace(each, start=np.full(len(each), start)) for each in rows)
            write_level(connection, level, table)
            written += len(table)
    return written


def _build_tallies(connection: Connection, finer: int, level: int, start: int) -> None:
    query = f"""SELECT profile, CAST(:start AS BIGINT), idx, {TALLY_SUMS} FROM {{tally}} AS tally
                WHERE level = :finer AND bucket >= :start AND bucket < :until GROUP BY profile, idx"""
    rows = connection.rows(query, {"finer": finer, "start": start, "until": start + level})
    write_tallies(connection, level, TallyTable(*columns(rows, 7)))


def drop_fine(connection: Connection, extent: Extent, before: int) -> Extent:
    """Delete units shorter than a day that end before a time, where days are built, in roll-ups and tallies."""
    day = extent.day
    until = min(before, extent.built) // day * day
    if until <= extent.fine_from:
        return extent
    for level in extent.levels:
        if level < day:
            cut = _added(_pieces(connection, "level = ? AND first < ? AND last >= ?", (level, until, until)))
            connection.delete("rollup", "level = ? AND first < ?", (level, until))
            write_level(connection, level, cut.at(cut.start >= until))
            connection.delete("tally", "level = ? AND bucket < ?", (level, until))
    return replace(extent, fine_from=until)


def read_rollups(
    connection: Connection,
    extent: Extent,
    begin: int,
    end: int,
    group: int | None,
    *,
    profile: int | None = None,
    chosen: Chosen | None = None,
) -> Iterator[RollupTable]:
    """Yield the sums of a span of time in pieces: stored ones, then the tail. A begin of 0 includes reports without a time.

    Units do not cross the borders of groups of `group` seconds; None asks for one sum.
    """
    yield from read_spans(connection, extent.spans(begin, end, group), profile=profile, chosen=chosen)
    tail = read_tail(connection, extent)
    mine = (tail.start >= begin) & (tail.start < end)
    if profile is not None:
        mine &= tail.profile == profile
    tail = tail.at(mine)
    yield tail if chosen is None else tail.at(chosen.rows(tail.device))


def read_spans(
    connection: Connection,
    spans: Sequence[tuple[int, int, int]],
    *,
    profile: int | None = None,
    chosen: Chosen | None = None,
) -> Iterator[RollupTable]:
    """Yield the rows of spans, each a level with begin and end."""
    for level, first, last in spans:
        yield from read_level(connection, level, first, last, profile=profile, chosen=chosen)


def read_level(
    connection: Connection,
    level: int,
    begin: int,
    end: int,
    *,
    profile: int | None = None,
    chosen: Chosen | None = None,
) -> Iterator[RollupTable]:
    """Yield the rows of units of a level that start in [begin, end), of all profiles or one, and of all devices or some."""
    where, values = "level = ? AND first < ? AND last >= ?", [level, end, begin]
    if profile is not None:
        where, values = f"profile = ? AND {where}", [profile, *values]
    if chosen is not None:
        where, values = f"{where} AND high >= ? AND low <= ?", [*values, chosen.low, chosen.high]
    for table in _pieces(connection, where, values, chosen):
        mine = (table.start >= begin) & (table.start < end)
        yield table if mine.all() else table.at(mine)


def levels_upto(connection: Connection, reached: Extent, extent: Extent) -> Iterator[tuple[int, RollupTable]]:
    """Yield all sums, with the tail, as levels and rows of roll-ups that reach as far as `extent`. They have reached no further."""
    tail = read_tail(connection, reached)
    yield from ((UNTIMED, table) for table in read_level(connection, UNTIMED, 0, 1))
    yield UNTIMED, tail.at(tail.start == 0)
    for level in extent.levels:
        begin = extent.fine_from if level < extent.day else 0
        upto, until = reached.complete(level), extent.complete(level)
        yield from ((level, table) for table in read_level(connection, level, begin, upto))
        yield level, _coarser(tail.at((tail.start >= max(1, begin)) & (tail.start < upto)), level)
        if upto < until:
            more = _added(read_rollups(connection, reached, max(1, begin, upto), until, level))
            yield level, _coarser(more, level)


def _pieces(
    connection: Connection, where: str, values: Sequence[int], chosen: Chosen | None = None
) -> Iterator[RollupTable]:
    for number, profile, entries, data in connection.stream(
        f"SELECT id, profile, entries, data FROM {{rollup}} AS rollup WHERE {where} ORDER BY id", values
    ):
        with _reading(number):
            yield _unpacked(profile, entries, data, chosen)


@contextmanager
def _reading(number: int) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise StoreCorrupt(f"the roll-ups are damaged: piece {number}: {error}; restore a copy") from None


class Spans:
    """Spans of time of one profile, and of all devices or those of a range, as a condition on the pieces that may have rows of them."""

    def __init__(self, spans: Sequence[tuple[int, int, int]], profile: int, chosen: Chosen | None) -> None:
        self._of: dict[int, list[tuple[int, int]]] = {}
        for level, first, last in spans:
            self._of.setdefault(level, []).append((first, last))
        within = [f"(level = {level} AND first < {last} AND last >= {first})" for level, first, last in spans]
        self._where = f"profile = {profile} AND ({' OR '.join(within) or 'FALSE'})"
        if chosen is not None:
            self._where += f" AND high >= {chosen.low} AND low <= {chosen.high}"

    def measure(self, connection: Connection) -> tuple[int, int, int, int, int] | None:
        """Return the first and last unit, the lowest and highest device and the rows of the pieces; None if there is no piece."""
        query = f"""SELECT MIN(first), MAX(last), MIN(low), MAX(high), CAST(SUM(entries) AS BIGINT)
                    FROM {{rollup}} AS rollup WHERE {self._where}"""
        ((first, *others),) = connection.rows(query)
        return None if first is None else (first, *others)

    def add_to(self, sums: DeviceSums, connection: Connection) -> None:
        """Add the rows of the spans to sums per device."""
        query = f"SELECT id, level, entries, data FROM {{rollup}} AS rollup WHERE {self._where}"
        for number, level, entries, data in connection.stream(query):
            with _reading(number):
                packed = _parsed(entries, data)
                start = packed.units["start"].astype(np.int64)
                inside = np.zeros(len(start), np.bool_)
                for first, last in self._of[level]:
                    inside |= (start >= first) & (start < last)
                sums.add_piece(packed, start, inside)


def verify_rollups(connection: Connection) -> Iterator[str]:
    """Yield a message for each damaged piece of the roll-ups."""
    for number, entries, data in connection.stream("SELECT id, entries, data FROM {rollup} AS rollup ORDER BY id"):
        try:
            _unpacked(0, entries, data)
        except ValueError as error:
            yield f"roll-ups, piece {number}: {error}"


_COLUMNS = ("profile", "level", "first", "last", "low", "high", "entries", "data")


def write_level(connection: Connection, level: int, table: RollupTable) -> None:
    """Store rows, which are in the order of their keys, in pieces of one profile.

    No piece spans a long time without rows, such as before a clock was set: `build` visits every hour from a piece's first to its last.
    """
    apart = np.diff(table.start) > max(_APART_SECONDS, level)
    borders = np.flatnonzero((np.diff(table.profile) != 0) | apart) + 1
    for begin, end in zip([0, *borders.tolist()], [*borders.tolist(), len(table)], strict=True):
        for first in range(begin, end, _CHUNK):
            piece = table.at(slice(first, min(end, first + _CHUNK)))
            low, high = int(piece.device.min()), int(piece.device.max())
            row = (int(piece.profile[0]), level, int(piece.start[0]), int(piece.start[-1]), low, high, len(piece))
            connection.insert("rollup", _COLUMNS, [(*row, _packed(piece))])


_HEADER = struct.Struct("<IBBBBB")
_UNIT = np.dtype([("start", "<u8"), ("first", "<u8"), ("entries", "<u4")])
_UNSIGNED = {size: np.dtype(f"<u{size}") for size in (1, 2, 4, 8)}


def _packed(table: RollupTable) -> bytes:
    """Return a piece as bytes: device and cell as one number, as the difference to the row before, and counts in as few bytes as they need.

    About 3 bytes per row. Compression would save one of them, and take longer to read than all the rest.
    """
    bits = int(table.index.max()).bit_length()
    code = table.device << bits | table.index
    begins = np.flatnonzero(np.diff(table.start, prepend=-1))
    units = np.zeros(len(begins), _UNIT)
    units["start"], units["first"] = table.start[begins], code[begins]
    units["entries"] = np.diff(begins, append=len(table))
    steps = np.diff(code, prepend=0)
    steps[begins] = 0
    arrays = [_narrow(column) for column in (steps, table.plus, table.minus, table.forfeits)]
    header = _HEADER.pack(len(units), bits, *(array.itemsize for array in arrays))
    if not table.forfeits.any():
        header, arrays = header[:-1] + b"\0", arrays[:-1]
    return add_checksum(header + units.tobytes() + b"".join(array.tobytes() for array in arrays))


def _narrow(column: Ints) -> npt.NDArray[np.unsignedinteger]:
    """Return the column in the smallest type that holds it."""
    size = next(size for size in _UNSIGNED if int(column.max()) < 256**size)
    return column.astype(_UNSIGNED[size])


def _parsed(entries: int, data: bytes) -> PackedPiece:
    """Check a piece of so many rows and find its parts; `ValueError` if it is damaged."""
    data = drop_checksum(data)
    count, bits, *widths = _HEADER.unpack_from(data)
    units = np.frombuffer(data, _UNIT, count, _HEADER.size)
    place = _HEADER.size + units.nbytes
    if place + sum(widths) * entries != len(data) or units["entries"].sum() != entries:
        raise ValueError(f"{len(data)} bytes do not hold {entries} rows of {count} units")
    return PackedPiece(entries, bits, widths, units, np.frombuffer(data, np.uint8, offset=place))


def _unpacked(profile: int, entries: int, data: bytes, chosen: Chosen | None = None) -> RollupTable:
    """Return the rows of a piece, of all devices or some; `ValueError` if it is damaged."""
    packed = _parsed(entries, data)
    bits, units, place = packed.bits, packed.units, 0
    found: list[npt.NDArray[np.unsignedinteger]] = []
    for size in packed.widths:
        none = np.zeros(entries if not size else 0, np.uint8)
        found.append(np.frombuffer(packed.columns, _UNSIGNED[size], entries, place) if size else none)
        place += size * entries
    each = units["entries"].astype(np.int64)
    sums = np.cumsum(found[0], dtype=np.int64)
    code = sums + np.repeat(units["first"].astype(np.int64) - sums[np.cumsum(each) - each], each)
    columns = [np.repeat(units["start"].astype(np.int64), each), code, *found[1:]]
    if chosen is not None:
        rows = chosen.rows(code >> bits)
        columns = [column[rows] for column in columns]
    start, code, plus, minus, forfeits = (column.astype(np.int64, copy=False) for column in columns)
    return RollupTable(
        np.full(len(code), profile), start, code >> bits, code & ((1 << bits) - 1), forfeits, plus, minus
    )
