# SPDX-License-Identifier: MIT
"""A device's standing: the table of standings, and the rules that choose one."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["MISSED", "STANDINGS", "Signs", "Standing", "expected_interval", "last_heard", "patience"]

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

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
    FAILING = (
        "sensor failing",
        "It says that a sensor fails, and which one: its reports lack that reading, or there are none if it has no other sensor.",
    )
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


STANDINGS = tuple(Standing)
"""The states by their place in the order."""


@dataclass(frozen=True, kw_only=True)
class Signs:
    """The facts about N devices from the registry, their reports and their own status messages. Unknown numbers are nan."""

    revoked: Flags
    exposed: Flags
    left: Floats
    """Numbers of its lifetime that its reports have not used; nan without a lifetime."""
    claimed_left: Floats
    stopped: Flags
    """By the device's own word it has too little randomness."""
    failing: Flags
    """By the device's own word a sensor fails."""
    heard: Floats
    """Unix seconds: its last report, or its last status that was not the broker's memory."""
    interval: Floats
    """Seconds between two of its reports, as planned."""
    patience: Floats

    def standings(self, now: float) -> npt.NDArray[np.int64]:
        """Return the place in `STANDINGS` of the first state that fits each device at this time (Unix seconds), int64[N]."""
        silent = np.abs(now - self.heard) > self.patience  # nan is not silent: never heard comes before
        fits = (
            self.revoked,
            self.exposed,
            (self.left == 0) | (self.claimed_left == 0),
            self.stopped,
            self.failing & ~silent,
            np.isnan(self.heard),
            silent,
            np.ones_like(silent),
        )
        first: npt.NDArray[np.int64] = np.argmax(fits, axis=0)
        return first


def last_heard(times: Floats, *, now: float, patience: Floats) -> Floats:
    """Return the last of each device's times, float64[M, N] to float64[N]; nan without any.

    A time that is yet to come, by a clock that was ahead, counts only where there is no other.
    """
    past = times - now <= patience
    counted = np.where(past | ~past.any(axis=0), times, np.nan)
    newest: Floats = np.fmax.reduce(counted)
    return newest


def expected_interval(least: Floats, claimed_ms: Floats) -> Floats:
    """Return the planned seconds between two reports: the device's own interval, but no less than its quota allows for long."""
    return np.fmax(least, claimed_ms / 1000)


def patience(interval: Floats, least: float) -> Floats:
    """Return for how many seconds a device with this interval may say nothing before it counts as silent."""
    return np.maximum(least, MISSED * interval)
