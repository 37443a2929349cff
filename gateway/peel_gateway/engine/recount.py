# SPDX-License-Identifier: MIT
"""Recount: every published number once more from the log, and whether it differs from what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from peel_core import index_many
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.tables import Conduct, Difference, ExposureFilter
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening import eprocess, gaps
from peel_gateway.screening.roster import Registry, slots_of
from peel_gateway.storage.store import Store

__all__ = ["RecountReport", "recount"]


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
    """Check the file, recount tallies, evidence, counters, device reports and marks, and redo the statistics layer's convictions.

    Parameters
    ----------
    registry : Registry
        Supplies the profiles and keys; devices that are not in it any more are counted, but not judged again.
    alpha : float
        The engine's: who is past it must have been exposed.
    """
    store.check()
    assigning = [profile.id for profile in registry.keyring.profiles if mechanism_of(profile).assigns]
    found = [*store.recount_rows(assigning, gaps.LIMIT), *_convictions(store, registry, alpha), *_gaps(store, registry)]
    reports, devices = store.log_size()
    return RecountReport(reports, devices, found)


def _convictions(store: Store, registry: Registry, alpha: float) -> Iterator[Difference]:
    """Yield devices that the evidence convicts and that still count, and the other way round."""
    devices, conduct = store.devices(), store.conduct()
    convicted = _convicted(store, alpha)
    counting = set(devices.device[devices.withdrawn == 0].tolist())
    past: set[int] = set()
    for profile in registry.keyring.profiles:
        mine = conduct.profile == profile.id
        ids, row = np.unique(conduct.device[mine], return_inverse=True)
        counts = np.zeros((len(ids), profile.k, len(Conduct)), np.int64)
        counts[row, conduct.index[mine]] = conduct.counts[mine]
        past |= set(ids[eprocess.crossed(profile, counts, alpha)].tolist())
    for device in sorted(past & counting):
        yield Difference("device", f"{device:08x}", "counts", "its statistics withdraw it")
    profiles = {profile.id for profile in registry.keyring.profiles}
    known = set(conduct.device[np.isin(conduct.profile, list(profiles))].tolist())
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
