# SPDX-License-Identifier: MIT
"""What the engine works with: a fleet folder at one moment, every key derived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np

from peel_core import Keyring, Profile, derive_keys
from peel_core.primitives import NUMBER_MAX
from peel_gateway.fleet.audit import FleetAction
from peel_gateway.fleet.registry import REVOKED, Device, Fleet, FleetError, Issue

__all__ = ["Snapshot", "take_snapshot"]

_GRACE = timedelta(days=7)
"""How long after a fresh bundle was made its board may go on with the former one."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A fleet folder at one moment, ready for the engine."""

    fleet: str
    profiles: tuple[Profile, ...]
    devices: tuple[Device, ...]
    keyring: Keyring
    """Of the devices that have bundles."""
    revoked: frozenset[int]
    enrolled: Mapping[int, float]
    """When each device was registered, Unix seconds."""
    issued: Mapping[int, tuple[int, float]]
    """The first number of its last bundle, and when that was made; absent where there is none."""
    audit: tuple[FleetAction, ...] = ()
    """What was revoked, oldest first."""


def take_snapshot(fleet: Fleet) -> Snapshot:
    """Read everything and derive every key."""
    register = fleet.register()
    devices = register.devices
    profiles = fleet.usable_profiles(devices)
    for device in devices:
        for name in (device.profile, *(bundle.profile for bundle in device.bundles)):
            if name not in profiles:
                raise FleetError(f"device {device.label}: its profile {name!r} is not in {fleet.folder / 'profiles'}")
    keyring = _keyring(fleet, profiles, devices)
    return Snapshot(
        fleet=fleet.name,
        profiles=tuple(profiles.values()),
        devices=tuple(devices),
        keyring=keyring,
        revoked=frozenset(device.id for device in devices if device.state == REVOKED),
        enrolled={device.id: datetime.fromisoformat(device.created).timestamp() for device in devices},
        issued={
            device.id: (device.bundles[-1].first_number, datetime.fromisoformat(device.bundles[-1].made).timestamp())
            for device in devices
            if device.bundles
        },
        audit=tuple(register.audit),
    )


def _keyring(fleet: Fleet, profiles: Mapping[str, Profile], devices: Sequence[Device]) -> Keyring:
    """The keys of all bundles of all devices, derived in one go."""
    places = {name: place for place, name in enumerate(profiles)}
    bundles = [(device.id, bundle) for device in devices for bundle in device.bundles]
    ids = np.array([device for device, _ in bundles], np.uint32)
    firsts = np.array([bundle.first_number for _, bundle in bundles], np.uint64)
    lasts = np.array([last for device in devices for last in _last_numbers(device.bundles)], np.uint64)
    profile_of = np.array([places[bundle.profile] for _, bundle in bundles], np.int32)
    keys = derive_keys(fleet.master().reveal(), fleet.name, ids, firsts)
    try:
        return Keyring(tuple(profiles.values()), ids, firsts, profile_of, keys, lasts)
    except ValueError as error:
        raise FleetError(f"{fleet.folder}: {error}") from None


def _last_numbers(bundles: Sequence[Issue]) -> list[int]:
    """The last number of each bundle that is taken from its device.

    Of the one that is in force any, however high: only its device can have made what opens with its keys, and a number that it cannot have
    reached exposes it.

    Of one that was replaced, what its device can have reached until a week after, unless the times make no sense: whoever has a copy of it
    is to have no more.
    """
    last = [*(bundle.last_number for bundle in bundles[:-1]), NUMBER_MAX][: len(bundles)]
    for place, (before, after) in enumerate(pairwise(bundles)):
        if before.time <= after.time:
            last[place] = min(last[place], before.first_unused(after.time + _GRACE) - 1)
    return last
