# SPDX-License-Identifier: MIT
"""Checks of a fleet folder's profiles, before devices or a gateway use them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from peel_core import Profile, ProfileError, load_profile
from peel_gateway.fleet.device import FleetError
from peel_gateway.fleet.directory import DeviceDirectory

__all__ = ["parsed_profile", "refuse_edited", "refuse_missing", "refuse_uneven", "refuse_unsound"]


def parsed_profile(path: Path) -> Profile:
    """Read a profile. Raises FleetError if it is invalid."""
    try:
        return load_profile(path)
    except ProfileError as error:
        raise FleetError(str(error)) from None


def refuse_unsound(where: Path, profiles: Iterable[Profile]) -> None:
    """Raise FleetError for a profile whose codewords do not decode: every honest device would be exposed."""
    from peel_core.projection import soundness  # here, because a list of devices needs no arrays

    for profile in profiles:
        if not soundness(profile.seed, profile.width, profile.k).sound:
            raise FleetError(
                f"{where}: profile {profile.name!r}: seed: {profile.seed} is not sound at width {profile.width}, honest devices would "
                "be exposed; `peel profile new` finds one that is (`peel profile check` says why)"
            )


def refuse_uneven(profiles: Iterable[Profile], bucket_seconds: int) -> None:
    """Raise FleetError if a time bucket of the database does not lie within one time bucket of a verified profile.

    Its coins would be challenged in two groups, so a device could see the first and then keep back the second.
    """
    for profile in profiles:
        if profile.verified and profile.bucket % bucket_seconds:
            raise FleetError(
                f"profile {profile.name!r}: bucket: {profile.bucket} s is not a multiple of the database's time bucket "
                f"({bucket_seconds} s, store.bucket_seconds), so a device could see a part of a published estimate before it opens the "
                f"rest. Make a profile with another name and --bucket {-(-profile.bucket // bucket_seconds) * bucket_seconds}, or a "
                "database with another store.bucket_seconds."
            )


def refuse_missing(where: Path, profiles: Mapping[str, Profile], devices: DeviceDirectory) -> None:
    """Raise FleetError if a device's profile is missing."""
    named = devices.per_device(lambda info: info.profile not in profiles, np.bool_)
    named[devices.owners[devices.per_bundle(lambda info: info.profile not in profiles, np.bool_)]] = True
    if named.any():
        device = devices[int(np.argmax(named))]
        names = [device.profile, *(bundle.profile for bundle in device.bundles)]
        name = next(each for each in names if each not in profiles)
        raise FleetError(f"device {device.label}: its profile {name!r} is not in {where}. Put it back.")


def refuse_edited(where: Path, profiles: Mapping[str, Profile], devices: DeviceDirectory) -> None:
    """Raise FleetError for a profile that differs from the one in devices' bundles: their reports could not be read."""
    ids = {name: f"{profile.id:08x}" for name, profile in profiles.items()}
    other = devices.per_bundle(lambda info: ids.get(info.profile, info.profile_id) != info.profile_id, np.bool_)
    if other.any():
        bundle = int(np.argmax(other))
        info = devices.bundle_infos[devices.bundle_info_of[bundle]]
        first = devices[int(devices.owners[bundle])]
        raise FleetError(
            f"{where}: profile {info.profile!r}: was edited: it is {ids[info.profile]} now, and {info.profile_id} in "
            f"{len(np.unique(devices.owners[other]))} devices, such as {first.label}; put it back as it was, "
            "and give a changed profile a name of its own"
        )
