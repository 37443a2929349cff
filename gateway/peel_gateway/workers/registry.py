# SPDX-License-Identifier: MIT
"""What the engine of a share knows: the devices of its lanes, so that a worker's memory is its part of the fleet's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Keyring
from peel_gateway.model.share import Share
from peel_gateway.screening.roster import Registry

__all__ = ["registry_of"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Part:
    """A fleet with fewer keys: what the rest of it says about other devices is never asked for."""

    fleet: Registry
    keyring: Keyring
    revoked: frozenset[int]

    def enrolled_at(self, devices: Ints) -> Floats:
        return self.fleet.enrolled_at(devices)

    def issued_at(self, devices: Ints) -> tuple[Ints, Floats]:
        return self.fleet.issued_at(devices)


def registry_of(fleet: Registry, share: Share) -> Registry:
    """The part of a fleet that a share is about."""
    if share.whole:
        return fleet
    keyring = fleet.keyring.only(share.has(fleet.keyring.device_ids))
    return _Part(fleet, keyring, frozenset(device for device in fleet.revoked if device % share.of == share.number))
