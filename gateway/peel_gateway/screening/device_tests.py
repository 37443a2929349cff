# SPDX-License-Identifier: MIT
"""The states of the statistical tests on devices, in memory and packed for the store, and their replay from the log.

Bets depend on the order of a device's events, and the log has it (`arrival`). So a state is a function of the log: it is kept in memory
while its device speaks, checkpoints are stored when many events have come (`TAIL`) or when memory is short, and what came after them is
played again when the gateway starts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway._kernels import ffi, lib
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.grouping import up_to
from peel_gateway.model.tables import Aged, DeviceIds, DeviceTable, DeviceTestTable, GapTable, LogTable, Rows, Slots
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.decode_context import DecodeContext, RowCache, slots_of
from peel_gateway.screening.e_process import (
    ABSENT,
    ABSENT_TARDY,
    FRESH,
    GAP,
    TARDY,
    DamagedTestState,
    EProcess,
    Events,
)

__all__ = [
    "TAIL",
    "DeviceTests",
    "Restored",
    "bases",
    "checkpoints",
    "events_of",
    "held_against",
    "joined",
    "make_e_process",
    "pack",
    "replay",
    "restore",
    "select",
    "starts",
    "unpack",
]

Ints = npt.NDArray[np.int64]

Bools = npt.NDArray[np.bool_]

Bytes = npt.NDArray[np.uint8]

Table = TypeVar("Table", LogTable, GapTable)

TAIL = 2**18
"""Events that are played again at most when the gateway starts, some hundred thousand a second: storing is dear, playing is not."""

_PLAYED = (int(Verdict.ACCEPTED), int(Verdict.STATISTICS), int(Verdict.NO_READING), int(Verdict.HELD))
"""Reports that were bet on: those that no other layer had objected to. The second row of a held report is not bet on again."""

_KINDS = np.array([[FRESH, TARDY], [ABSENT, ABSENT_TARDY]])
"""The kind of event of a report: by whether it has no reading, and by whether it is late."""


class DeviceTests:
    """The bets on the devices that ever had a bundle of one profile; their states, as far as they are in memory.

    Parameters
    ----------
    members : bool, shape (D,)
        Which slots are such devices.
    cache_bytes : int
        How many bytes of states there may be; more only while they are not stored yet.
    """

    def __init__(self, e_process: EProcess, members: Bools, cache_bytes: int) -> None:
        self.e_process = e_process
        self._members = members
        self._most = max(1, cache_bytes // e_process.state_bytes)
        rows = min(self._most, int(members.sum()))
        self.row_cache = RowCache(len(members), rows)
        self.states = e_process.new_states(rows)
        """uint8[rows, state_bytes]."""
        self.checkpoint: Ints = np.full(rows, -1, np.int64)
        """The event after which each state was last stored, -1 where it never was."""
        self.arrival: Ints = np.zeros(rows, np.int64)
        """The last event that each state knows, 0 where there was none."""

    def rows(self, slots: Slots) -> Rows:
        """Return the rows of these slots; they must be in memory."""
        return self.row_cache.rows(slots)

    def lacking(self, slots: Slots) -> Bools:
        """Return True for each slot that has the profile and is not in memory."""
        return np.asarray(self._members[slots] & self.row_cache.absent(slots))

    def load(self, slots: Slots, states: Bytes, checkpoint: Ints, arrival: Ints) -> None:
        """Take in states of slots that were lacking."""
        rows = self._assign(slots)
        self.states[rows], self.checkpoint[rows], self.arrival[rows] = states, checkpoint, arrival

    def load_stored(self, slots: Slots, devices: DeviceIds, profile: Profile, stored: DeviceTestTable) -> None:
        """Take in slots that were lacking (sorted ids) as the store has them: everything that they did is in their checkpoints."""
        rows, checkpoint = self._assign(slots), np.full(len(devices), -1, np.int64)
        mine = _rows_of(stored, profile, devices)
        place = np.searchsorted(devices, stored.device[mine])
        checkpoint[place] = stored.arrival[mine]
        self.states[rows[checkpoint < 0]] = 0
        _unpack_stored(self.e_process, self.states, rows[place], [stored.state[at] for at in mine.tolist()])
        self.checkpoint[rows], self.arrival[rows] = checkpoint, np.maximum(checkpoint, 0)

    def _assign(self, slots: Slots) -> Rows:
        """Give rows to slots; what is in them is not theirs."""
        rows = self.row_cache.assign(slots)
        added = len(self.row_cache.slot) - len(self.states)
        if added:
            self.states = np.concatenate([self.states, self.e_process.new_states(added)])
            self.checkpoint = np.append(self.checkpoint, np.full(added, -1))
            self.arrival = np.append(self.arrival, np.zeros(added, np.int64))
        return rows

    @property
    def unstored(self) -> Bools:
        """True for each row whose state has changed since it was stored."""
        return np.asarray((self.row_cache.slot >= 0) & (self.arrival > np.maximum(self.checkpoint, 0)))

    @property
    def crowded(self) -> bool:
        """Whether there is no more room, since too many states are not stored yet."""
        return self.row_cache.taken > self._most

    def evict(self) -> None:
        """Make room: give up states that are stored, of those who have been silent longest first."""
        self.row_cache.evict(self._most, self.arrival, ~self.unstored)

    def note_stored(self) -> None:
        """All states are stored."""
        begun = self.arrival > 0
        self.checkpoint[begun] = self.arrival[begun]


def make_e_process(profile: Profile, alpha: float) -> EProcess:
    """The bets on devices of a profile."""
    return EProcess(questions_of(profile).bets(), alpha)


def events_of(
    profile: Profile,
    *,
    row: Ints,
    number: Ints,
    index: Ints,
    sign: Ints,
    cohort: Ints,
    late: Ints,
    absent: Bools,
    gap_row: Ints,
    gap_number: Ints,
    gap_index: Ints,
    order: Ints,
) -> Events:
    """Reports, then gaps, as the bets take them; `order` sorts both together."""
    unit, symbol = questions_of(profile).toss(index, sign)
    none = np.zeros(len(gap_row), np.int64)
    columns = {
        "row": (row, gap_row),
        "number": (number, gap_number),
        "unit": (unit, gap_index),
        "symbol": (symbol, none),
        "cohort": (cohort, none),
        "kind": (_KINDS[absent.astype(np.int64), (late != 0).astype(np.int64)], none + GAP),
    }
    return Events(**{name: np.concatenate(parts)[order] for name, parts in columns.items()})


def replay(profile: Profile, e_process: EProcess, devices: Ints, states: Bytes, log: LogTable, gaps: GapTable) -> Ints:
    """Play logged events of some devices (sorted ids, one state each) in place.

    Returns
    -------
    int64, shape (D,)
        -1, or not where a device's capital reached the limit.
    """
    played = (log.profile == profile.id) & np.isin(log.verdict, _PLAYED) & (log.opened == 0)
    mine = np.flatnonzero(played & np.isin(log.device, devices))
    missing = np.flatnonzero((gaps.profile == profile.id) & np.isin(gaps.device, devices))
    row, gap_row = np.searchsorted(devices, log.device[mine]), np.searchsorted(devices, gaps.device[missing])
    arrival = np.concatenate([log.arrival[mine], gaps.arrival[missing]])
    events = events_of(
        profile,
        row=row,
        number=log.number[mine],
        index=log.index[mine],
        sign=log.sign[mine],
        cohort=log.cohort[mine],
        late=log.late[mine],
        absent=log.verdict[mine] == Verdict.NO_READING,
        gap_row=gap_row,
        gap_number=gaps.number[missing],
        gap_index=gaps.index[missing],
        order=np.lexsort((arrival, np.concatenate([row, gap_row]))),
    )
    return e_process.update(states, events)


@dataclass(frozen=True)
class Restored:
    """Test states, restored from checkpoints and the events logged after them."""

    device_tests: list[DeviceTests]
    """Per profile of the decode context."""
    aside: DeviceTestTable
    """States of devices that the decode context no longer has: they are stored with the next checkpoint."""
    stuck: int | None
    """The event before the first one of a profile that is not there, if there is one: it could not be played."""


def restore(
    context: DecodeContext,
    alpha: float,
    cache_bytes: int,
    stored: DeviceTestTable,
    checkpointed: int,
    log: LogTable,
    gaps: GapTable,
) -> Restored:
    """Restore the test states of devices with events since the last checkpoint, at event `checkpointed`.

    Parameters
    ----------
    cache_bytes : int
        Bytes for all states together, see `DeviceTests`.
    stored : DeviceTestTable
        The checkpoints of those devices.
    log, gaps
        What came after that event.
    """
    device_tests, aside = [], []
    for position, profile in enumerate(context.keyring.profiles):
        e_process, members = make_e_process(profile, alpha), context.members(position)
        each = DeviceTests(e_process, members, cache_bytes // len(context.keyring.profiles))
        played = _played_on(stored, profile, e_process, log, gaps)
        slots = slots_of(context.keyring, DeviceIds(played.device))
        mine = slots >= 0
        mine[mine] = members[slots[mine]]
        each.load(Slots(slots[mine]), played.states[mine], played.checkpoint[mine], played.arrival[mine])
        device_tests.append(each)
        other = ~mine & (played.arrival > played.checkpoint)
        aside.append(played.checkpoints(profile, other))
    known = context.profile_ids()
    strange = np.concatenate([table.arrival[~np.isin(table.profile, known)] for table in (log, gaps)])
    strange = strange[strange > checkpointed]
    return Restored(device_tests, joined(aside), int(strange.min()) - 1 if len(strange) else None)


@dataclass(frozen=True)
class _Played:
    """Devices of one profile, sorted ids, with their states."""

    e_process: EProcess
    device: Ints
    checkpoint: Ints
    arrival: Ints
    states: Bytes

    def checkpoints(self, profile: Profile, which: Bools) -> DeviceTestTable:
        """Some of them as the store wants them."""
        rows = Rows(np.flatnonzero(which))
        return checkpoints(profile, self.e_process, self.device[rows], self.arrival[rows], self.states, rows)


def _played_on(
    stored: DeviceTestTable, profile: Profile, e_process: EProcess, log: LogTable, gaps: GapTable
) -> _Played:
    """Play what the checkpoints of a profile do not know."""
    mine = stored.profile == profile.id
    begun = [log.device[log.profile == profile.id], gaps.device[gaps.profile == profile.id]]
    devices = np.unique(np.concatenate([stored.device[mine], *begun]))
    checkpoint = np.full(len(devices), -1, np.int64)
    checkpoint[np.searchsorted(devices, stored.device[mine])] = stored.arrival[mine]
    states = starts(stored, profile, devices, e_process)
    news = select((log, gaps), lambda each: each.profile == profile.id)
    news = select(news, lambda each: each.arrival > checkpoint[np.searchsorted(devices, each.device)])
    arrival = np.maximum(checkpoint, 0)
    for table in news:
        np.maximum.at(arrival, np.searchsorted(devices, table.device), table.arrival)
    going_on = ~e_process.over(states)  # else what came after the exposure, in the same batch, was not played
    replay(
        profile, e_process, devices, states, *select(news, lambda each: going_on[np.searchsorted(devices, each.device)])
    )
    return _Played(e_process, devices, checkpoint, arrival, states)


def select(
    events: tuple[LogTable, GapTable], which: Callable[[LogTable | GapTable], Bools]
) -> tuple[LogTable, GapTable]:
    """The events that something is true of."""
    log, gaps = events
    return _rows(log, which(log)), _rows(gaps, which(gaps))


def _rows(table: Table, rows: Bools) -> Table:
    return replace(table, **{each.name: getattr(table, each.name)[rows] for each in fields(table)})


def held_against(devices: DeviceTable, events: tuple[LogTable, GapTable]) -> tuple[LogTable, GapTable]:
    """The events that were not pardoned."""
    return select(events, lambda each: ~up_to(devices.device, devices.pardoned, each.device, each.arrival))


def bases(
    former: DeviceTestTable, aged: Aged, devices: DeviceTable, profiles: Sequence[Profile], alpha: float
) -> DeviceTestTable:
    """The states of bets where the log begins once aged events have gone."""
    events = held_against(devices, (aged.log, aged.gaps))
    tables = []
    for profile in profiles:
        played = _played_on(former, profile, make_e_process(profile, alpha), *events)
        tables.append(played.checkpoints(profile, played.arrival > played.checkpoint))
    return joined(tables)


def starts(former: DeviceTestTable, profile: Profile, devices: Ints, e_process: EProcess) -> Bytes:
    """States that devices (sorted ids) begin with: a former one, or that of a device that has said nothing."""
    states = e_process.new_states(len(devices))
    mine = _rows_of(former, profile, devices)
    rows = np.searchsorted(devices, former.device[mine])
    _unpack_stored(e_process, states, rows, [former.state[at] for at in mine.tolist()])
    return states


def _rows_of(table: DeviceTestTable, profile: Profile, devices: Ints) -> Ints:
    """Return the table's rows with the states of these devices of a profile."""
    return np.flatnonzero((table.profile == profile.id) & np.isin(table.device, devices))


def checkpoints(
    profile: Profile, e_process: EProcess, device: Ints, arrival: Ints, states: Bytes, rows: Rows
) -> DeviceTestTable:
    """States of devices of a profile, which are in these rows, as the store wants them."""
    if sys.byteorder == "big":
        states, rows = e_process.reversed(states[rows]), Rows(np.arange(len(rows)))
    return DeviceTestTable(device, np.full(len(device), profile.id), arrival, pack(states, rows))


def _unpack_stored(e_process: EProcess, states: Bytes, rows: Ints, packed: Sequence[bytes]) -> None:
    """Put stored states, which are little-endian, into rows."""
    unpack(states, rows, packed)
    if sys.byteorder == "big":
        states[rows] = e_process.reversed(states[rows])


def joined(tables: Sequence[DeviceTestTable]) -> DeviceTestTable:
    """All rows of some tables."""
    none = [np.zeros(0, np.int64)]
    return DeviceTestTable(
        device=np.concatenate(none + [table.device for table in tables]),
        profile=np.concatenate(none + [table.profile for table in tables]),
        arrival=np.concatenate(none + [table.arrival for table in tables]),
        state=[state for table in tables for state in table.state],
    )


_ROOM = 2**24
"""Bytes that states are packed into at a time."""


def pack(states: Bytes, rows: Ints) -> list[bytes]:
    """States at some rows of uint8[S, state_bytes], each by itself; none is longer than it was."""
    size = states.shape[1]
    some = max(1, _ROOM // size)
    cache_bytes = np.empty(min(some, len(rows)) * size, np.uint8)
    packed: list[bytes] = []
    for begin in range(0, len(rows), some):
        packed += _pack(cache_bytes, states, rows[begin : begin + some])
    return packed


def _pack(cache_bytes: Bytes, states: Bytes, rows: Ints) -> list[bytes]:
    ends = np.empty(len(rows), np.uint64)
    places = np.ascontiguousarray(rows, np.uint64)
    lib.peel_pack(
        ffi.from_buffer("uint8_t[]", cache_bytes),
        ffi.from_buffer("uint64_t[]", ends),
        ffi.from_buffer("uint8_t[]", states),
        ffi.from_buffer("uint64_t[]", places),
        len(rows),
        states.shape[1],
    )
    data, bounds = cache_bytes[: int(ends[-1])].tobytes(), [0, *ends.tolist()]
    return [data[begin:end] for begin, end in pairwise(bounds)]


def unpack(states: Bytes, rows: Ints, packed: Sequence[bytes]) -> None:
    """Put packed states into rows of uint8[S, state_bytes]. Raises `DamagedTestState` for what was never packed from such a state."""
    if len(rows) != len(packed):
        raise ValueError(f"{len(packed)} states for {len(rows)} rows")
    if len(rows) and not 0 <= rows.min() <= rows.max() < len(states):
        raise ValueError(f"rows go from {rows.min()} to {rows.max()}, and there are {len(states)}")
    ends = np.cumsum([len(each) for each in packed], dtype=np.uint64)
    places = np.ascontiguousarray(rows, np.uint64)
    right = lib.peel_unpack(
        ffi.from_buffer("uint8_t[]", states, require_writable=True),
        ffi.from_buffer("uint64_t[]", places),
        b"".join(packed),
        ffi.from_buffer("uint64_t[]", ends),
        len(rows),
        states.shape[1],
    )
    if right < len(rows):
        raise DamagedTestState(
            f"a packed state of {len(packed[right])} bytes does not unpack to {states.shape[1]} bytes"
        )
