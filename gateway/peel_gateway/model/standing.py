# SPDX-License-Identifier: MIT
"""How a device stands: the one table of states, and which one a device is in."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["MISSED", "Signs", "Standing", "last_heard", "patience"]

MISSED = 3
"""So many intervals without a word are silence: two may be lost to the air and to a broker that restarts."""


class Standing(enum.Enum):
    """The states, in the order in which they are looked for: a device is in the first that fits."""

    REVOKED = "revoked", "The operator has revoked it: its reports are refused."
    EXPOSED = (
        "exposed",
        "A report of its own, or its reports together, have exposed it; `peel gateway exposures` says why.",
    )
    EXHAUSTED = (
        "exhausted",
        "It has used every report number of its profile's lifetime, or says so: it reports no more.",
    )
    STOPPED = "stopped", "It says that its own sources of randomness do not suffice: it does not report until they do."
    NEW = "new", "Registered, and not heard yet."
    SILENT = (
        "silent",
        f"Not heard for {MISSED} times as long as it should be, and for `health.silent_seconds`; or not since the gateway's clock, "
        "which was further ahead than that, was put right.",
    )
    ACTIVE = "active", "Heard when it should be."

    def __init__(self, label: str, sentence: str) -> None:
        self.label = label
        self.sentence = sentence


@dataclass(frozen=True, kw_only=True)
class Signs:
    """What is known of a device, by the registry, by its reports and by its own word."""

    revoked: bool
    exposed: bool
    left: int | None
    """Numbers of its lifetime that its reports have not used."""
    claimed_state: str | None
    claimed_left: int | None
    heard: float | None
    """Unix seconds: its last report, or its last status that was not the broker's memory."""
    patience: float

    def standing(self, now: float) -> Standing:
        """The first state that fits, at this time (Unix seconds)."""
        fits = {
            Standing.REVOKED: self.revoked,
            Standing.EXPOSED: self.exposed,
            Standing.EXHAUSTED: self.left == 0 or self.claimed_left == 0,
            Standing.STOPPED: self.claimed_state == "stopped",
            Standing.NEW: self.heard is None,
            Standing.SILENT: self.heard is not None and abs(now - self.heard) > self.patience,
            Standing.ACTIVE: True,
        }
        return next(standing for standing in Standing if fits[standing])


def last_heard(times: Iterable[float | None], *, now: float, patience: float) -> float | None:
    """The last of the times at which a device was heard; one that is yet to come, by a clock that was ahead, only for want of another."""
    known = [at for at in times if at is not None]
    return max([at for at in known if at - now <= patience] or known, default=None)


def patience(quota: int, period: int, interval_ms: int | None, least: float) -> float:
    """For how many seconds nothing need be heard of a device.

    Its own interval counts where it has said one, though never less than what its quota lets it use for long.
    """
    pace = period / quota
    return max(least, MISSED * max(pace, (interval_ms or 0) / 1000))
