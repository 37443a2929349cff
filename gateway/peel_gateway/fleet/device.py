# SPDX-License-Identifier: MIT
"""What the registry knows of a device."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime

from peel_core import burst_size
from peel_gateway.exits import Exit
from peel_gateway.model.pace import RATE_SLACK

__all__ = ["ACTIVE", "REVOKED", "Device", "FleetError", "Issue", "device_label", "parse_device"]

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
class Issue:
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
    bundles: tuple[Issue, ...] = ()
    """All that were ever written for it, by first number: each has keys of its own, and the last one is the present one."""

    @property
    def label(self) -> str:
        return device_label(self.id)
