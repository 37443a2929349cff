# SPDX-License-Identifier: MIT
"""What devices say of themselves: claims, never evidence.

A status message has no seal: whoever may publish below a device's topic can write one, and the broker can. So it is read
as hostile input, kept for registered devices alone, and only ever shown; no verdict and no estimate depends on it.
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
"""Of a status message; the firmware's are about 400."""

_MOST_REFUSED = 16

_LARGEST = 2**48

_MOST_FAILING = 80

_TEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,31}")

_LEVEL = re.compile(r"[0-9a-f]{8}")

STATES = ("online", "offline", "stopped")


class ClaimError(ValueError):
    """A status message that is none; the message says why."""


class StatusOutcome(Enum):
    """What became of a status message."""

    TAKEN = "taken"
    UNREGISTERED = "unregistered"
    MALFORMED = "malformed"
    LIMITED = "limited"
    """Dropped unread: its topic has too many."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The last that a device said; what it did not say is None."""

    state: str
    heard: float | None = None
    """Unix seconds; None for what the broker had kept from a time at which nobody listened."""
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
    throttled: int | None = None
    left: int | None = None
    entropy: int | None = None
    refused: tuple[str, ...] | None = None
    faults: int | None = None
    failing: str | None = None
    """The sensor that fails, and how: "temperature: it gave nan"."""


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
    """Read which sensor fails; the empty text says that none does."""
    if not isinstance(value, str) or len(value) > _MOST_FAILING or not value.isprintable():
        raise ClaimError(f"must be a printable text of at most {_MOST_FAILING} characters")
    return value or None


_FIELDS: Mapping[str, Callable[[object], Any]] = {
    "state": _state,
    "asleep": _flag,
    **dict.fromkeys(("firmware", "core", "board"), _text),
    **dict.fromkeys(("interval_ms", "dropped", "unconfirmed", "refused_receipts", "lost"), _count),
    **dict.fromkeys(("skipped", "throttled", "left", "entropy", "faults"), _count),
    "refused": _texts,
    "failing": _failing,
}
"""The fields of a status message that anybody here knows; others are passed over."""


def read_claim(payload: bytes) -> dict[str, Any]:
    """What a status message says, field by field; ClaimError where it is none."""
    if len(payload) > MOST_BYTES:
        raise ClaimError(f"{len(payload)} bytes, a status has at most {MOST_BYTES}")
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise ClaimError(f"not JSON: {error}") from None
    return {"asleep": False, **read_fields(document)}


def read_fields(document: object) -> dict[str, Any]:
    """The known fields of a JSON object, each checked."""
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
    """A claim as plain values, `heard` aside."""
    table = asdict(claim)
    del table["heard"]
    table["refused"] = None if claim.refused is None else list(claim.refused)
    return table


class Claims:
    """The last claim of each registered device. One thread hears, others read.

    Parameters
    ----------
    registered : callable
        Whether a device's claims are kept; memory is bounded by it, whatever others publish.
    known : mapping of int to Claim
        What was heard in earlier runs.
    """

    def __init__(self, fleet: str, registered: Callable[[int], bool], known: Mapping[int, Claim] | None = None) -> None:
        self._fleet = fleet
        self._registered = registered
        self._known = dict(known or {})
        self.changes = 0

    def hear(self, topic: str, payload: bytes, *, retained: bool, now: float) -> StatusOutcome:
        """Take a status message in. What a shorter one does not say, such as a will, stays as it was said before."""
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
        """The last claim of a device."""
        return self._known.get(device)

    def copy(self) -> dict[int, Claim]:
        """All claims of devices that are still registered."""
        return {device: claim for device, claim in self._known.copy().items() if self._registered(device)}


def _device_of(fleet: str, topic: str) -> int | None:
    """The device whose status topic this is; None where it is nobody's."""
    _, _, level = topic.removesuffix("/status").rpartition("/")
    if not _LEVEL.fullmatch(level):
        return None
    device = int(level, 16)
    return device if topic == device_topic(fleet, device, "status") else None


_LEAST_SECONDS = 60.0

_BYTES_PER_SECOND = 1024
"""What is written on average, at most: an SD card wears."""


def load_claims(path: Path) -> dict[int, Claim]:
    """The claims in a file; none where there is no such file, or it is damaged: devices will say them again."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return {parse_device(label): _claim(row) for label, row in document["claims"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, FleetError, ClaimError):
        return {}


class ClaimsFile:
    """Writes claims now and then, when they have changed, and the more rarely the more there are."""

    def __init__(self, path: Path, claims: Claims) -> None:
        self._path = path
        self._claims = claims
        self._changes = claims.changes
        self._due = 0.0

    def tick(self, now: float) -> None:
        """Write if it is time; `now` is monotonic. OSError when the disk refuses."""
        if now >= self._due and self._claims.changes != self._changes:
            self._due = now + _LEAST_SECONDS
            self._due = now + max(_LEAST_SECONDS, self.write() / _BYTES_PER_SECOND)

    def write(self) -> int:
        """Write all claims; return how many bytes that were."""
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
