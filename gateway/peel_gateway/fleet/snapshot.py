# SPDX-License-Identifier: MIT
"""What the engine works with: a fleet folder at one moment, every key derived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from peel_core import Keyring, Profile, derive_keys
from peel_gateway.fleet.audit import FleetAction
from peel_gateway.fleet.registry import REVOKED, Device, Fleet, FleetError

__all__ = ["Snapshot", "take_snapshot"]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A fleet folder at one moment, ready for the engine."""

    fleet: str
    profiles: tuple[Profile, ...]
    devices: tuple[Device, ...]
    keyring: Keyring
    revoked: frozenset[int]
    enrolled: Mapping[int, float]
    """When each device was registered, Unix seconds."""
    issued: Mapping[int, tuple[int, float]]
    """The first number of its last bundle, and when that was made; absent where there is none."""
    audit: tuple[FleetAction, ...] = ()
    """What was revoked, oldest first."""


def take_snapshot(fleet: Fleet) -> Snapshot:
    """Read everything and derive every key."""
    profiles = fleet.profiles()
    devices = fleet.devices()
    places = {name: place for place, name in enumerate(profiles)}
    for device in devices:
        if device.profile not in places:
            raise FleetError(
                f"device {device.label}: its profile {device.profile!r} is not in {fleet.folder / 'profiles'}"
            )
    ids = np.array([device.id for device in devices], dtype=np.uint32)
    seal_keys, index_keys = derive_keys(fleet.master().reveal(), fleet.name, ids)
    profile_of = np.array([places[device.profile] for device in devices], dtype=np.int32)
    try:
        keyring = Keyring(tuple(profiles.values()), ids, profile_of, seal_keys, index_keys)
    except ValueError as error:
        raise FleetError(f"{fleet.folder}: {error}") from None
    return Snapshot(
        fleet=fleet.name,
        profiles=tuple(profiles.values()),
        devices=tuple(devices),
        keyring=keyring,
        revoked=frozenset(device.id for device in devices if device.state == REVOKED),
        enrolled={device.id: datetime.fromisoformat(device.created).timestamp() for device in devices},
        issued={
            device.id: (device.bundle.first_number, datetime.fromisoformat(device.bundle.made).timestamp())
            for device in devices
            if device.bundle
        },
        audit=tuple(fleet.audit()),
    )
