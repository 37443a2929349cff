# SPDX-License-Identifier: MIT
"""Claims: the fields of devices' status messages, in memory and in a file beside the database.

A status message has no seal: the broker, and every client that may publish to the topic, can forge one. It is parsed as
hostile input, kept for registered devices only, and only shown. No verdict and no estimate depends on it.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from peel_core.topics import device_topic
from peel_gateway.files import write_atomically
from peel_gateway.fleet.folder import FleetError, device_label, parse_device

__all__ = [
    "MOST_BYTES",
    "Claim",
    "ClaimError",
    "Claims",
    "ClaimsFile",
    "StatusOutcome",
    "claim_table",
    "load_claims",
    "read_claim",
    "read_fields",
]

MOST_BYTES = 2048
"""Longest status message; the firmware's have about 400 bytes."""

_MOST_REFUSED = 16

_LARGEST = 2**48

_MOST_FAILING = 80

_TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,31}")

_LEVEL = re.compile(r"[0-9a-f]{8}")

STATES = ("online", "offline", "stopped")


class ClaimError(ValueError):
    """A malformed status message; the text says why."""


class StatusOutcome(Enum):
    """The outcome of a status message."""

    TAKEN = "taken"
    UNREGISTERED = "unregistered"
    MALFORMED = "malformed"
    LIMITED = "limited"
    """Dropped unread: its topic exceeded the rate limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The newest values of a device's status fields; None for a field that it never sent."""

    state: str
    heard: float | None = None
    """Unix seconds; None for a retained message from before the gateway subscribed."""
    asleep: bool = False
    firmware: str | None = None
    core: str | None = None
    board: str | None = None
    interval_ms: int | None = None
    dropped: int | None = None
    unconfirmed: int | None = None
    refused_receipts: int | None = None
    lost: int | None = None
    skipped: int | None = None
    no_reading: int | None = None
    """Reports made without the reading of a failing sensor."""
    throttled: int | None = None
    left: int | None = None
    entropy: int | None = None
    refused: tuple[str, ...] | None = None
    faults: int | None = None
    failing: str | None = None
    """The failing sensors and their faults: "temperature: it gave nan"."""


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LARGEST:
        raise ClaimError(f"must be a whole number from 0 to {_LARGEST - 1}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not _TEXT.fullmatch(value):
        raise ClaimError("must be a short text of letters, digits and ' ._+-'")
    return sys.intern(value)  # a fleet has few versions and boards, and many devices


def _state(value: object) -> str:
    if value not in STATES:
        raise ClaimError(f"must be one of {', '.join(STATES)}")
    return sys.intern(str(value))


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ClaimError("must be true or false")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > _MOST_REFUSED:
        raise ClaimError(f"must be a list of at most {_MOST_REFUSED} texts")
    return tuple(_text(item) for item in value)


def _failing(value: object) -> str | None:
    """Read the failing sensors; the empty text means that no sensor fails."""
    if not isinstance(value, str) or len(value) > _MOST_FAILING or not value.isprintable():
        raise ClaimError(f"must be a printable text of at most {_MOST_FAILING} characters")
    return value or None


_FIELDS: Mapping[str, Callable[[object], Any]] = {
    "state": _state,
    "asleep": _flag,
    **dict.fromkeys(("firmware", "core", "board"), _text),
    **dict.fromkeys(("interval_ms", "dropped", "unconfirmed", "refused_receipts", "lost"), _count),
    **dict.fromkeys(("skipped", "no_reading", "throttled", "left", "entropy", "faults"), _count),
    "refused": _texts,
    "failing": _failing,
}
"""The known fields of a status message; others are ignored."""


def read_claim(payload: bytes) -> dict[str, Any]:
    """Parse a status message into its known fields. Raises ClaimError if it is malformed."""
    if len(payload) > MOST_BYTES:
        raise ClaimError(f"{len(payload)} bytes; a status has at most {MOST_BYTES}")
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ClaimError(f"not JSON: {error}") from None
    return {"asleep": False, **read_fields(document)}


def read_fields(document: object) -> dict[str, Any]:
    """Return the known fields of a JSON object, each checked."""
    if not isinstance(document, dict):
        raise ClaimError("not a JSON object")
    if "state" not in document:
        raise ClaimError("state: missing")
    said: dict[str, Any] = {}
    for name, read in _FIELDS.items():
        if document.get(name) is not None:
            try:
                said[name] = read(document[name])
            except ClaimError as error:
                raise ClaimError(f"{name}: {error}") from None
    return said


def claim_table(claim: Claim) -> dict[str, Any]:
    """Return a claim as plain values, without `heard`."""
    table = asdict(claim)
    del table["heard"]
    table["refused"] = None if claim.refused is None else list(claim.refused)
    return table


class Claims:
    """The newest claim of each registered device. One thread calls `hear`, any thread reads.

    Parameters
    ----------
    registered : callable
        Tells whether a device is registered. Only claims of registered devices are kept, which bounds the memory.
    known : mapping of int to Claim
        Claims of earlier runs.
    """

    def __init__(self, fleet: str, registered: Callable[[int], bool], known: Mapping[int, Claim] | None = None) -> None:
        self._fleet = fleet
        self._registered = registered
        self._known = dict(known or {})
        self.changes = 0

    def hear(self, topic: str, payload: bytes, *, retained: bool, now: float) -> StatusOutcome:
        """Merge a status message into its device's claim. Fields that it does not have (a will has few) keep their values."""
        device = _device_of(self._fleet, topic)
        if device is None:
            return StatusOutcome.MALFORMED
        if not self._registered(device):
            return StatusOutcome.UNREGISTERED
        try:
            said = read_claim(payload)
        except ClaimError:
            return StatusOutcome.MALFORMED
        before = self._known.get(device)
        heard = (before.heard if before else None) if retained else now
        self._known[device] = replace(before or Claim(state=said["state"]), **said, heard=heard)
        self.changes += 1
        return StatusOutcome.TAKEN

    def get(self, device: int) -> Claim | None:
        """Return the newest claim of a device."""
        return self._known.get(device)

    def copy(self) -> dict[int, Claim]:
        """Return the claims of all devices that are still registered."""
        return {device: claim for device, claim in self._known.copy().items() if self._registered(device)}


def _device_of(fleet: str, topic: str) -> int | None:
    """Return the device of a status topic; None if it is not a status topic of this fleet."""
    _, _, level = topic.removesuffix("/status").rpartition("/")
    if not _LEVEL.fullmatch(level):
        return None
    device = int(level, 16)
    return device if topic == device_topic(fleet, device, "status") else None


_LEAST_SECONDS = 60.0

_BYTES_PER_SECOND = 1024
"""Highest average write rate, to spare SD cards."""


def load_claims(path: Path) -> dict[int, Claim]:
    """Read the claims in a file; empty if it is missing or damaged, since devices send their status again."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {parse_device(label): _claim(row) for label, row in document["claims"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, FleetError, ClaimError):
        return {}


class ClaimsFile:
    """Writes changed claims to a file, at most once a minute and less often the larger the file is."""

    def __init__(self, path: Path, claims: Claims) -> None:
        self._path = path
        self._claims = claims
        self._changes = claims.changes
        self._due = 0.0

    def tick(self, now: float) -> None:
        """Write if it is due; `now` is monotonic. Raises OSError if the file cannot be written."""
        if now >= self._due and self._claims.changes != self._changes:
            self._due = now + _LEAST_SECONDS
            self._due = now + max(_LEAST_SECONDS, self.write() / _BYTES_PER_SECOND)

    def write(self) -> int:
        """Write all claims; return the number of bytes."""
        self._changes = self._claims.changes
        text = _file_text(self._claims.copy())
        write_atomically(self._path, text)
        return len(text)


def _file_text(claims: Mapping[int, Claim]) -> str:
    rows = (
        f'"{device_label(device)}": {json.dumps({**_said(claim), "heard": claim.heard})}'
        for device, claim in claims.items()
    )
    return '{"peel_claims": 1, "claims": {\n' + ",\n".join(rows) + "\n}}\n"


def _said(claim: Claim) -> dict[str, object]:
    return {name: value for name, value in claim_table(claim).items() if value is not None}


def _claim(row: dict[str, object]) -> Claim:
    heard = row.get("heard")
    if heard is not None and not (isinstance(heard, int | float) and math.isfinite(heard)):
        raise ClaimError("heard: must be a number")
    return Claim(**read_fields(row), heard=heard)
