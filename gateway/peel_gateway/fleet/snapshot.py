# SPDX-License-Identifier: MIT
"""A fleet folder at one point in time, with all keys derived, as the engine uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile, derive_keys
from peel_core.coins import challenge_root
from peel_core.primitives import NUMBER_MAX
from peel_gateway.fleet.directory import BundleInfo, DeviceDirectory
from peel_gateway.fleet.directory_file import FleetAction, History
from peel_gateway.fleet.folder import REVOKED, Fleet, FleetError, IssuedBundle

__all__ = ["FleetSnapshot", "take_snapshot"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_GRACE = timedelta(days=7)
"""Time after a new bundle was made in which its board may still use the former one."""


@dataclass(frozen=True, kw_only=True)
class FleetSnapshot:
    """A fleet folder at one point in time, with all keys."""

    fleet: str
    profiles: tuple[Profile, ...]
    devices: DeviceDirectory
    keyring: Keyring
    """The keys of all devices that have bundles."""
    revoked: frozenset[int]
    history: History
    """Tells whether devices.jsonl continues the one that a gateway has used."""
    audit: tuple[FleetAction, ...] = ()
    """The audit trail of revocations, oldest first."""

    def enrolled_at(self, devices: Ints) -> Floats:
        """Return the times of registration, Unix seconds, 0 for unregistered devices; float64[N]."""
        rows = self.devices.rows(devices)
        times = self.devices.per_device(lambda info: _seconds(info.created), np.float64)
        return np.where(rows >= 0, np.append(times, 0.0)[rows], 0.0)

    def issued_at(self, devices: Ints) -> tuple[Ints, Floats]:
        """Return the first number and the time of each device's last bundle, 0 without a bundle; int64[N] and float64[N]."""
        directory = self.devices
        rows = directory.rows(devices)
        bundle = np.where(rows >= 0, np.append(directory.ends, 0)[rows] - 1, -1)
        bundle[np.append(directory.counts, 0)[rows] == 0] = -1
        times = directory.per_bundle(lambda info: _seconds(info.made), np.float64)
        return np.append(directory.first, 0)[bundle], np.append(times, 0.0)[bundle]


def take_snapshot(fleet: Fleet) -> FleetSnapshot:
    """Read the fleet folder and derive all keys."""
    file = fleet.read_directory()
    devices = file.devices
    profiles = fleet.usable_profiles(devices)
    return FleetSnapshot(
        fleet=fleet.name,
        profiles=tuple(profiles.values()),
        devices=devices,
        keyring=_keyring(fleet, profiles, devices),
        revoked=frozenset(devices.ids[devices.per_device(lambda info: info.state == REVOKED, np.bool_)].tolist()),
        history=file.history,
        audit=tuple(file.audit),
    )


def _keyring(fleet: Fleet, profiles: Mapping[str, Profile], devices: DeviceDirectory) -> Keyring:
    """Derive the keys of all bundles of all devices together."""
    places = {name: place for place, name in enumerate(profiles)}
    ids = devices.ids[devices.owners]
    master = fleet.master().reveal()
    keys = derive_keys(master, fleet.name, ids, devices.first, devices.salts)
    profile_of = devices.per_bundle(lambda info: places[info.profile], np.int32)
    try:
        return Keyring(
            tuple(profiles.values()),
            ids,
            devices.first,
            profile_of,
            keys,
            _last_numbers(devices),
            challenge_root(master, fleet.name),
        )
    except ValueError as error:
        raise FleetError(f"{fleet.folder}: {error}") from None


def _last_numbers(devices: DeviceDirectory) -> Ints:
    """Return the last number of each bundle that the gateway accepts, int64[B].

    - Present bundle: any number. Only its device can seal with its keys. A number that it cannot have reached exposes the device or,
      if nothing was heard of it before, opens nothing below.
    - Replaced bundle: the numbers that its device can have reached a week after the next one was made, so that a stolen copy is of
      little use. If the times are out of order, any number up to its last.
    """
    last = devices.last.copy()
    last[devices.ends[devices.counts > 0] - 1] = NUMBER_MAX
    replaced = np.flatnonzero(np.diff(devices.owners) == 0)
    pairs, of = np.unique(
        np.stack([devices.bundle_info_of[replaced], devices.bundle_info_of[replaced + 1]]), axis=1, return_inverse=True
    )
    reach = [_reach(devices.bundle_infos[before], devices.bundle_infos[after]) for before, after in pairs.T.tolist()]
    can = np.minimum(np.array(reach, np.int64)[of.reshape(-1)], NUMBER_MAX - devices.first[replaced])
    last[replaced] = np.minimum(last[replaced], devices.first[replaced] + can)
    return last


def _reach(before: BundleInfo, after: BundleInfo) -> int:
    """Return how many numbers a device can have used of a bundle by a week after the next one was made."""
    issue = IssuedBundle(first_number=0, last_number=0, salt=b"", **before._asdict())
    then = datetime.fromisoformat(after.made)
    return issue.first_unused(then + _GRACE) - 1 if issue.time <= then else NUMBER_MAX


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
