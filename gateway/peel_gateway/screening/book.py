# SPDX-License-Identifier: MIT
"""The book: device states, evidence and cohort in memory, one entry per registered device.

It is a cache of the store. A batch reads it, plans new states on copies, and the new states replace the old ones after the commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile
from peel_gateway.storage.store import EVIDENCE_COLUMNS, DeviceTable, EvidenceTable, TallyTable, Transaction

__all__ = ["STATE_COLUMNS", "Book", "Change", "slots_of"]

Ints = npt.NDArray[np.int64]

STATE_COLUMNS = (
    "first_number", "first_tick", "last_number", "settled", "low_water",
    "sealed", "cause", "cause_time", "withdrawn", "first_received", "last_received", "quota", "period",
)  # fmt: skip


@dataclass
class Change:
    """What a batch changes in the book."""

    slots: Ints
    """Devices that were heard, int64[T]."""
    states: dict[str, Ints]
    """Their new states, int64[T] per column."""
    evidence: list[tuple[Ints, Ints]]
    """Per profile: rows, and what to add to them, int64[R], int64[R, k, 6]."""
    totals: list[Ints]
    """Per profile: what to add, int64[k]."""


@dataclass
class Book:
    """All that the engine must remember between batches.

    `slot` is a device's position in the keyring. States are zero for a device that was never heard.
    """

    keyring: Keyring
    generation: int
    states: dict[str, Ints]
    """Per column of `STATE_COLUMNS`: int64[D]."""
    row_of: Ints
    """Row of a slot in its profile's evidence, int64[D]."""
    evidence: list[Ints]
    """Per profile: int64[devices of the profile, k, 6]."""
    totals: list[Ints]
    """Per profile: plus minus minus of all reports that count, per attribute, int64[k]."""
    enrolled: Ints
    """When each device was enrolled, Unix milliseconds, 0 where nobody knows, int64[D]."""

    @classmethod
    def load(cls, keyring: Keyring, enrolled: Mapping[int, float], transaction: Transaction) -> Book:
        """Read what the store knows about the registered devices."""
        row_of = np.zeros(len(keyring.device_ids), np.int64)
        for position in range(len(keyring.profiles)):
            mine = keyring.profile_of == position
            row_of[mine] = np.arange(np.count_nonzero(mine))
        return cls(
            keyring=keyring,
            generation=transaction.generation,
            states=_states(keyring, transaction.devices()),
            row_of=row_of,
            evidence=_evidence(keyring, row_of, transaction.evidence()),
            totals=_totals(keyring.profiles, transaction.totals()),
            enrolled=np.array(
                [round(enrolled.get(device, 0) * 1000) for device in keyring.device_ids.tolist()], np.int64
            ),
        )

    def apply(self, change: Change, left: TallyTable, generation: int) -> None:
        """Make a committed batch's changes, and take off what left the estimates with it."""
        for name, column in self.states.items():
            column[change.slots] = change.states[name]
        for counts, (rows, added) in zip(self.evidence, change.evidence, strict=True):
            counts[rows] += added
        for profile, totals, added in zip(self.keyring.profiles, self.totals, change.totals, strict=True):
            mine = left.profile == profile.id
            totals += added
            np.subtract.at(totals, left.index[mine], (left.withdrawn_plus - left.withdrawn_minus)[mine])
        self.generation = generation

    def table(self, slots: Ints, states: dict[str, Ints]) -> DeviceTable:
        """New states of some slots as the store wants them."""
        return DeviceTable(device=self.keyring.device_ids[slots].astype(np.int64), **states)

    def gather(self, slots: Ints) -> dict[str, Ints]:
        """Copies of the states of some slots."""
        return {name: column[slots] for name, column in self.states.items()}

    def profile_columns(self, slots: Ints) -> tuple[Ints, Ints]:
        """Quota and period of each slot's profile."""
        quota = np.array([profile.quota for profile in self.keyring.profiles], np.int64)
        period = np.array([profile.period for profile in self.keyring.profiles], np.int64)
        position = self.keyring.profile_of[slots]
        return quota[position], period[position]


def slots_of(keyring: Keyring, devices: Ints) -> Ints:
    """Slots of device ids in a keyring, -1 for those it does not have."""
    ids = keyring.device_ids.astype(np.int64)
    if not len(ids):
        return np.full(len(devices), -1, np.int64)
    slot = np.minimum(np.searchsorted(ids, devices), len(ids) - 1)
    return np.asarray(np.where(ids[slot] == devices, slot, -1), dtype=np.int64)


def _states(keyring: Keyring, table: DeviceTable) -> dict[str, Ints]:
    slots = slots_of(keyring, table.device)
    known = slots >= 0
    states = {}
    for name in STATE_COLUMNS:
        column = np.zeros(len(keyring.device_ids), np.int64)
        column[slots[known]] = getattr(table, name)[known]
        states[name] = column
    return states


def _evidence(keyring: Keyring, row_of: Ints, table: EvidenceTable) -> list[Ints]:
    slots = slots_of(keyring, table.device)
    result = []
    for position, profile in enumerate(keyring.profiles):
        size = int(np.count_nonzero(keyring.profile_of == position))
        counts = np.zeros((size, profile.k, len(EVIDENCE_COLUMNS)), np.int64)
        mine = (slots >= 0) & (table.profile == profile.id)
        mine[mine] = keyring.profile_of[slots[mine]] == position
        counts[row_of[slots[mine]], table.index[mine]] = table.counts[mine]
        result.append(counts)
    return result


def _totals(profiles: Sequence[Profile], table: TallyTable) -> list[Ints]:
    result = []
    for profile in profiles:
        mine = table.profile == profile.id
        totals = np.zeros(profile.k, np.int64)
        net = table.plus - table.minus - table.withdrawn_plus + table.withdrawn_minus
        totals[table.index[mine]] = net[mine]
        result.append(totals)
    return result
