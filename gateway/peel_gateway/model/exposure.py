# SPDX-License-Identifier: MIT
"""Exposures: pieces that a layer objected to, each with its evidence."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from peel_gateway.model.verdict import BLAMED, LOGGED, Verdict

__all__ = ["PARDON", "RELEASE", "AuditEntry", "Exposure", "ExposureFilter", "ReasonError", "check_reason", "digest_of"]


@dataclass(frozen=True)
class Exposure:
    """One exposed or quarantined piece, with its evidence."""

    verdict: Verdict
    device: int
    number: int
    profile: int
    received: float
    """Unix seconds."""
    topic: str
    raw: bytes
    """The frame, or the faulty rest of a payload; empty for an exposure by statistics."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """The facts that the layer saw: residual, expected and reconstructed attribute, rule, capital, ..."""
    id: int = 0
    """Given by the store."""

    @property
    def blamed(self) -> bool:
        """Whether the device itself must have caused it."""
        return self.verdict in BLAMED

    @property
    def digest(self) -> bytes | None:
        """Tells this verdict on these bytes from all others; None for reports that the log tells apart."""
        return None if self.verdict in LOGGED else digest_of(self.verdict, self.raw)


def digest_of(verdict: Verdict, raw: bytes) -> bytes:
    """Return a digest that identifies a verdict on these bytes."""
    return hashlib.blake2b(bytes([verdict]) + raw, digest_size=16).digest()


@dataclass(frozen=True, kw_only=True)
class ExposureFilter:
    """A filter for listing exposures; unset fields match all."""

    verdicts: frozenset[Verdict] = frozenset()
    device: int | None = None
    since: float | None = None
    until: float | None = None
    blamed: bool | None = None


PARDON = "pardon"
RELEASE = "release"

_REASON_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """One pardon or release, as the store keeps it.

    A release has the cause 0. Its other numbers are such that no reader takes it for a pardon: `restored` is True, and `arrival` and
    `last_exposure` are 0.
    """

    device: int
    reason: str
    who: str
    time: float
    """Unix seconds."""
    arrival: int
    """The device's last event before it: what comes later is judged as if the device were new."""
    cause: int
    """The verdict that a pardon takes back; 0 for a release."""
    restored: bool
    """Whether what the device had counted before counts again; else it stays withdrawn for ever."""
    reports: int
    """The number of these reports. Of a release: the held reports that it drops."""
    last_exposure: int
    """Id of the newest exposure before it."""
    id: int = 0
    """Given by the store."""

    @property
    def action(self) -> str:
        """`PARDON` or `RELEASE`."""
        return PARDON if self.cause else RELEASE


class ReasonError(ValueError):
    """Not a reason; the message says what is."""


def check_reason(text: str) -> str:
    """Return the reason as it is stored. Raises ReasonError for an empty, long or unprintable one."""
    text = text.strip()
    if not text or len(text) > _REASON_CHARACTERS or not text.isprintable():
        raise ReasonError(f"reason: say why, in 1 to {_REASON_CHARACTERS} printable characters")
    return text
