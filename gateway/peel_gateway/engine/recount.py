# SPDX-License-Identifier: MIT
"""Recount: every published number once more from the log, and whether it differs from what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from peel_core import Profile, index_many
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.audit import AuditEntry
from peel_gateway.model.tables import (
    ConductTable,
    DeviceTable,
    Difference,
    Exposure,
    ExposureFilter,
    GapTable,
    LogTable,
)
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening import gaps
from peel_gateway.screening.bets import Bets
from peel_gateway.screening.conduct import make_bets, replay, rows, starts
from peel_gateway.screening.roster import Registry
from peel_gateway.storage.store import Store

__all__ = ["RecountReport", "recount"]

Ints = npt.NDArray[np.int64]
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


@dataclass(frozen=True)
class _Stretch:
    """What there is to judge again of a time that pardons begin and end, and what was found then."""

    present: Ints
    """Devices that have had no further pardon, sorted."""
    ended: Ints
    """Devices that have, as far as retention has taken nothing from them, sorted."""
    log: LogTable
    gaps: GapTable
    convicted: Mapping[int, set[int]]
    """Devices that were exposed by statistics, by profile."""


def _conduct(store: Store, registry: Registry, alpha: float) -> Iterator[Difference]:
    """Yield checkpoints that the log does not lead to, devices that it convicts and that still count, and the other way round."""
    devices = store.devices()
    counting = set(devices.device[devices.withdrawn == 0].tolist())
    checkpoints, begins = store.conduct(), store.bases()
    for stretch in _stretches(store, devices, alpha):
        for profile in registry.keyring.profiles:
            bets = make_bets(profile, alpha)
            yield from _present(stretch, profile, bets, checkpoints, begins, counting)
            yield from _ended(stretch, profile, bets)


def _stretches(store: Store, devices: DeviceTable, alpha: float) -> Iterator[_Stretch]:
    """Cut log and exposures at each device's first, second, ... pardon."""
    log, held, exposures = store.log(), store.gaps(), _convictions(store, alpha)
    pardons: dict[int, list[AuditEntry]] = {}
    for entry in reversed(store.audit()):
        pardons.setdefault(entry.device, []).append(entry)
    times = np.array([len(pardons.get(device, ())) for device in devices.device.tolist()], np.int64)
    for place in range(1 + max(times, default=0)):
        ends = {device: entries[place] for device, entries in pardons.items() if len(entries) > place}
        early, log = _cut(log, {device: entry.arrival for device, entry in ends.items()}, _FOR_EVER)
        missing, held = _cut(held, {device: entry.arrival for device, entry in ends.items()}, _FOR_EVER)
        convicted: dict[int, set[int]] = {}
        later = []
        for exposure in exposures:
            if exposure.device in ends and exposure.id > ends[exposure.device].last_exposure:
                later.append(exposure)
            else:
                convicted.setdefault(exposure.profile, set()).add(exposure.device)
        exposures = later
        present, ended = times == place, (times > place) & (devices.low_water == 0)
        yield _Stretch(devices.device[present], devices.device[ended], early, missing, convicted)


def _present(
    stretch: _Stretch,
    profile: Profile,
    bets: Bets,
    checkpoints: ConductTable,
    begins: ConductTable,
    counting: set[int],
) -> Iterator[Difference]:
    """Judge devices again whose stretch has not ended."""
    mine = (checkpoints.profile == profile.id) & np.isin(checkpoints.device, stretch.present)
    ids = checkpoints.device[mine]
    stored, states = starts(checkpoints, profile, ids, bets), starts(begins, profile, ids, bets)
    arrival = dict(zip(ids.tolist(), checkpoints.arrival[mine].tolist(), strict=True))
    early, late = _cut(stretch.log, arrival, 0), _cut(stretch.gaps, arrival, 0)
    convicted = stretch.convicted.get(profile.id, set())
    crossed = replay(profile, bets, ids, states, early[0], late[0]) >= 0
    for row in np.flatnonzero((states != stored).any(axis=1)).tolist():
        if int(ids[row]) not in convicted:  # another alpha may have ended the bets on it at another event
            yield Difference("conduct", f"{ids[row]:08x}", "a state", "another one")
    crossed |= replay(profile, bets, ids, states, early[1], late[1]) >= 0
    past = set(ids[crossed].tolist())
    for device in sorted(past & counting):
        yield Difference("device", f"{device:08x}", "counts", "its statistics withdraw it")
    for device in sorted((convicted & set(ids.tolist())) - past):
        yield Difference("device", f"{device:08x}", "exposed by statistics", "its statistics do not")


def _ended(stretch: _Stretch, profile: Profile, bets: Bets) -> Iterator[Difference]:
    """Judge devices again as they were before a pardon."""
    ids = stretch.ended
    crossed = replay(profile, bets, ids, bets.new_states(len(ids)), stretch.log, stretch.gaps) >= 0
    past = set(ids[crossed].tolist())
    for device in sorted(past ^ (stretch.convicted.get(profile.id, set()) & set(ids.tolist()))):
        said = ("not exposed", "exposed")
        yield Difference("device", f"{device:08x}", f"{said[device not in past]} before a pardon", said[device in past])


_FOR_EVER = 2**63 - 1


def _cut(table: Events, arrival: Mapping[int, int], otherwise: int) -> tuple[Events, Events]:
    """The events of a table up to one of each device, and those after it."""
    marks = np.array([arrival.get(device, otherwise) for device in table.device.tolist()], np.int64)
    return rows(table, table.arrival <= marks), rows(table, table.arrival > marks)


def _convictions(store: Store, alpha: float) -> list[Exposure]:
    """Exposures by statistics at this alpha or a stricter one; these never leave."""
    found: list[Exposure] = []
    which = ExposureFilter(verdicts=frozenset({Verdict.STATISTICS}))
    after = 0
    while chunk := store.exposures(which, limit=1000, after=after):
        found += [exposure for exposure in chunk if exposure.evidence["alpha"] <= alpha]
        after = chunk[-1].id
    return found


def _gaps(store: Store, registry: Registry) -> Iterator[Difference]:
    """Yield gaps whose attribute is not what their number assigns."""
    keyring = registry.keyring
    held = store.gaps()
    bundle = keyring.find(held.device, held.number)
    for profile in keyring.profiles:
        mine = (bundle >= 0) & (held.profile == profile.id)
        index = index_many(profile, held.device[mine], keyring.keys.of(bundle[mine]), held.number[mine])
        wrong = np.flatnonzero(index != held.index[mine])
        for row in wrong.tolist():
            key = f"{held.device[mine][row]:08x}/{held.number[mine][row]}"
            yield Difference("gap", key, int(held.index[mine][row]), int(index[row]))
