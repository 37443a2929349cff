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
    """Unix milliseconds that go with the tick: never below what the wall clock said before."""
    seen: int = 0
    """The last wall-clock time; while behind, the one before the machine went off, and what has passed since."""
    boot: int = 0
    steady: int = 0
    behind: int = 0
    """The time that the wall clock must reach before it is trusted again; 0 while it is trusted."""
    stepped: int = 0
    """`wall` after the last step, ahead or back."""

    @property
    def doubtful(self) -> bool:
        """Whether the wall clock is, or has lately been, of a kind that nothing should be deleted by."""
        return bool(self.behind) or (self.stepped > 0 and self.wall - self.stepped < DOUBT)


RATE_SLACK_TENTHS = 11

RATE_SLACK = RATE_SLACK_TENTHS / 10
"""A device's clock may run this much fast (RC oscillators in deep sleep are off by several per cent)."""
