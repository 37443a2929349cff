# SPDX-License-Identifier: MIT
"""Exposures: pieces that a layer objected to, each with its evidence."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from peel_gateway.model.verdict import BLAMED, LOGGED, Verdict

__all__ = ["Exposure", "ExposureFilter", "digest_of"]


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
    """What the layer saw: residual, expected and reconstructed attribute, rule, wealth, ..."""
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
    """What tells a verdict on some bytes from all others."""
    return hashlib.blake2b(bytes([verdict]) + raw, digest_size=16).digest()


@dataclass(frozen=True, kw_only=True)
class ExposureFilter:
    """Which exposures to list; unset fields match all."""

    verdicts: frozenset[Verdict] = frozenset()
    device: int | None = None
    since: float | None = None
    until: float | None = None
    blamed: bool | None = None
