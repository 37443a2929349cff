# SPDX-License-Identifier: MIT
"""What the registry knows of a device."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from peel_core import Profile, burst_size
from peel_core.keys import SALT_BYTES
from peel_gateway.exits import Exit
from peel_gateway.model.gateway_time import RATE_SLACK

__all__ = [
    "ACTIVE",
    "REVOKED",
    "Device",
    "FleetError",
    "IssuedBundle",
    "device_label",
    "first_free",
    "parse_device",
    "with_new_bundle",
]

ACTIVE = "active"

REVOKED = "revoked"


class FleetError(Exception):
    """A fleet folder that cannot be used; the message names the file and says what to do."""

    exit_code = Exit.FLEET


def device_label(device: int) -> str:
    """A device id as topics, listings and file names spell it: eight hexadecimal digits."""
    return f"{device:08x}"


def parse_device(text: str) -> int:
    """Read a device id: up to eight hexadecimal digits, not all of them 0."""
    if not re.fullmatch("[0-9a-fA-F]{1,8}", text):
        raise FleetError(f"device {text!r}: not a hexadecimal number of up to 8 digits, such as 0000002a")
    if not (device := int(text, 16)):
        raise FleetError(f"device {text!r}: must be from 00000001 to ffffffff")
    return device


@dataclass(frozen=True, kw_only=True, slots=True)
class IssuedBundle:
    """A bundle that was written for a device: its numbers, and how fast it may use them."""

    first_number: int
    last_number: int
    """The device uses none above it, so the next bundle can begin there, whatever any clock says."""
    salt: bytes
    """16 random bytes from which its keys are derived too: no other bundle has its keys, even if the registry is an old copy."""
    made: str
    """ISO 8601 with its zone."""
    profile: str
    profile_id: str
    """Of the profile as it was then, eight hexadecimal digits: a name may be given to another file, an id may not."""
    quota: int
    period: int

    @property
    def time(self) -> datetime:
        """When it was made."""
        return datetime.fromisoformat(self.made)

    def first_unused(self, now: datetime) -> int:
        """The lowest number that a device with this bundle cannot have used.

        A device may use a burst at once, and then what time brings (SPEC section 10), on a clock as fast as the gateway believes in.
        """
        elapsed = max(0.0, (now - self.time).total_seconds())
        burst = burst_size(self.quota)
        return self.first_number + burst + math.ceil(RATE_SLACK * (self.quota + 1 - burst) * elapsed / self.period)


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """A registered device."""

    id: int
    profile: str
    state: str = ACTIVE
    note: str = ""
    group: str = ""
    """Where it belongs: a floor, a zone, a customer; empty for nowhere in particular."""
    created: str
    """ISO 8601 with its zone."""
    bundles: tuple[IssuedBundle, ...] = ()
    """All that were ever written for it, by first number: each has keys of its own, and the last one is the present one."""

    @property
    def label(self) -> str:
        return device_label(self.id)


_BUNDLE_SECONDS = 20 * 365.25 * 86400
"""A bundle has numbers for twenty years at full quota: no device stops for want of them."""

_MOST_NUMBERS = 2**40

_LAST_NUMBER = 2**48 - 1

_CLOCK_STEP = timedelta(minutes=1)
"""Clocks are set right by so much without anybody noticing: what is reckoned by them counts as much time more."""


def with_new_bundle(
    device: Device,
    profiles: Mapping[str, Profile],
    now: datetime,
    seen: datetime,
    first_number: int | None = None,
    used: int = 0,
) -> Device:
    """Return the device with a further bundle, made now.

    `seen` is the latest time that the registry knows of. Numbers up to `used` were used with bundles that it does not know.
    """
    if device.profile not in profiles:
        raise FleetError(f"device {device.label}: its profile {device.profile!r} is not in the fleet")
    rate = profiles[device.profile]
    if first_number is None and _by_clock(device, rate):
        _check_clock(device, now, max(seen, device.bundles[-1].time))
    lowest = first_free(device, rate, now, used)
    if first_number is not None and first_number < lowest:
        raise FleetError(
            f"device {device.label}: it may have used all numbers below {lowest} with its former bundles; "
            "leave --first-number out, or give that or more"
        )
    first = first_number or lowest
    if rate.lifetime is not None and first > rate.lifetime:
        raise FleetError(
            f"device {device.label}: may have used all {rate.lifetime} numbers of its profile's lifetime; "
            "enrol a new device, or give it a profile with a longer one"
        )
    if first > _LAST_NUMBER:
        raise FleetError(f"device {device.label}: no report numbers are left; enrol a new device")
    issue = IssuedBundle(
        first_number=first,
        last_number=_last_number(first, rate),
        salt=secrets.token_bytes(SALT_BYTES),
        made=now.isoformat(timespec="seconds"),
        profile=device.profile,
        profile_id=f"{rate.id:08x}",
        quota=rate.quota,
        period=rate.period,
    )
    return replace(device, bundles=(*device.bundles, issue))


def _last_number(first: int, rate: Profile) -> int:
    """The last number of a bundle that begins with `first`."""
    numbers = min(_MOST_NUMBERS, math.ceil(_BUNDLE_SECONDS * rate.quota / rate.period))
    return min(first - 1 + numbers, rate.lifetime or _LAST_NUMBER)


def _by_clock(device: Device, rate: Profile) -> bool:
    """Whether its last bundle was given all that is left of its lifetime, so that only time tells what it can have used."""
    return bool(device.bundles) and rate.lifetime is not None and device.bundles[-1].last_number >= rate.lifetime


def first_free(device: Device, rate: Profile, now: datetime, used: int = 0) -> int:
    """Return the lowest number above `used` that no bundle of the device allowed.

    Where the last bundle was given all that is left of a lifetime: the lowest one that it cannot have used by now.
    """
    if not device.bundles:
        return used + 1
    former = device.bundles[-1]
    lowest = former.first_unused(now + _CLOCK_STEP) if _by_clock(device, rate) else former.last_number + 1
    return max(lowest, used + 1)


def _check_clock(device: Device, now: datetime, seen: datetime) -> None:
    """Refuse to reckon with a clock that was set back."""
    if now + _CLOCK_STEP < seen:
        raise FleetError(
            f"device {device.label}: this machine's clock says {now.isoformat(timespec='seconds')}, and the registry was "
            f"written at {seen.isoformat(timespec='seconds')}: set the clock, or nobody knows how many numbers the device has "
            "used since. If it is right now and was wrong then, give --first-number, above every number of this device"
        )
