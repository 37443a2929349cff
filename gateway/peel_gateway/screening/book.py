# SPDX-License-Identifier: MIT
"""The book: device states, conduct and cohort in memory, one entry per registered device.

It is a cache of the store. A batch reads it, plans new states on copies, and the new states replace the old ones after the commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.tables import STATE_COLUMNS, ConductTable, DeviceTable, GapTable, LogTable, TallyTable
from peel_gateway.screening.conduct import TAIL, Conduct, checkpoints, held_against, joined, restore
from peel_gateway.screening.recent import WINDOW, Recent
from peel_gateway.screening.roster import Roster, slots_of
from peel_gateway.screening.seen import NO_HOLES, Seen

__all__ = ["Book", "Change", "Played", "States", "cohort_rows", "seen_in"]

Ints = npt.NDArray[np.int64]
States = dict[str, npt.NDArray[Any]]
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
    log: LogTable
    """Reports that came into the log."""
    arrival: int
    """The log's last event."""


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
    recent: Recent
    """The bodies of the last reports."""
    arrival: int
    """The log's last event."""
    checkpointed: int
    """Events up to this one are in the stored checkpoints."""
    aside: ConductTable
    """To be stored with the next checkpoint, see `conduct.Restored`."""
    stuck: int | None
    """The event before the first one of a profile that is not there: no checkpoint goes beyond it."""

    @classmethod
    def open(
        cls,
        roster: Roster,
        *,
        alpha: float,
        generation: int,
        devices: DeviceTable,
        conduct: ConductTable,
        checkpointed: int,
        arrival: int,
        tail: tuple[LogTable, GapTable],
        totals: TallyTable,
    ) -> Book:
        """A book of what a store knows about the devices of a roster; `tail` is what was logged last, see `tail_begins`."""
        restored = restore(roster, alpha, conduct, checkpointed, *held_against(devices, tail))
        recent = Recent(WINDOW)
        recent.note(tail[0].device, tail[0].number, tail[0].body)
        return cls(
            roster=roster,
            generation=generation,
            states=_states(roster.keyring, devices),
            conduct=restored.conduct,
            totals=_totals(roster.keyring.profiles, totals),
            recent=recent,
            arrival=arrival,
            checkpointed=checkpointed,
            aside=restored.aside,
            stuck=restored.stuck,
        )

    @staticmethod
    def tail_begins(arrival: int, checkpointed: int) -> int:
        """The event after which a book must know the log: checkpoints do not know what follows, and `Recent` is as long."""
        return max(0, min(checkpointed, arrival - WINDOW))

    def apply(self, change: Change, left: TallyTable, generation: int) -> None:
        """Make a committed batch's changes, and take off what left the estimates with it."""
        for name, column in self.states.items():
            column[change.slots] = change.states[name]
        for conduct, played in zip(self.conduct, change.conduct, strict=True):
            conduct.states[played.rows] = played.states
            conduct.arrival[played.rows] = played.arrival
            conduct.checkpoint[played.rows[played.stored]] = played.arrival[played.stored]
        for profile, totals, added in zip(self.roster.keyring.profiles, self.totals, change.totals, strict=True):
            mine = cohort_rows(profile, left)
            totals += added
            np.subtract.at(totals, left.index[mine], (left.withdrawn_plus - left.withdrawn_minus)[mine])
        self.recent.note(change.log.device, change.log.number, change.log.body)
        self.arrival, self.generation = change.arrival, generation

    @property
    def overdue(self) -> bool:
        """Whether a checkpoint is to be stored: many events have come since the last one, and it would know more of them."""
        return self.arrival - self.checkpointed >= TAIL and self._known_to > self.checkpointed

    @property
    def _known_to(self) -> int:
        """Events up to this one are in the states, or in `aside`."""
        return self.arrival if self.stuck is None else self.stuck

    def checkpoint(self) -> tuple[ConductTable, int]:
        """The states that are not stored yet, and the event up to which everything is stored with them."""
        tables = [self.aside]
        for profile, conduct in zip(self.roster.keyring.profiles, self.conduct, strict=True):
            due = np.flatnonzero(conduct.arrival > np.maximum(conduct.checkpoint, 0))
            ids = self.roster.ids(conduct.slots[due])
            tables.append(checkpoints(profile, ids, conduct.arrival[due], conduct.states[due]))
        return joined(tables), self._known_to

    def note_checkpoint(self) -> None:
        """The checkpoint was committed."""
        for conduct in self.conduct:
            begun = conduct.arrival > 0
            conduct.checkpoint[begun] = conduct.arrival[begun]
        self.aside, self.checkpointed = joined([]), self._known_to

    def gather(self, slots: Ints) -> States:
        """Copies of the states of some slots."""
        return {name: column[slots] for name, column in self.states.items()}


def seen_in(states: States) -> Seen:
    """Which numbers devices have used, as their states say."""
    return Seen(**{each.name: states[each.name] for each in fields(Seen)})


def cohort_rows(profile: Profile, table: TallyTable) -> npt.NDArray[np.bool_]:
    """Which tallies are a profile's and say what its cohort's sign is: none where reports are not signs."""
    return np.asarray((table.profile == profile.id) & mechanism_of(profile).signed)


def _states(keyring: Keyring, table: DeviceTable) -> States:
    slots = slots_of(keyring, table.device)
    known = slots >= 0
    states = {}
    for name in STATE_COLUMNS:
        stored = getattr(table, name)
        column = np.full(len(keyring.device_ids), NO_HOLES if stored.dtype == object else 0, stored.dtype)
        column[slots[known]] = stored[known]
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
