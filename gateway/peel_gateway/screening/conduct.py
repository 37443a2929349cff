# SPDX-License-Identifier: MIT
"""Conduct: what devices have done so far, as states of the bets on them; and how logged events are played on those states.

Bets depend on the order of a device's events, and the log has it (`arrival`). So a state is a function of the log: it is kept in memory, a
checkpoint of it is stored now and then, and what came after the checkpoint is played again when the gateway starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.tables import Aged, ConductTable, GapTable, LogTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.bets import FRESH, GAP, TARDY, Bets, Events
from peel_gateway.screening.roster import Roster, slots_of

__all__ = [
    "CHECKPOINT_EVENTS",
    "Conduct",
    "after",
    "bases",
    "checkpoints",
    "events_of",
    "joined",
    "make_bets",
    "replay",
    "restore",
    "rows",
    "starts",
]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
EventTable = TypeVar("EventTable", LogTable, GapTable)

CHECKPOINT_EVENTS = 64
"""A state is stored again after so many events of its device: storing is dear, playing is not."""

_PLAYED = (int(Verdict.ACCEPTED), int(Verdict.STATISTICS))
"""Reports that were bet on: those that no other layer had objected to."""


@dataclass
class Conduct:
    """The devices that ever had a bundle of one profile, one row each."""

    bets: Bets
    slots: Ints
    """Their slots, ascending, int64[D]."""
    states: Bytes
    """uint8[D, state_bytes]."""
    checkpoint: Ints
    """The event after which each state was last stored, -1 where it never was, int64[D]."""

    def rows(self, slots: Ints) -> Ints:
        """Where the states of these slots are; they must be among the profile's."""
        return np.searchsorted(self.slots, slots)


def make_bets(profile: Profile, alpha: float) -> Bets:
    """The bets on devices of a profile."""
    return Bets(mechanism_of(profile).game(profile), alpha)


def events_of(
    profile: Profile,
    *,
    row: Ints,
    number: Ints,
    index: Ints,
    sign: Ints,
    cohort: Ints,
    late: Ints,
    gap_row: Ints,
    gap_number: Ints,
    gap_index: Ints,
    order: Ints,
) -> Events:
    """Reports, then gaps, as the bets take them; `order` sorts both together."""
    unit, symbol = mechanism_of(profile).toss(profile, index, sign)
    none = np.zeros(len(gap_row), np.int64)
    columns = {
        "row": (row, gap_row),
        "number": (number, gap_number),
        "unit": (unit, gap_index),
        "symbol": (symbol, none),
        "cohort": (cohort, none),
        "kind": (np.where(late != 0, TARDY, FRESH), none + GAP),
    }
    return Events(**{name: np.concatenate(parts)[order] for name, parts in columns.items()})


def replay(profile: Profile, bets: Bets, devices: Ints, states: Bytes, log: LogTable, gaps: GapTable) -> Ints:
    """Play logged events of some devices (sorted ids, one state each) in place.

    Returns
    -------
    int64, shape (D,)
        -1, or not where a device's wealth reached the limit.
    """
    mine = np.flatnonzero((log.profile == profile.id) & np.isin(log.verdict, _PLAYED) & np.isin(log.device, devices))
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
        gap_row=gap_row,
        gap_number=gaps.number[missing],
        gap_index=gaps.index[missing],
        order=np.lexsort((arrival, np.concatenate([row, gap_row]))),
    )
    return bets.update(states, events)


def restore(roster: Roster, alpha: float, checkpoints: ConductTable, log: LogTable, gaps: GapTable) -> list[Conduct]:
    """The conduct of all devices of a roster, per profile: from checkpoints and what was logged after them."""
    return [
        _restore(roster, position, make_bets(profile, alpha), checkpoints, log, gaps)
        for position, profile in enumerate(roster.keyring.profiles)
    ]


def _restore(
    roster: Roster, position: int, bets: Bets, checkpoints: ConductTable, log: LogTable, gaps: GapTable
) -> Conduct:
    profile = roster.keyring.profiles[position]
    slots = roster.members(position)
    ids = roster.ids(slots)
    states, checkpoint = bets.new_states(len(ids)), np.full(len(ids), -1, np.int64)
    conduct = Conduct(bets, slots, states, checkpoint)
    known = slots_of(roster.keyring, checkpoints.device)
    mine = (checkpoints.profile == profile.id) & np.isin(known, slots)
    rows = conduct.rows(known[mine])
    put(states, rows, [checkpoints.state[at] for at in np.flatnonzero(mine).tolist()])
    checkpoint[rows] = checkpoints.arrival[mine]
    replay(profile, bets, ids, states, log, gaps)
    return conduct


def bases(former: ConductTable, aged: Aged, profiles: Sequence[Profile], alpha: float) -> ConductTable:
    """The states of bets where the log begins once aged events have gone; of what was pardoned nothing is left."""
    log, gaps = after(aged.log, aged.device, aged.pardoned), after(aged.gaps, aged.device, aged.pardoned)
    tables = []
    for profile in profiles:
        bets = make_bets(profile, alpha)
        devices = np.unique(
            np.concatenate([log.device[log.profile == profile.id], gaps.device[gaps.profile == profile.id]])
        )
        states = starts(former, profile, devices, bets)
        replay(profile, bets, devices, states, log, gaps)
        arrival = aged.arrival[np.searchsorted(aged.device, devices)]
        tables.append(checkpoints(profile, devices, arrival, states))
    return joined(tables)


def after(table: EventTable, devices: Ints, arrival: Ints) -> EventTable:
    """The events of some devices (sorted ids) after one of each."""
    return rows(table, table.arrival > arrival[np.searchsorted(devices, table.device)])


def rows(table: EventTable, which: npt.NDArray[np.bool_]) -> EventTable:
    """Some events of a table."""
    return replace(table, **{each.name: getattr(table, each.name)[which] for each in fields(table)})


def starts(former: ConductTable, profile: Profile, devices: Ints, bets: Bets) -> Bytes:
    """States that devices (sorted ids) begin with: a former one, or that of a device that has said nothing."""
    states = bets.new_states(len(devices))
    mine = np.flatnonzero((former.profile == profile.id) & np.isin(former.device, devices))
    put(states, np.searchsorted(devices, former.device[mine]), [former.state[at] for at in mine.tolist()])
    return states


def checkpoints(profile: Profile, device: Ints, arrival: Ints, states: Bytes) -> ConductTable:
    """States of devices of a profile as the store wants them."""
    return ConductTable(device, np.full(len(device), profile.id), arrival, [state.tobytes() for state in states])


def joined(tables: Sequence[ConductTable]) -> ConductTable:
    """All rows of some tables."""
    none = [np.zeros(0, np.int64)]
    return ConductTable(
        device=np.concatenate(none + [table.device for table in tables]),
        profile=np.concatenate(none + [table.profile for table in tables]),
        arrival=np.concatenate(none + [table.arrival for table in tables]),
        state=[state for table in tables for state in table.state],
    )


def put(states: Bytes, rows: Ints, stored: Sequence[bytes]) -> None:
    """Copy stored states into rows."""
    for row, state in zip(rows.tolist(), stored, strict=True):
        states[row] = np.frombuffer(state, np.uint8)
