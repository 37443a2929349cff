# SPDX-License-Identifier: MIT
"""Recount: compute every stored number again from the log, and list the differences.

The log is read in pieces, so that memory does not grow with it. It is read several times if the test states of all devices do not fit into
memory together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from peel_core import Profile, index_many
from peel_gateway.engine.engine import reading_stored
from peel_gateway.engine.recount_coins import coin_differences
from peel_gateway.engine.recount_states import StateCheck, portions
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.grouping import add_up, extremes, unique_rows, up_to
from peel_gateway.model.tables import NO_HOLES, Difference, GapTable, LogTable, Positions, StoredState
from peel_gateway.model.verdict import LOGGED, Verdict
from peel_gateway.screening import numbers
from peel_gateway.screening.decode_context import DeviceSource
from peel_gateway.screening.numbers import UsedNumbers, enter, unseen, used
from peel_gateway.screening.state_cache import CACHE_BYTES
from peel_gateway.storage.store import Archive, Store

__all__ = ["NumberCheck", "RecountReport", "recount"]

Ints = npt.NDArray[np.int64]

Bools = npt.NDArray[np.bool_]

Rows = Mapping[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class RecountReport:
    """The outcome of a recount."""

    reports: int
    """Logged reports, pruned ones included."""
    devices: int
    differences: list[Difference]

    @property
    def agrees(self) -> bool:
        """Whether the store agrees with the log."""
        return not self.differences


def recount(
    archive: Archive, registry: DeviceSource, *, alpha: float = 1e-6, cache_bytes: int = CACHE_BYTES
) -> RecountReport:
    """Check the store, recount tallies, counters, device reports and numbers, and run all tests again in the log's order.

    Each partition is recounted on its own. If there are several, differences name theirs.

    Parameters
    ----------
    registry : Registry
        Profiles and keys. Devices that are no longer in it are counted, but not judged again.
    alpha : float
        The engine's; devices whose tests reject at this level must be exposed.
    cache_bytes : int
        Bytes of memory for test states.
    """
    reports = devices = 0
    found: list[Difference] = []
    for store in archive.stores():
        report = _recount_partition(store, registry, alpha, cache_bytes)
        where = "" if archive.partitions == 1 else f"partition {store.partition}: "
        reports, devices = reports + report.reports, devices + report.devices
        found += [replace(each, table=where + each.table) for each in report.differences]
    return RecountReport(reports, devices, found)


def _recount_partition(store: Store, registry: DeviceSource, alpha: float, cache_bytes: int) -> RecountReport:
    store.check()
    with reading_stored(), store.inspect() as shown:
        kept = shown.kept
        sums, numbers = _Sums(kept), NumberCheck(kept, registry)
        found: list[Difference] = []
        judged: list[Difference] = []
        for place, devices in enumerate(portions(kept, registry, alpha, cache_bytes)):
            device_tests = StateCheck(shown, devices, registry, alpha)
            for log, gaps in shown.events():
                device_tests.add(log, gaps)
                if place == 0:
                    sums.add(log, gaps)
                    shown.rollups.add(log)
                    found += numbers.add(log, gaps)
            judged += device_tests.differences()
        judged += shown.rollups.differences()
    found = [*sums.differences(), *judged, *found, *numbers.differences(), *_pardons(kept), *coin_differences(kept)]
    return RecountReport(sums.reports, sums.devices, found)


def _pardons(kept: StoredState) -> Iterator[Difference]:
    """Yield devices whose pardons differ from the audit trail."""
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
    """Return columns as a mapping, without rows whose values are all 0."""
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
    """Sums over the log, compared with the stored ones."""

    def __init__(self, kept: StoredState) -> None:
        self._kept = kept
        self._withdrawn = kept.devices.device[kept.devices.withdrawn != 0]
        self._tallies, self._totals = _Sum(3, 4), _Sum(2, 4)
        self._bucket_spans, self._reports = _Spans(), _Sum(2, 1)
        self._gaps = kept.counters.get("pruned_gap", {}).get(0, 0)
        pruned = kept.pruned
        counted = pruned.verdict == Verdict.ACCEPTED
        self._reports.add([pruned.device, pruned.verdict], [pruned.plus + pruned.minus])
        gone = (pruned.forfeited != 0) | np.isin(pruned.device, self._withdrawn)
        self._add_counted([pruned.profile, pruned.index], pruned.plus, pruned.minus, gone, counted)

    def add(self, log: LogTable, gaps: GapTable) -> None:
        """Add events."""
        one, devices = np.ones(len(log), np.int64), self._kept.devices
        counted = log.verdict == Verdict.ACCEPTED
        gone = np.isin(log.device, self._withdrawn) | up_to(devices.device, devices.forfeited, log.device, log.arrival)
        plus, minus = one * (log.sign > 0), one * (log.sign < 0)
        values = self._add_counted([log.profile, log.index], plus, minus, gone, counted)
        kept = self._kept
        bucket = np.where(log.bucket < kept.fine_from, log.bucket // kept.day * kept.day, log.bucket)
        self._tallies.add([log.profile[counted], bucket[counted], log.index[counted]], values)
        self._reports.add([log.device, log.verdict], [one])
        opened = log.device[log.opened != 0]  # takes back that the report is held
        self._reports.add([opened, np.full(len(opened), int(Verdict.HELD))], [np.full(len(opened), -1)])
        bucketed = (log.opened == 0) & (counted | np.isin(log.verdict, (Verdict.NO_READING, Verdict.HELD)))
        timed = bucketed & (log.bucket >= max(1, self._kept.spans_from))
        self._bucket_spans.add(log.device[timed], log.bucket[timed], log.number[timed], log.number[timed])
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
        """Yield stored numbers that differ from the log."""
        kept, counters = self._kept, self._kept.counters
        yield from self._tally_differences()
        yield from self._bucket_span_differences()
        accepted = np.full(len(kept.devices), int(Verdict.ACCEPTED))
        reports = _rows(2, kept.devices.device, accepted, kept.devices.accepted)
        refused = _Sum(2, 1)
        refused.add([kept.devices.device, np.full(len(kept.devices), int(Verdict.HELD))], [kept.devices.held])
        for (device, verdict), count in kept.refused.items():
            refused.add(
                [np.array([value], np.int64) for value in (device, _as_held(verdict))], [np.array([count], np.int64)]
            )
        yield from _compare("device_report", {**reports, **refused.rows()}, self._reports.rows())
        yield from _compare("counter", self._stored_verdicts(), self._verdicts())
        yield from _compare("gap", _values(counters, "gap"), {(0,): (self._gaps,)} if self._gaps else {})
        gone = sum(plus + minus for *_, plus, minus in self._totals.rows().values())
        yield from _compare("withdrawn", _values(counters, "withdrawn"), {(0,): (gone,)} if gone else {})
        for place, kind in enumerate(("held", "held_bytes")):
            held = {kind: {key: sizes[place] for key, sizes in kept.held.items()}}
            yield from _compare(kind, _values(counters, kind), _values(held, kind))

    def _bucket_span_differences(self) -> Iterator[Difference]:
        """Yield wrong number ranges by device and bucket, for buckets without pruned reports."""
        bucket_spans, devices = self._kept.bucket_spans, self._kept.devices
        stored = _Spans()
        stored.add(bucket_spans.device, bucket_spans.bucket, bucket_spans.lowest, bucket_spans.highest)
        stored.add(devices.device, devices.newest_bucket, devices.bucket_lowest, devices.bucket_highest)
        first = max(self._kept.pruned_bucket + 1, self._kept.spans_from)
        kept, log = (
            {key: value for key, value in each.rows().items() if key[1] >= first}
            for each in (stored, self._bucket_spans)
        )
        yield from _compare("bucket_span", kept, log)

    def _tally_differences(self) -> Iterator[Difference]:
        """Yield wrong tallies: by bucket for buckets without pruned reports, and summed over all buckets."""
        table = self._kept.tallies
        values = [table.plus, table.minus, table.withdrawn_plus, table.withdrawn_minus]
        whole = table.bucket > self._kept.pruned_bucket
        stored = _rows(3, *(column[whole] for column in (table.profile, table.bucket, table.index, *values)))
        log = {key: value for key, value in self._tallies.rows().items() if key[1] > self._kept.pruned_bucket}
        yield from _compare("tally", stored, log)
        keys, sums = add_up([table.profile, table.index], values)
        yield from _compare("tally", _rows(2, *keys, *sums), self._totals.rows())

    def _stored_verdicts(self) -> Rows:
        """Return stored counts by verdict, without replayed reports and without redeliveries, which are not logged."""
        again = self._kept.counters.get("replayed", {})
        judged: dict[int, int] = {}
        for key, value in self._kept.counters.get("verdict", {}).items():
            judged[_as_held(key)] = judged.get(_as_held(key), 0) + value - again.get(key, 0)
        return _values({"verdict": judged | {int(Verdict.REDELIVERED): 0}}, "verdict")

    def _verdicts(self) -> Rows:
        """Return reports by verdict from the log, the stored exposures and the dropped ones."""
        totals: dict[int, int] = {}
        for (_, verdict), (count,) in self._reports.rows().items():
            totals[verdict] = totals.get(verdict, 0) + count
        for counts in (self._kept.held_verdicts, self._kept.counters.get("dropped", {})):
            for verdict, count in counts.items():
                if verdict not in LOGGED:
                    totals[verdict] = totals.get(verdict, 0) + count
        return {(verdict,): (count,) for verdict, count in totals.items()}


def _as_held(verdict: int) -> int:
    """Return a verdict as the log has it: there, void reports are held for ever."""
    return int(Verdict.HELD) if verdict == Verdict.VOID else verdict


def _values(counters: Mapping[str, Mapping[int, int]], kind: str) -> Rows:
    return {(key,): (value,) for key, value in counters.get(kind, {}).items() if value}


def _compare(table: str, stored: Rows, recounted: Rows) -> Iterator[Difference]:
    for key in sorted(stored.keys() | recounted.keys()):
        if stored.get(key) != recounted.get(key):
            yield Difference(table, "/".join(map(str, key)), stored.get(key), recounted.get(key))


def _only(log: LogTable, rows: Bools) -> LogTable:
    return LogTable(**{name: column[rows] for name, column in vars(log).items()})


def _entered(seen: UsedNumbers, place: Ints, number: Ints) -> tuple[UsedNumbers, list[tuple[int, int]]]:
    """Use numbers of devices. Return those that were used before too. All holes are kept, however many."""
    (at, numbers), where = unique_rows(place, number)
    again = (np.bincount(where, minlength=len(at)) > 1) | ~unseen(seen, Positions(at), numbers)
    seen = enter(seen, Positions(at[~again]), numbers[~again], most_holes=2**40)
    return seen, list(zip(at[again].tolist(), numbers[again].tolist(), strict=True))


_NONE = np.iinfo(np.int64).max


class NumberCheck:
    """Compares used and missing numbers of device states with the log, as far as it still has them."""

    def __init__(self, kept: StoredState, registry: DeviceSource) -> None:
        devices = kept.devices
        self._devices = devices
        self._keyring = registry.keyring
        self._seen = UsedNumbers(devices.low_water, devices.last_number, devices.holes, devices.forgone)
        self._reports = np.zeros(len(devices), np.int64)
        known, place = self._places(kept.pruned.device)
        np.add.at(self._reports, place, (kept.pruned.plus + kept.pruned.minus)[known])
        self._in_time = np.full(len(devices), _NONE)
        """The lowest logged number that came in time since the last pardon. Gaps above it were settled later."""
        self._assigns = np.array(
            [profile.id for profile in self._keyring.profiles if questions_of(profile).assigned], np.int64
        )
        self._judged = np.ones(len(devices), np.bool_)
        """Devices whose gaps can be checked: all their profiles assign an attribute to each number."""
        self._note_profiles(kept.pruned.device, kept.pruned.profile)
        none = np.zeros(len(devices), np.int64)
        self._so_far = self._opened = UsedNumbers(none, none, np.full(len(devices), NO_HOLES, object), none)
        self._gaps: set[tuple[int, int]] = set()
        self._late: set[tuple[int, int]] = set()

    def add(self, log: LogTable, gaps: GapTable) -> Iterator[Difference]:
        """Add events; yield logged numbers that the device's state lacks, and gaps with a wrong attribute."""
        yield from self._opened_twice(_only(log, log.opened != 0))
        log = _only(log, log.opened == 0)
        known, place = self._places(log.device)
        if not known.all():
            yield Difference("seen", "device", "unknown", "in the log")
        np.add.at(self._reports, place, 1)
        self._so_far, again = _entered(self._so_far, place, log.number[known])
        yield from self._twice(again, "used once")
        in_time = (log.late[known] == 0) & (log.arrival[known] > self._devices.pardoned[place])
        np.minimum.at(self._in_time, place[in_time], log.number[known][in_time])
        self._note_profiles(log.device, log.profile)
        for row in np.flatnonzero(unseen(self._seen, place, log.number[known])).tolist():
            yield Difference("seen", f"{log.device[known][row]:08x}/{log.number[known][row]}", "not used", "in the log")
        late = log.late != 0
        self._late |= set(zip(log.device[late].tolist(), log.number[late].tolist(), strict=True))
        self._gaps |= set(zip(gaps.device.tolist(), gaps.number.tolist(), strict=True))
        yield from self._wrong_attributes(gaps)

    def _opened_twice(self, log: LogTable) -> Iterator[Difference]:
        """Yield numbers whose coin was opened twice."""
        known, place = self._places(log.device)
        self._opened, again = _entered(self._opened, place, log.number[known])
        yield from self._twice(again, "opened once")

    def _twice(self, numbers: Sequence[tuple[int, int]], stored: str) -> Iterator[Difference]:
        for at, number in numbers:
            yield Difference("seen", f"{self._devices.device[at]:08x}/{number}", stored, "twice in the log")

    def differences(self) -> Iterator[Difference]:
        """Yield devices with more or fewer used numbers than logged, gaps whose reports came in time, and unsettled numbers."""
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
        """Yield numbers that should have been settled as missing and were not."""
        devices = self._devices
        if not self._judged[row] or self._in_time[row] == _NONE:
            return  # pardoned and not heard since: nothing is due
        at = slice(row, row + 1)
        _, due = numbers.missing(devices.device[at], self._in_time[at], devices.settled[at], devices.holes[at])
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
        """Return the attributes that a number may assign: a device far ahead may use numbers of a later bundle with other keys."""
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

    def _places(self, device: Ints) -> tuple[npt.NDArray[np.bool_], Positions]:
        """Return a mask of the devices with a state, and the positions of those."""
        known = np.isin(device, self._devices.device)
        return known, Positions(np.searchsorted(self._devices.device, device[known]))
