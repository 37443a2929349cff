# SPDX-License-Identifier: MIT
"""The book: device states, conduct and cohort in memory, one entry per registered device.

It is a cache of the store. A batch reads it, plans new states on copies, and the new states replace the old ones after the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.tables import STATE_COLUMNS, ConductTable, DeviceTable, GapTable, LogTable, TallyTable
from peel_gateway.screening.conduct import CHECKPOINT_EVENTS, Conduct, checkpoints, joined, restore
from peel_gateway.screening.roster import Roster, slots_of

__all__ = ["Book", "Change", "Played", "States", "cohort_rows"]

Ints = npt.NDArray[np.int64]
States = dict[str, Ints]
"""Device states by column of `STATE_COLUMNS`, one entry per device."""


@dataclass(frozen=True)
class Played:
    """New states of the bets on some devices of a profile."""

    rows: Ints
    states: npt.NDArray[np.uint8]
    """uint8[R, state_bytes]."""
    stored: npt.NDArray[np.bool_]
    """Which of them are stored with this batch."""
    arrival: Ints
    """The last event of each device."""


@dataclass(frozen=True)
class Change:
    """What a batch changes in the book."""

    slots: Ints
    """Devices that were heard, int64[T]."""
    states: States
    """Their new states, int64[T] per column."""
    conduct: Sequence[Played]
    """Per profile."""
    totals: Sequence[Ints]
    """Per profile: what to add, int64[k]."""


@dataclass
class Book:
    """All that the engine must remember between batches. States are zero for a device that was never heard."""

    roster: Roster
    generation: int
    states: States
    """int64[D] per column."""
    conduct: list[Conduct]
    """Per profile."""
    totals: list[Ints]
    """Per profile: plus minus minus of all reports that count, per attribute, int64[k]; 0 where reports are not signs."""

    @classmethod
    def open(
        cls,
        roster: Roster,
        *,
        alpha: float,
        generation: int,
        devices: DeviceTable,
        conduct: ConductTable,
        tail: tuple[LogTable, GapTable],
        totals: TallyTable,
    ) -> Book:
        """A book of what a store knows about the devices of a roster; `tail` is what was logged after the conduct's checkpoints."""
        return cls(
            roster=roster,
            generation=generation,
            states=_states(roster.keyring, devices),
            conduct=restore(roster, alpha, conduct, *tail),
            totals=_totals(roster.keyring.profiles, totals),
        )

    def apply(self, change: Change, left: TallyTable, generation: int) -> None:
        """Make a committed batch's changes, and take off what left the estimates with it."""
        for name, column in self.states.items():
            column[change.slots] = change.states[name]
        for conduct, played in zip(self.conduct, change.conduct, strict=True):
            conduct.states[played.rows] = played.states
            conduct.checkpoint[played.rows[played.stored]] = played.arrival[played.stored]
        for profile, totals, added in zip(self.roster.keyring.profiles, self.totals, change.totals, strict=True):
            mine = cohort_rows(profile, left)
            totals += added
            np.subtract.at(totals, left.index[mine], (left.withdrawn_plus - left.withdrawn_minus)[mine])
        self.generation = generation

    def overdue(self) -> ConductTable:
        """Checkpoints of the devices that have had many events since their last one."""
        arrivals = self.states["arrivals"]
        tables = []
        for profile, conduct in zip(self.roster.keyring.profiles, self.conduct, strict=True):
            slots = conduct.slots
            due = np.flatnonzero(arrivals[slots] - np.maximum(conduct.checkpoint, 0) >= CHECKPOINT_EVENTS)
            tables.append(checkpoints(profile, self.roster.ids(slots[due]), arrivals[slots[due]], conduct.states[due]))
        return joined(tables)

    def gather(self, slots: Ints) -> States:
        """Copies of the states of some slots."""
        return {name: column[slots] for name, column in self.states.items()}


def cohort_rows(profile: Profile, table: TallyTable) -> npt.NDArray[np.bool_]:
    """Which tallies are a profile's and say what its cohort's sign is: none where reports are not signs."""
    return np.asarray((table.profile == profile.id) & mechanism_of(profile).signed)


def _states(keyring: Keyring, table: DeviceTable) -> States:
    slots = slots_of(keyring, table.device)
    known = slots >= 0
    states = {}
    for name in STATE_COLUMNS:
        column = np.zeros(len(keyring.device_ids), np.int64)
        column[slots[known]] = getattr(table, name)[known]
        states[name] = column
    return states


def _totals(profiles: Sequence[Profile], table: TallyTable) -> list[Ints]:
    result = []
    for profile in profiles:
        mine = cohort_rows(profile, table)
        totals = np.zeros(profile.k, np.int64)
        net = table.plus - table.minus - table.withdrawn_plus + table.withdrawn_minus
        totals[table.index[mine]] = net[mine]
        result.append(totals)
    return result
