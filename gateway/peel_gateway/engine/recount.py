# SPDX-License-Identifier: MIT
"""Recount: every published number once more from the log, and whether it differs from what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from peel_core import index_many
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.tables import Difference, ExposureFilter, GapTable, LogTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening import gaps
from peel_gateway.screening.conduct import make_bets, replay, starts
from peel_gateway.screening.roster import Registry, slots_of
from peel_gateway.storage.store import Store

__all__ = ["RecountReport", "recount"]

Events = TypeVar("Events", LogTable, GapTable)


@dataclass(frozen=True)
class RecountReport:
    """What a recount found."""

    reports: int
    """Reports in the log, pruned ones included."""
    devices: int
    differences: list[Difference]

    @property
    def agrees(self) -> bool:
        """Whether everything stored is what the log says."""
        return not self.differences


def recount(store: Store, registry: Registry, *, alpha: float = 1e-6) -> RecountReport:
    """Check the file, recount tallies, counters, device reports and marks, and play all bets again, in the log's order.

    Parameters
    ----------
    registry : Registry
        Supplies the profiles and keys; devices that are not in it any more are counted, but not judged again.
    alpha : float
        The engine's: who is past it must have been exposed.
    """
    store.check()
    assigning = [profile.id for profile in registry.keyring.profiles if mechanism_of(profile).assigns]
    found = [*store.recount_rows(assigning, gaps.LIMIT), *_conduct(store, registry, alpha), *_gaps(store, registry)]
    reports, devices = store.log_size()
    return RecountReport(reports, devices, found)


def _conduct(store: Store, registry: Registry, alpha: float) -> Iterator[Difference]:
    """Yield checkpoints that the log does not lead to, devices that it convicts and that still count, and the other way round."""
    log, held, devices = store.log(), store.gaps(), store.devices()
    checkpoints, begins = store.conduct(), store.bases()
    convicted = _convicted(store, alpha)
    counting = set(devices.device[devices.withdrawn == 0].tolist())
    for profile in registry.keyring.profiles:
        bets = make_bets(profile, alpha)
        mine = checkpoints.profile == profile.id
        ids = checkpoints.device[mine]
        stored = starts(checkpoints, profile, ids, bets)
        states = starts(begins, profile, ids, bets)
        arrival = dict(zip(ids.tolist(), checkpoints.arrival[mine].tolist(), strict=True))
        early, late = _cut(log, arrival), _cut(held, arrival)
        crossed = replay(profile, bets, ids, states, early[0], late[0]) >= 0
        for row in np.flatnonzero((states != stored).any(axis=1)).tolist():
            if int(ids[row]) not in convicted:  # another alpha may have ended the bets on it at another event
                yield Difference("conduct", f"{ids[row]:08x}", "a state", "another one")
        crossed |= replay(profile, bets, ids, states, early[1], late[1]) >= 0
        yield from _wrong_convictions(set(ids[crossed].tolist()), set(ids.tolist()), counting, convicted)


def _cut(table: Events, arrival: Mapping[int, int]) -> tuple[Events, Events]:
    """The events of a table up to each device's checkpoint, and those after it."""
    marks = np.array([arrival.get(device, 0) for device in table.device.tolist()], np.int64)
    return _rows(table, table.arrival <= marks), _rows(table, table.arrival > marks)


def _rows(table: Events, which: npt.NDArray[np.bool_]) -> Events:
    return replace(table, **{each.name: getattr(table, each.name)[which] for each in fields(table)})


def _wrong_convictions(
    past: set[int], known: set[int], counting: set[int], convicted: set[int]
) -> Iterator[Difference]:
    for device in sorted(past & counting):
        yield Difference("device", f"{device:08x}", "counts", "its statistics withdraw it")
    for device in sorted((convicted & known) - past):
        yield Difference("device", f"{device:08x}", "exposed by statistics", "its statistics do not")


def _convicted(store: Store, alpha: float) -> set[int]:
    """Devices that were exposed by statistics at this alpha or a stricter one, as far as the exposures are still held."""
    convicted: set[int] = set()
    which = ExposureFilter(verdicts=frozenset({Verdict.STATISTICS}))
    after = 0
    while chunk := store.exposures(which, limit=1000, after=after):
        convicted |= {exposure.device for exposure in chunk if exposure.evidence["alpha"] <= alpha}
        after = chunk[-1].id
    return convicted


def _gaps(store: Store, registry: Registry) -> Iterator[Difference]:
    """Yield gaps whose attribute is not what their number assigns."""
    keyring = registry.keyring
    held = store.gaps()
    slots = slots_of(keyring, held.device)
    for profile in keyring.profiles:
        mine = (slots >= 0) & (held.profile == profile.id)
        index = index_many(profile, held.device[mine], keyring.index_keys[slots[mine]], held.number[mine])
        wrong = np.flatnonzero(index != held.index[mine])
        for row in wrong.tolist():
            key = f"{held.device[mine][row]:08x}/{held.number[mine][row]}"
            yield Difference("gap", key, int(held.index[mine][row]), int(index[row]))
