# SPDX-License-Identifier: MIT
"""Check the roll-ups against the log, for the recount.

- The sums of each device over all time are those of the log and of the pruned reports.
- The smallest units have what the log has, as far back as it goes.
- Each larger unit has what its smaller units have.
- Tallies have what the roll-ups have.

Sums of units are compared by their counts and a 64-bit fingerprint of their rows, so that memory does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from peel_gateway.model.grouping import add_up
from peel_gateway.model.tables import Difference, LogTable, PrunedTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.rollups import END, Extent, Forfeits, read_level, read_rollups
from peel_gateway.storage.sql.rows import columns, read_pruned
from peel_gateway.storage.sql.tallies import Span, read_level_tallies, read_tallies, recount_tallies
from peel_gateway.storage.store import RollupCheck

__all__ = ["SqlRollupCheck"]

Ints = npt.NDArray[np.int64]

_SHIFT = 40
"""Bits of an arrival in a number made of device and arrival."""


class _Sums:
    """Rows of keys and values, added up."""

    def __init__(self, keys: int, values: int) -> None:
        self._keys = keys
        self.columns = [np.zeros(0, np.int64) for _ in range(keys + values)]

    def add(self, *added: Ints) -> None:
        joined = [np.concatenate(pair) for pair in zip(self.columns, added, strict=True)]
        keys, values = add_up(joined[: self._keys], joined[self._keys :])
        self.columns = [*keys, *values]


class SqlRollupCheck(RollupCheck):
    """Implements `RollupCheck` on a snapshot of one partition."""

    def __init__(self, connection: Connection, extent: Extent, pruned_bucket: int) -> None:
        self._connection, self._extent, self._pruned_bucket = connection, extent, pruned_bucket
        self._forfeits = Forfeits(connection)
        query = "SELECT device, arrival FROM {audit} AS audit WHERE restored = 0"
        device, arrival = columns(connection.rows(query), 2)
        self._marks = np.sort(device << _SHIFT | arrival)
        self._totals, self._units = _Sums(4, 2), _Sums(2, 3)
        self._add_pruned(read_pruned(connection))

    def _add_pruned(self, pruned: PrunedTable) -> None:
        names = ("profile", "device", "index", "forfeited", "plus", "minus")
        counted = pruned.verdict == Verdict.ACCEPTED
        self._totals.add(*(getattr(pruned, name)[counted] for name in names))

    def add(self, log: LogTable) -> None:
        rows = np.flatnonzero(log.verdict == Verdict.ACCEPTED)
        profile, device, index, arrival = (
            getattr(log, name)[rows] for name in ("profile", "device", "index", "arrival")
        )
        plus = (log.sign[rows] > 0).astype(np.int64)
        forfeits = self._forfeits_before(device, arrival)
        forfeited = (forfeits < self._forfeits.of(device)).astype(np.int64)
        self._totals.add(profile, device, index, forfeited, plus, 1 - plus)
        start = self._extent.kept(log.bucket[rows])
        printed = _fingerprint(device, index, forfeits, plus, 1 - plus)
        mine = (arrival <= self._extent.summed) & (start > self._pruned_bucket)
        self._units.add(*(column[mine] for column in (profile, start, plus, 1 - plus, printed)))

    def _forfeits_before(self, device: Ints, arrival: Ints) -> Ints:
        """Return how many pardons had forfeited a device's reports before each event."""
        first = np.searchsorted(self._marks, device << _SHIFT)
        return np.searchsorted(self._marks, device << _SHIFT | arrival) - first

    def differences(self) -> Iterator[Difference]:
        yield from self._wrong_totals()
        yield from self._wrong_tallies()
        extent = self._extent
        finer, below = 0, _Sums(2, 3)
        for level in extent.levels:
            sums = self._stored(level)
            if level == extent.bucket_seconds:
                yield from _compare(f"rollup {level}", 2, self._logged(sums.columns, END), self._logged_units(END))
            elif level == extent.day:
                old = self._logged(sums.columns, extent.fine_from)
                yield from _compare(f"rollup {level}", 2, old, self._logged_units(extent.fine_from))
            if finer:
                begin = extent.fine_from if finer < extent.day else 0
                above, made = self._nested(sums.columns, level, begin), self._nested(below.columns, level, begin)
                yield from _compare(f"rollup {level} of {finer}", 2, above, made)
            finer, below = level, sums

    def _stored(self, level: int) -> _Sums:
        """Return the sums of a level by profile and unit."""
        sums = _Sums(2, 3)
        for table in read_level(self._connection, level, 0, END):
            printed = _fingerprint(table.device, table.index, table.forfeits, table.plus, table.minus)
            sums.add(table.profile, table.start, table.plus, table.minus, printed)
        return sums

    def _logged(self, sums: Sequence[Ints], until: int) -> list[Ints]:
        """Return the units whose reports are all in the log."""
        begin = max(self._pruned_bucket + 1, self._extent.fine_from if until == END else 0)
        mine = (sums[1] >= begin) & (sums[1] < until)
        return [column[mine] for column in sums]

    def _logged_units(self, until: int) -> list[Ints]:
        return self._logged(self._units.columns, until)

    def _nested(self, sums: Sequence[Ints], level: int, begin: int) -> list[Ints]:
        """Return the sums of units from `begin` to where a level ends, by that level's units."""
        mine = (sums[1] >= begin) & (sums[1] < self._extent.complete(level))
        found = _Sums(2, 3)
        found.add(*(column[mine] if place != 1 else column[mine] // level * level for place, column in enumerate(sums)))
        return found.columns

    def _wrong_tallies(self) -> Iterator[Difference]:
        """Yield tallies of buckets that the log does not have any more, and of larger units, that differ from the roll-ups."""
        every = Span(None, None, self._extent.bucket_seconds, timed=False)
        stored = list(vars(read_tallies(self._connection, self._extent, every)).values())
        sums = list(vars(recount_tallies(self._connection, self._extent)).values())
        old = [[column[table[1] <= self._pruned_bucket] for column in table] for table in (stored, sums)]
        yield from _compare("tally", 3, *old)
        for level in self._extent.levels[1:]:
            above = read_level_tallies(self._connection, level)
            made = _Sums(3, 4)
            mine = (stored[1] > 0) & (stored[1] < self._extent.complete(level))
            if level < self._extent.day:
                mine &= stored[1] >= self._extent.fine_from
            kept = [column[mine] for column in stored]
            made.add(kept[0], kept[1] // level * level, *kept[2:])
            yield from _compare(f"tally {level}", 3, [column[above[1] > 0] for column in above], made.columns)

    def _wrong_totals(self) -> Iterator[Difference]:
        sums = _Sums(4, 2)
        for table in read_rollups(self._connection, self._extent, 0, END, None):
            forfeited = (table.forfeits < self._forfeits.of(table.device)).astype(np.int64)
            sums.add(table.profile, table.device, table.index, forfeited, table.plus, table.minus)
        yield from _compare("rollup", 4, sums.columns, self._totals.columns)


def _fingerprint(device: Ints, index: Ints, forfeits: Ints, plus: Ints, minus: Ints) -> Ints:
    """Return a number per row whose sums differ where the rows differ, but for one chance in 2^64."""
    with np.errstate(over="ignore"):
        mixed = (device << 32 ^ index << 8 ^ forfeits).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
        other = mixed * np.uint64(0x94D049BB133111EB) + np.uint64(1)
        return (plus.view(np.uint64) * mixed + minus.view(np.uint64) * other).view(np.int64)


def _compare(name: str, keys: int, stored: Sequence[Ints], recounted: Sequence[Ints]) -> Iterator[Difference]:
    """Yield rows whose values differ. A row that is missing has values of 0."""
    none = [np.zeros(len(table[0]), np.int64) for table in (recounted, stored)]
    values = [np.concatenate([column, none[0]]) for column in stored[keys:]]
    values += [np.concatenate([none[1], column]) for column in recounted[keys:]]
    rows, sums = add_up([np.concatenate(pair) for pair in zip(stored[:keys], recounted[:keys], strict=True)], values)
    half = len(sums) // 2
    wrong = np.any([one != other for one, other in zip(sums[:half], sums[half:], strict=True)], axis=0)
    for row in np.flatnonzero(wrong).tolist():
        one, other = (tuple(int(column[row]) for column in part) for part in (sums[:half], sums[half:]))
        yield Difference(name, "/".join(str(int(column[row])) for column in rows), one, other)
