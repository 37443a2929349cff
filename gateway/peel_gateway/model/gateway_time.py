# SPDX-License-Identifier: MIT
"""The gateway's own time at a transaction; `engine.clock` says how it advances."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DOUBT", "RATE_SLACK", "RATE_SLACK_TENTHS", "STEP", "GatewayTime"]

STEP = 3_600_000
"""Milliseconds: a wall clock that is further off than this was set, or the machine was off."""

DOUBT = 24 * STEP
"""Milliseconds after such a step during which nothing is deleted because of its age."""


@dataclass(frozen=True)
class GatewayTime:
    """The gateway's time at its last transaction; all 0 in a new store."""

    tick: int = 0
    """Milliseconds of the gateway's life: never runs backwards."""
    wall: int = 0
    """A time in Unix milliseconds that only moves forward. After a clock that was too fast it stays ahead; `seen` is the present."""
    seen: int = 0
    """The present as far as known: what the wall clock last said; while that is not trusted, the last trusted time plus what has passed."""
    boot: int = 0
    steady: int = 0
    behind: int = 0
    """The time that the wall clock must reach before it is trusted again; 0 while it is trusted."""
    stepped: int = 0
    """The value of `wall` just after the clock last jumped."""

    @property
    def doubtful(self) -> bool:
        """Whether the wall clock is not trusted, or jumped less than a day ago: then nothing is deleted by age."""
        return bool(self.behind) or (self.stepped > 0 and self.wall - self.stepped < DOUBT)


RATE_SLACK_TENTHS = 11

RATE_SLACK = RATE_SLACK_TENTHS / 10
"""A device's clock may run this much fast (RC oscillators in deep sleep are off by several per cent)."""
