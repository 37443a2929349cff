# SPDX-License-Identifier: MIT
"""A device's standing: the table of standings, and the rules that choose one."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["MISSED", "Signs", "Standing", "expected_interval", "last_heard", "patience"]

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
    FAILING = "sensor failing", "It says that a sensor fails, and which one: it does not report until all of them work."
    NEW = "new", "Registered, and not heard yet."
    SILENT = (
        "silent",
        f"Not heard for {MISSED} times as long as it should be, and for `health.silent_seconds`; or not since the gateway's clock, "
        "which was further ahead than that, was put right.",
    )
    ACTIVE = "active", "Senders when it should be."

    def __init__(self, label: str, sentence: str) -> None:
        self.label = label
        self.sentence = sentence


_STANDINGS = tuple(Standing)


@dataclass(frozen=True, kw_only=True, slots=True)
class Signs:
    """The facts about a device from the registry, its reports and its own status messages."""

    revoked: bool
    exposed: bool
    left: int | None
    """Numbers of its lifetime that its reports have not used."""
    claimed_state: str | None
    claimed_left: int | None
    failing: str | None
    """The sensor that fails and how, by the device's own word."""
    heard: float | None
    """Unix seconds: its last report, or its last status that was not the broker's memory."""
    interval: float
    """Seconds between two of its reports, as planned."""
    patience: float

    def standing(self, now: float) -> Standing:
        """Return the first state that fits at this time (Unix seconds)."""
        silent = self.heard is not None and abs(now - self.heard) > self.patience
        fits = (
            self.revoked,
            self.exposed,
            self.left == 0 or self.claimed_left == 0,
            self.claimed_state == "stopped",
            bool(self.failing) and not silent,
            self.heard is None,
            silent,
            True,
        )
        return _STANDINGS[fits.index(True)]


def last_heard(times: Iterable[float | None], *, now: float, patience: float) -> float | None:
    """The last of the times at which a device was heard; one that is yet to come, by a clock that was ahead, only for want of another."""
    known = [at for at in times if at is not None]
    return max([at for at in known if at - now <= patience] or known, default=None)


def expected_interval(quota: int, period: int, interval_ms: int | None) -> float:
    """Return the planned seconds between two reports: the device's own interval, but no less than its quota allows for long."""
    return max(period / quota, (interval_ms or 0) / 1000)


def patience(interval: float, least: float) -> float:
    """Return for how many seconds a device with this interval may say nothing before it counts as silent."""
    return max(least, MISSED * interval)
