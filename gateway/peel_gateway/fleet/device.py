# SPDX-License-Identifier: MIT
"""What the registry knows of devices, and how `devices.json` spells it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from peel_core import burst_size
from peel_gateway.exits import Exit
from peel_gateway.fleet.audit import FleetAction
from peel_gateway.model.pace import RATE_SLACK

__all__ = ["ACTIVE", "REVOKED", "Device", "FleetError", "Issue", "Register", "device_label", "parse_device"]

ACTIVE = "active"
REVOKED = "revoked"
_LAST_ID = 0xFFFFFFFF
_LONG_AGO = datetime.fromtimestamp(0, UTC)


class FleetError(Exception):
    """A fleet folder that cannot be used; the message names the file and says what to do."""

    exit_code = Exit.FLEET


def device_label(device: int) -> str:
    """A device id as topics, listings and file names spell it: eight hexadecimal digits."""
    return f"{device:08x}"


def parse_device(text: str) -> int:
    """Read a device id; hexadecimal, leading zeros may be left out."""
    try:
        device = int(text, 16)
    except ValueError:
        raise FleetError(f"device {text!r}: not a hexadecimal number such as 0000002a") from None
    if not 0 < device <= _LAST_ID:
        raise FleetError(f"device {text!r}: must be from 00000001 to ffffffff")
    return device


@dataclass(frozen=True, kw_only=True, slots=True)
class Issue:
    """A bundle that was written for a device: its numbers, and how fast it may use them."""

    first_number: int
    last_number: int
    """The device uses none above it, so the next bundle can begin there, whatever any clock says."""
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


@dataclass
class Register:
    """The contents of `devices.json`."""

    devices: list[Device]
    """By id."""
    audit: list[FleetAction]
    clock: datetime = _LONG_AGO
    """The latest time at which it was written: time never was earlier than that."""

    @classmethod
    def parse(cls, text: str) -> Register:
        """Read the file; ValueError, KeyError or TypeError where it is none."""
        document = json.loads(text)
        devices = [_device(row) for row in document["devices"]]
        if len({device.id for device in devices}) != len(devices):
            raise ValueError("a device is listed twice")
        audit = [FleetAction.of(row) for row in document.get("audit", ())]
        clock = datetime.fromisoformat(document["clock"]) if "clock" in document else _LONG_AGO
        return cls(sorted(devices, key=lambda device: device.id), audit, clock)

    def text(self) -> str:
        """The file: one line per device and per entry of the audit trail."""
        clock = json.dumps(self.clock.isoformat(timespec="seconds"))
        devices = _lines([_row(device) for device in self.devices])
        return f'{{"peel_devices": 1, "clock": {clock}, "devices": {devices}, "audit": {_lines(list(map(asdict, self.audit)))}}}\n'


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]"


def _device(row: dict[str, Any]) -> Device:
    device = Device(
        id=parse_device(row["id"]),
        profile=row["profile"],
        state=row["state"],
        note=row.get("note", ""),
        group=row.get("group", ""),
        created=row["created"],
        bundles=tuple([Issue(**bundle) for bundle in row.get("bundles", ())]),
    )
    if datetime.fromisoformat(device.created).tzinfo is None:
        raise ValueError(f"device {device.label}: created must say its time zone, as in 2026-01-31T12:00:00+00:00")
    firsts = [bundle.first_number for bundle in device.bundles]
    if firsts != sorted(set(firsts)):
        raise ValueError(f"device {device.label}: the first numbers of its bundles must ascend")
    if device.state not in (ACTIVE, REVOKED):
        raise ValueError(f"device {device.label}: state must be {ACTIVE} or {REVOKED}, not {device.state!r}")
    return device


def _row(device: Device) -> dict[str, Any]:
    """A device as JSON has it. Spelled out: `asdict` copies deeply, which takes a minute for a million devices."""
    return {
        "id": device.label,
        "profile": device.profile,
        "state": device.state,
        "note": device.note,
        "group": device.group,
        "created": device.created,
        "bundles": [
            {
                "first_number": bundle.first_number,
                "last_number": bundle.last_number,
                "made": bundle.made,
                "profile": bundle.profile,
                "profile_id": bundle.profile_id,
                "quota": bundle.quota,
                "period": bundle.period,
            }
            for bundle in device.bundles
        ],
    }
