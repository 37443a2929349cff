# SPDX-License-Identifier: MIT
"""An LRU cache of device states, test states and cohort totals, for the devices that report.

It is a cache of the store. Before a batch whatever it lacks of the devices in it is looked up; the batch reads it, plans new states on
copies, and the new states replace the old ones after the commit. Bets alone, whose states are large, are played in place: a cache whose
batch was not committed is thrown away. When there are too many, the devices that have been silent longest are evicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.tables import (
    STATE_COLUMNS,
    DeviceIds,
    DeviceStates,
    DeviceTable,
    DeviceTestTable,
    GapTable,
    LogTable,
    Rows,
    Slots,
    TallyTable,
)
from peel_gateway.screening.decode_context import DecodeContext, RowCache
from peel_gateway.screening.device_tests import TAIL, DeviceTests, checkpoints, held_against, joined, restore, select
from peel_gateway.screening.layers import WINDOW, RecentReports

__all__ = ["CACHE_BYTES", "Change", "Played", "StateCache", "cohort_rows", "states_of"]

Ints = npt.NDArray[np.int64]

CACHE_BYTES = 3 * 2**27
"""Bytes of memory for what devices have done: 98,000 devices at 16 attributes, 14,000 at 252."""
_STATE_BYTES = 8 * len(STATE_COLUMNS)


@dataclass(frozen=True)
class Played:
    """Bets on some devices of a profile that were played."""

    rows: Rows
    stored: npt.NDArray[np.bool_]
    """True for those that are stored with this batch."""
    arrival: Ints
    """The last event of each device."""


@dataclass(frozen=True)
class Change:
    """The changes of a batch to the cache."""

    slots: Slots
    """Devices that sent."""
    states: DeviceStates
    """Their new states."""
    device_tests: Sequence[Played]
    """Per profile."""
    totals: Sequence[Ints]
    """Per profile: what to add, int64[k]."""
    log: LogTable
    """Reports that came into the log."""
    arrival: int
    """The log's last event."""


@dataclass
class StateCache:
    """All that the engine must remember between batches. DeviceStates are zero for a device that was never heard."""

    context: DecodeContext
    generation: int
    row_cache: RowCache
    """The rows of cached slots; the states of all others are in the store."""
    states: DeviceStates
    """By row."""
    most: int
    """So many states are kept."""
    device_tests: list[DeviceTests]
    """Per profile."""
    totals: list[Ints]
    """Per profile: plus minus minus of all reports that count, per attribute, int64[k]; 0 where reports are not signs."""
    recent: RecentReports
    """The bodies of the last reports."""
    arrival: int
    """The log's last event."""
    checkpointed: int
    """Events up to this one are in the stored checkpoints."""
    aside: DeviceTestTable
    """To be stored with the next checkpoint, see `device_tests.Restored`."""
    stuck: int | None
    """The event before the first one of a profile that is not there: no checkpoint goes beyond it."""

    @classmethod
    def open(
        cls,
        context: DecodeContext,
        *,
        alpha: float,
        cache_bytes: int,
        generation: int,
        devices: DeviceTable,
        device_tests: DeviceTestTable,
        checkpointed: int,
        arrival: int,
        tail: tuple[LogTable, GapTable],
        totals: TallyTable,
    ) -> StateCache:
        """Build a cache from the contents of a store.

        Parameters
        ----------
        cache_bytes : int
            Bytes for the states of bets; an eighth more for those of devices.
        tail
            What was logged last, see `tail_begins`.
        devices, device_tests
            What is stored of the devices in it, of those that `unstored` names at least.
        """
        news = select(tail, lambda each: each.arrival > checkpointed)
        restored = restore(context, alpha, cache_bytes, device_tests, checkpointed, *held_against(devices, news))
        recent = RecentReports(WINDOW)
        _note(recent, tail[0])
        slots = len(context.keyring.device_ids)
        most = max(1, cache_bytes // 8 // _STATE_BYTES)
        row_cache = RowCache(slots, min(slots, most))
        return cls(
            context=context,
            generation=generation,
            row_cache=row_cache,
            states=DeviceStates.new(len(row_cache.slot)),
            most=most,
            device_tests=restored.device_tests,
            totals=_totals(context.keyring.profiles, totals),
            recent=recent,
            arrival=arrival,
            checkpointed=checkpointed,
            aside=restored.aside,
            stuck=restored.stuck,
        )

    @staticmethod
    def tail_begins(arrival: int, checkpointed: int) -> int:
        """The event after which a cache must know the log: checkpoints do not know what follows, and `RecentReports` is as long."""
        return max(0, min(checkpointed, arrival - WINDOW))

    @staticmethod
    def unstored(tail: tuple[LogTable, GapTable], checkpointed: int) -> Ints:
        """Ids of devices whose checkpoints do not know all that they did."""
        return np.unique(np.concatenate([each.device[each.arrival > checkpointed] for each in tail]))

    def absent(self, slots: Slots) -> Slots:
        """Those of some slots of which something is not in memory."""
        absent = self.row_cache.absent(slots)
        for device_tests in self.device_tests:
            absent |= device_tests.lacking(slots)
        return Slots(slots[absent])

    def load(self, slots: Slots, devices: DeviceTable, device_tests: DeviceTestTable) -> None:
        """Take in what is stored of strangers (ascending); what is in memory of them stays as it is."""
        self._load_states(Slots(slots[self.row_cache.absent(slots)]), devices)
        for profile, each in zip(self.context.keyring.profiles, self.device_tests, strict=True):
            lacking = Slots(slots[each.lacking(slots)])
            each.load_stored(lacking, self.context.ids(lacking), profile, device_tests)

    def _load_states(self, slots: Slots, stored: DeviceTable) -> None:
        rows = self.row_cache.assign(slots)
        added = len(self.row_cache.slot) - len(self.states.arrival)
        if added:
            self.states = self.states.extended(added)
        self.states.put(rows, states_of(self.context.ids(slots), stored))

    def apply(self, change: Change, left: TallyTable, generation: int) -> None:
        """Make a committed batch's changes, and take off what left the estimates with it."""
        rows = self.row_cache.rows(change.slots)
        self.states.put(rows, change.states)
        for device_tests, played in zip(self.device_tests, change.device_tests, strict=True):
            device_tests.arrival[played.rows] = played.arrival
            device_tests.checkpoint[played.rows[played.stored]] = played.arrival[played.stored]
        for profile, totals, added in zip(self.context.keyring.profiles, self.totals, change.totals, strict=True):
            mine, question = cohort_rows(profile, left)
            totals += added
            np.subtract.at(totals, question, (left.withdrawn_plus - left.withdrawn_minus)[mine])
        _note(self.recent, change.log)
        self.arrival, self.generation = change.arrival, generation
        self.evict()

    def forget_held(self, slots: Slots) -> None:
        """Note that no report of these devices is held any more."""
        known = Slots(slots[~self.row_cache.absent(slots)])
        self.states.held[self.row_cache.rows(known)] = 0

    def evict(self) -> None:
        """If there are too many, evict the devices that have been silent longest; states that are not stored yet stay."""
        self.row_cache.evict(self.most, self.states.arrival, np.ones(len(self.row_cache.slot), np.bool_))
        for device_tests in self.device_tests:
            device_tests.evict()

    @property
    def overdue(self) -> bool:
        """Whether a checkpoint is to be stored: there is no more room for states that are not, or many events have come since the last
        one, and it would know more of them."""
        if any(device_tests.crowded for device_tests in self.device_tests):
            return True
        return self.arrival - self.checkpointed >= TAIL and self._known_to > self.checkpointed

    @property
    def _known_to(self) -> int:
        """Events up to this one are in the states, or in `aside`."""
        return self.arrival if self.stuck is None else self.stuck

    def checkpoint(self) -> tuple[DeviceTestTable, int]:
        """The states that are not stored yet, and the event up to which everything is stored with them."""
        tables = [self.aside]
        for profile, device_tests in zip(self.context.keyring.profiles, self.device_tests, strict=True):
            due = Rows(np.flatnonzero(device_tests.unstored))
            ids = self.context.ids(Slots(device_tests.row_cache.slot[due]))
            tables.append(
                checkpoints(profile, device_tests.e_process, ids, device_tests.arrival[due], device_tests.states, due)
            )
        return joined(tables), self._known_to

    def note_checkpoint(self) -> None:
        """Note that the checkpoint is stored, and committed unless this cache is thrown away."""
        for device_tests in self.device_tests:
            device_tests.note_stored()
        self.aside, self.checkpointed = joined([]), self._known_to

    def gather(self, slots: Slots) -> DeviceStates:
        """Copies of the states of some slots, which must be in memory."""
        return self.states.at(self.row_cache.rows(slots))

    def sealed(self, slots: Slots) -> npt.NDArray[np.bool_]:
        """Return True for each slot whose device has sealed a report before."""
        return np.asarray(self.states.sealed[self.row_cache.rows(slots)] != 0)


def _note(recent: RecentReports, log: LogTable) -> None:
    """Remember new reports of the log."""
    first = log.opened == 0
    recent.note(log.device[first], log.number[first], log.body[first])


def cohort_rows(profile: Profile, table: TallyTable) -> tuple[Rows, Ints]:
    """Return the tallies of signs, which count towards the sign of a profile's cohort, and their questions."""
    questions = questions_of(profile)
    mine = np.flatnonzero(table.profile == profile.id)
    signs = Rows(mine[questions.signed(table.index[mine])])
    return signs, questions.question(table.index[signs])


def states_of(devices: DeviceIds, table: DeviceTable) -> DeviceStates:
    """The states of devices (sorted ids) in a table; those of devices that it does not have are new."""
    mine = np.flatnonzero(np.isin(table.device, devices))
    states = DeviceStates.new(len(devices))
    states.put(np.searchsorted(devices, table.device[mine]), table.at(mine))
    return states


def _totals(profiles: Sequence[Profile], table: TallyTable) -> list[Ints]:
    result = []
    for profile in profiles:
        mine, question = cohort_rows(profile, table)
        totals = np.zeros(questions_of(profile).count, np.int64)
        net = table.plus - table.minus - table.withdrawn_plus + table.withdrawn_minus
        totals[question] = net[mine]
        result.append(totals)
    return result
