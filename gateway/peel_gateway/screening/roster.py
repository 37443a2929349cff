# SPDX-License-Identifier: MIT
"""The roster: whom the engine knows at a time, and what it takes to read their reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from peel_core import Keyring
from peel_core.projection import reconstruction

__all__ = ["Registry", "Roster", "slots_of"]

Ints = npt.NDArray[np.int64]


class Registry(Protocol):
    """What a fleet says about itself at a time."""

    @property
    def keyring(self) -> Keyring:
        """Profiles, devices and their keys."""

    @property
    def revoked(self) -> frozenset[int]:
        """Devices whose reports are refused."""

    @property
    def enrolled(self) -> Mapping[int, float]:
        """Unix seconds at which devices were registered, as far as known: before that there are no reports of theirs."""

    @property
    def issued(self) -> Mapping[int, tuple[int, float]]:
        """The first number of a device's present bundle, and the Unix seconds at which it was made, as far as known. That bounds a
        device's numbers whatever the network delivers first."""


@dataclass(frozen=True)
class Roster:
    """A registry, made ready for arrays. `slot` is a device's position in the keyring."""

    keyring: Keyring
    gammas: Sequence[npt.NDArray[np.float32]]
    """Per profile: its reconstruction matrix."""
    revoked: Ints
    enrolled: Ints
    """When each device was enrolled, Unix milliseconds, 0 where nobody knows, int64[D]."""
    issued: Ints
    """When its present bundle was made, likewise."""
    issued_number: Ints
    """The number that the bundle begins with."""

    @classmethod
    def of(cls, registry: Registry, former: Roster | None = None) -> Roster:
        """Read a registry; matrices that the former roster has are taken from it.

        Raises `numpy.linalg.LinAlgError` for a profile whose projection cannot be inverted.
        """
        known = former.matrices if former else {}
        keyring = registry.keyring
        seeds = [(profile.seed, profile.width) for profile in keyring.profiles]
        ids = keyring.device_ids.tolist()
        enrolled = [registry.enrolled.get(device, 0.0) for device in ids]
        issued = [registry.issued.get(device, (1, seconds)) for device, seconds in zip(ids, enrolled, strict=True)]
        return cls(
            keyring=keyring,
            gammas=[known[seed] if seed in known else reconstruction(*seed) for seed in seeds],
            revoked=np.array(sorted(registry.revoked), np.int64),
            enrolled=np.array([round(seconds * 1000) for seconds in enrolled], np.int64),
            issued=np.array([round(seconds * 1000) for _, seconds in issued], np.int64),
            issued_number=np.array([number for number, _ in issued], np.int64),
        )

    @property
    def matrices(self) -> dict[tuple[int, int], npt.NDArray[np.float32]]:
        """Reconstruction matrices by seed and width."""
        pairs = zip(self.keyring.profiles, self.gammas, strict=True)
        return {(profile.seed, profile.width): gamma for profile, gamma in pairs}

    def ids(self, slots: Ints) -> Ints:
        """Device ids of some slots."""
        return self.keyring.device_ids[slots].astype(np.int64)

    def members(self, position: int) -> Ints:
        """Slots of the devices that ever had a bundle of a profile, ascending."""
        keyring = self.keyring
        return np.unique(keyring.owners[keyring.bundle_profile == position])

    def profile_ids(self) -> Ints:
        """Ids of the profiles, in their order."""
        return np.array([profile.id for profile in self.keyring.profiles], np.int64)

    def quotas(self, slots: Ints) -> tuple[Ints, Ints]:
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
