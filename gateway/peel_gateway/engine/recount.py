# SPDX-License-Identifier: MIT
"""Recount: every published number once more from the log, and whether it differs from what is stored.

The log is read some events at a time, so that its size does not matter to the memory; and as often as there are devices whose states of
bets would not fit into it together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from peel_core import Profile, index_many
from peel_gateway.engine.engine import reading_stored
from peel_gateway.engine.recount_conduct import ConductCheck, portions
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.grouping import add_up, extremes, unique_rows, up_to
from peel_gateway.model.tables import Difference, GapTable, Kept, LogTable
from peel_gateway.model.verdict import LOGGED, Verdict
from peel_gateway.screening import gaps as screening_gaps
from peel_gateway.screening.book import ROOM
from peel_gateway.screening.roster import Registry
from peel_gateway.screening.seen import NO_HOLES, Seen, enter, unseen, used
from peel_gateway.storage.store import Archive, Store

__all__ = ["NumberCheck", "RecountReport", "recount"]

Ints = npt.NDArray[np.int64]

Bools = npt.NDArray[np.bool_]

Rows = Mapping[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class RecountReport:
    """What a recount found."""

    reports: int
    """Reports in the log, dropped ones included."""
    devices: int
    differences: list[Difference]

    @property
    def agrees(self) -> bool:
        """Whether everything stored is what the log says."""
        return not self.differences


def recount(archive: Archive, registry: Registry, *, alpha: float = 1e-6, room: int = ROOM) -> RecountReport:
    """Check what is stored, recount tallies, counters, device reports and numbers, and play all bets again, in the log's order.

    Every partition by itself, and where there are several, differences say which one they are in.

    Parameters
    ----------
    registry : Registry
        Supplies the profiles and keys; devices that are not in it any more are counted, but not judged again.
    alpha : float
        The engine's: who is past it must have been exposed.
    room : int
        Bytes of memory for states of bets.
    """
    reports = devices = 0
    found: list[Difference] = []
    for store in archive.stores():
        report = _recount_partition(store, registry, alpha, room)
        where = "" if archive.partitions == 1 else f"partition {store.partition}: "
        reports, devices = reports + report.reports, devices + report.devices
        found += [replace(each, table=where + each.table) for each in report.differences]
    return RecountReport(reports, devices, found)


def _recount_partition(store: Store, registry: Registry, alpha: float, room: int) -> RecountReport:
    store.check()
    with reading_stored(), store.inspect() as shown:
        kept = shown.kept
        sums, numbers = _Sums(kept), NumberCheck(kept, registry)
        found: list[Difference] = []
        judged: list[Difference] = []
        for place, devices in enumerate(portions(kept, registry, alpha, room)):
            conduct = ConductCheck(shown, devices, registry, alpha)
            for log, gaps in shown.events():
                conduct.add(log, gaps)
                if place == 0:
                    sums.add(log, gaps)
                    found += numbers.add(log, gaps)
            judged += conduct.differences()
    found = [*sums.differences(), *judged, *found, *numbers.differences(), *_pardons(kept)]
    return RecountReport(sums.reports, sums.devices, found)


def _pardons(kept: Kept) -> Iterator[Difference]:
    """Yield devices whose marks are not what the audit trail says."""
    marks: dict[tuple[int, ...], tuple[int, ...]] = {}
    for entry in kept.pardons:
        _, forfeited = marks.get((entry.device,), (0, 0))
        marks[entry.device,] = (entry.arrival, forfeited if entry.restored else entry.arrival)
    devices = kept.devices
    yield from _compare("pardon", _rows(1, devices.device, devices.pardoned, devices.forfeited), marks)


@dataclass
class _Sum:
    """Rows of keys and values, added up."""

    keys: int
    values: int
    columns: list[Ints] = field(default_factory=list)

    def add(self, keys: Sequence[Ints], values: Sequence[Ints]) -> None:
        added = [*keys, *values]
        if self.columns:
            added = [np.concatenate(pair) for pair in zip(self.columns, added, strict=True)]
        unique, sums = add_up(added[: self.keys], added[self.keys :])
        self.columns = [*unique, *sums]

    def rows(self) -> Rows:
        return _rows(self.keys, *self.columns)


def _rows(keys: int, *columns: Ints) -> Rows:
    """Columns as a mapping; rows of zeros are the same as no row."""
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {row[:keys]: row[keys:] for row in rows if any(row[keys:])}


class _Spans:
    """The lowest and the highest number of each device and bucket."""

    def __init__(self) -> None:
        self._columns = [np.zeros(0, np.int64)] * 4

    def add(self, *added: Ints) -> None:
        """Add rows of device, bucket, lowest and highest number."""
        *keys, lowest, highest = (np.concatenate(pair) for pair in zip(self._columns, added, strict=True))
        unique, low, high = extremes(keys, lowest, highest)
        self._columns = [*unique, low, high]

    def rows(self) -> Rows:
        return _rows(2, *self._columns)


class _Sums:
    """Everything that is a sum over the log."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._withdrawn = kept.devices.device[kept.devices.withdrawn != 0]
        self._tallies, self._totals = _Sum(3, 4), _Sum(2, 4)
        self._filed, self._reports = _Spans(), _Sum(2, 1)
        self._gaps = kept.counters.get("past_gap", {}).get(0, 0)
        past = kept.past
        counted = past.verdict == Verdict.ACCEPTED
        self._reports.add([past.device, past.verdict], [past.plus + past.minus])
        gone = (past.forfeited != 0) | np.isin(past.device, self._withdrawn)
        self._add_counted([past.profile, past.index], past.plus, past.minus, gone, counted)

    def add(self, log: LogTable, gaps: GapTable) -> None:
        """Add events."""
        one, devices = np.ones(len(log), np.int64), self._kept.devices
        counted = log.verdict == Verdict.ACCEPTED
        gone = np.isin(log.device, self._withdrawn) | up_to(devices.device, devices.forfeited, log.device, log.arrival)
        plus, minus = one * (log.sign > 0), one * (log.sign < 0)
        values = self._add_counted([log.profile, log.index], plus, minus, gone, counted)
        self._tallies.add([log.profile[counted], log.bucket[counted], log.index[counted]], values)
        self._reports.add([log.device, log.verdict], [one])
        timed = counted & (log.bucket >= max(1, self._kept.filed_from))
        self._filed.add(log.device[timed], log.bucket[timed], log.number[timed], log.number[timed])
        self._gaps += len(gaps)

    def _add_counted(self, keys: Sequence[Ints], plus: Ints, minus: Ints, gone: Bools, counted: Bools) -> list[Ints]:
        values = [column[counted] for column in (plus, minus, plus * gone, minus * gone)]
        self._totals.add([key[counted] for key in keys], values)
        return values

    @property
    def reports(self) -> int:
        return sum(count for (count,) in self._reports.rows().values())

    @property
    def devices(self) -> int:
        return len({device for device, _ in self._reports.rows()})

    def differences(self) -> Iterator[Difference]:
        """Yield each stored number that is not what the log says."""
        kept, counters = self._kept, self._kept.counters
        yield from self._tally_differences()
        yield from self._filed_differences()
        accepted = np.full(len(kept.devices), int(Verdict.ACCEPTED))
        reports = _rows(2, kept.devices.device, accepted, kept.devices.accepted)
        refused: Rows = {tuple(key): (value,) for key, value in kept.refused.items()}
        yield from _compare("device_report", {**reports, **refused}, self._reports.rows())
        yield from _compare("counter", self._stored_verdicts(), self._verdicts())
        yield from _compare("gap", _values(counters, "gap"), {(0,): (self._gaps,)} if self._gaps else {})
        gone = sum(plus + minus for *_, plus, minus in self._totals.rows().values())
        yield from _compare("withdrawn", _values(counters, "withdrawn"), {(0,): (gone,)} if gone else {})
        for place, kind in enumerate(("held", "held_bytes")):
            held = {kind: {key: sizes[place] for key, sizes in kept.held.items()}}
            yield from _compare(kind, _values(counters, kind), _values(held, kind))

    def _filed_differences(self) -> Iterator[Difference]:
        """Yield wrong numbers by device and bucket, newest and older ones, as far as the log has all that was filed."""
        filed, devices = self._kept.filed, self._kept.devices
        stored = _Spans()
        stored.add(filed.device, filed.bucket, filed.lowest, filed.highest)
        stored.add(devices.device, devices.filed_bucket, devices.filed_lowest, devices.filed_highest)
        first = max(self._kept.pruned_bucket + 1, self._kept.filed_from)
        kept, log = (
            {key: value for key, value in each.rows().items() if key[1] >= first} for each in (stored, self._filed)
        )
        yield from _compare("filed", kept, log)

    def _tally_differences(self) -> Iterator[Difference]:
        """Tallies by bucket where the log has all of it, and all together in any case."""
        table = self._kept.tallies
        values = [table.plus, table.minus, table.withdrawn_plus, table.withdrawn_minus]
        whole = table.bucket > self._kept.pruned_bucket
        stored = _rows(3, *(column[whole] for column in (table.profile, table.bucket, table.index, *values)))
        log = {key: value for key, value in self._tallies.rows().items() if key[1] > self._kept.pruned_bucket}
        yield from _compare("tally", stored, log)
        keys, sums = add_up([table.profile, table.index], values)
        yield from _compare("tally", _rows(2, *keys, *sums), self._totals.rows())

    def _stored_verdicts(self) -> Rows:
        """Without those that were screened again, and without redeliveries, which leave no trace."""
        again = self._kept.counters.get("replayed", {})
        judged = {key: value - again.get(key, 0) for key, value in self._kept.counters.get("verdict", {}).items()}
        return _values({"verdict": judged | {int(Verdict.REDELIVERED): 0}}, "verdict")

    def _verdicts(self) -> Rows:
        """Reports by verdict: of the log, of the exposures that are held, and of those that were dropped."""
        totals: dict[int, int] = {}
        for (_, verdict), (count,) in self._reports.rows().items():
            totals[verdict] = totals.get(verdict, 0) + count
        for counts in (self._kept.held_verdicts, self._kept.counters.get("dropped", {})):
            for verdict, count in counts.items():
                if verdict not in LOGGED:
                    totals[verdict] = totals.get(verdict, 0) + count
        return {(verdict,): (count,) for verdict, count in totals.items()}


def _values(counters: Mapping[str, Mapping[int, int]], kind: str) -> Rows:
    return {(key,): (value,) for key, value in counters.get(kind, {}).items() if value}


def _compare(table: str, stored: Rows, recounted: Rows) -> Iterator[Difference]:
    for key in sorted(stored.keys() | recounted.keys()):
        if stored.get(key) != recounted.get(key):
            yield Difference(table, "/".join(map(str, key)), stored.get(key), recounted.get(key))


_NONE = np.iinfo(np.int64).max


class NumberCheck:
    """Compares device states with the numbers of the log, as far as the log still has them."""

    def __init__(self, kept: Kept, registry: Registry) -> None:
        devices = kept.devices
        self._devices = devices
        self._keyring = registry.keyring
        self._seen = Seen(devices.low_water, devices.last_number, devices.holes, devices.forgone)
        self._reports = np.zeros(len(devices), np.int64)
        known, place = self._places(kept.past.device)
        np.add.at(self._reports, place, (kept.past.plus + kept.past.minus)[known])
        self._in_time = np.full(len(devices), _NONE)
        """The lowest number that came in time since the last pardon, of those that the log has: gaps above it were settled after that."""
        self._assigns = np.array(
            [profile.id for profile in self._keyring.profiles if mechanism_of(profile).assigns], np.int64
        )
        self._judged = np.ones(len(devices), np.bool_)
        """Whose gaps can be judged: those that only ever had profiles whose numbers assign something."""
        self._note_profiles(kept.past.device, kept.past.profile)
        none = np.zeros(len(devices), np.int64)
        self._so_far = Seen(none, none, np.full(len(devices), NO_HOLES, object), none)
        self._gaps: set[tuple[int, int]] = set()
        self._late: set[tuple[int, int]] = set()

    def add(self, log: LogTable, gaps: GapTable) -> Iterator[Difference]:
        """Add events; yield numbers that are used in the log and not by the device's state, and gaps with a wrong attribute."""
        known, place = self._places(log.device)
        if not known.all():
            yield Difference("seen", "device", "unknown", "in the log")
        np.add.at(self._reports, place, 1)
        yield from self._used_twice(place, log.number[known])
        in_time = (log.late[known] == 0) & (log.arrival[known] > self._devices.pardoned[place])
        np.minimum.at(self._in_time, place[in_time], log.number[known][in_time])
        self._note_profiles(log.device, log.profile)
        for row in np.flatnonzero(unseen(self._seen, place, log.number[known])).tolist():
            yield Difference("seen", f"{log.device[known][row]:08x}/{log.number[known][row]}", "not used", "in the log")
        late = log.late != 0
        self._late |= set(zip(log.device[late].tolist(), log.number[late].tolist(), strict=True))
        self._gaps |= set(zip(gaps.device.tolist(), gaps.number.tolist(), strict=True))
        yield from self._wrong_attributes(gaps)

    def _used_twice(self, place: Ints, number: Ints) -> Iterator[Difference]:
        """Yield numbers that an earlier report had; no hole is given up here."""
        (at, numbers), where = unique_rows(place, number)
        again = (np.bincount(where, minlength=len(at)) > 1) | ~unseen(self._so_far, at, numbers)
        for row in np.flatnonzero(again).tolist():
            yield Difference(
                "seen", f"{self._devices.device[at[row]]:08x}/{numbers[row]}", "used once", "twice in the log"
            )
        self._so_far = enter(self._so_far, at[~again], numbers[~again], most_holes=2**40)

    def differences(self) -> Iterator[Difference]:
        """Yield devices that have used more or fewer numbers than were logged, gaps that came in time, and what was never settled."""
        devices, count = self._devices, used(self._seen)
        for row, device in enumerate(devices.device.tolist()):
            if count[row] != self._reports[row]:
                yield Difference(
                    "seen", f"{device:08x}", f"{count[row]} numbers used", f"{self._reports[row]} in the log"
                )
            if devices.settled[row] > devices.last_number[row]:
                yield Difference(
                    "gap", f"{device:08x}", f"settled up to {devices.settled[row]}", f"last {devices.last_number[row]}"
                )
            yield from self._unsettled(row, device)
        yield from self._came_in_time()

    def _came_in_time(self) -> Iterator[Difference]:
        asked = np.array(sorted(self._gaps - self._late), np.int64).reshape(-1, 2)
        known, place = self._places(asked[:, 0])
        number = asked[known][:, 1]
        came = ~unseen(self._seen, place, number) & (number > self._devices.low_water[place])
        for device, missing in asked[known][came].tolist():
            yield Difference("gap", f"{device:08x}/{missing}", "missing", "in the log, in time")

    def _unsettled(self, row: int, device: int) -> Iterator[Difference]:
        """Numbers that must have been settled as missing, and were not: the last ones, and those whose gaps the log still has."""
        devices = self._devices
        if not self._judged[row] or self._in_time[row] == _NONE:
            return  # of one that was pardoned, and not heard since, nothing is due
        at = slice(row, row + 1)
        _, due = screening_gaps.missing(devices.device[at], self._in_time[at], devices.settled[at], devices.holes[at])
        known = self._keyring.find(np.full(len(due), device), due) >= 0
        for number in due[known].tolist():
            if (device, number) not in self._gaps:
                yield Difference("gap", f"{device:08x}/{number}", "settled", "neither in the log nor missing")

    def _wrong_attributes(self, gaps: GapTable) -> Iterator[Difference]:
        bundle = self._keyring.find(gaps.device, gaps.number)
        for profile in self._keyring.profiles:
            mine = (bundle >= 0) & (gaps.profile == profile.id)
            index = index_many(profile, gaps.device[mine], self._keyring.keys.of(bundle[mine]), gaps.number[mine])
            for row in np.flatnonzero(index != gaps.index[mine]).tolist():
                device, number, stored = (int(each[mine][row]) for each in (gaps.device, gaps.number, gaps.index))
                if stored not in self._assigned(profile, device, number):
                    yield Difference("gap", f"{device:08x}/{number}", stored, int(index[row]))

    def _assigned(self, profile: Profile, device: int, number: int) -> set[int]:
        """What a number may have assigned: whoever is far ahead uses numbers that a further bundle, with other keys, is given later."""
        keyring = self._keyring
        owner = np.searchsorted(keyring.device_ids, device)
        first, end = np.searchsorted(keyring.owners, [owner, owner + 1])
        former = first + np.flatnonzero(keyring.bundle_first[first:end] <= number)
        index = index_many(profile, np.full(len(former), device), keyring.keys.of(former), np.full(len(former), number))
        return set(index.tolist())

    def _note_profiles(self, device: Ints, profile: Ints) -> None:
        strange = ~np.isin(profile, self._assigns)
        _, place = self._places(device[strange])
        self._judged[place] = False

    def _places(self, device: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
        """Which devices have a state, and its row."""
        known = np.isin(device, self._devices.device)
        return known, np.searchsorted(self._devices.device, device[known])
