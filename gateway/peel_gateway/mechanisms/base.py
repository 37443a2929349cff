# SPDX-License-Identifier: MIT
"""What a mechanism is to the gateway."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.mechanisms.game import Game

__all__ = ["Family", "Figures", "Mechanism", "Process"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Family:
    """Bets of one kind: events of D devices (and B attributes), out of trials, each with probability at most bound."""

    name: str
    events: Ints
    """int64[D, B]."""
    trials: Ints
    """int64[D, B]."""
    bound: float
    weight: float
    """Share of the capital for the whole family."""


@dataclass(frozen=True)
class Process:
    """One supermartingale: its share of alpha, and its families, whose weights add up to 1."""

    share: float
    families: Sequence[Family]


class Figures(NamedTuple):
    """Values with their 95% intervals, float64[k] each, NaN where there is no report."""

    value: Floats
    low: Floats
    high: Floats


class Mechanism(abc.ABC):
    """One mechanism, as the layers, the statistics and the estimates need it. All arrays have one entry per report or per attribute."""

    name: str
    """As in profiles."""
    assigns: bool
    """Whether a report's number assigns its attribute, so that a missing number is known to miss an attribute."""

    @abc.abstractmethod
    def supported(self, profile: Profile, expected: Ints, index: Ints, sign: Ints) -> Bools:
        """Which codewords, decoded to (index, sign), an honest device may send where its number assigns `expected`."""

    @abc.abstractmethod
    def processes(self, profile: Profile, counts: Ints) -> Iterator[Process]:
        """What can be bet on devices with these counts, int64[D, k, len(Conduct)]."""

    @abc.abstractmethod
    def game(self, profile: Profile) -> Game:
        """What is bet on the devices of a profile, and with which capital."""

    @abc.abstractmethod
    def labels(self, profile: Profile) -> list[tuple[str, str]]:
        """Name and unit of everything that is estimated, k of them."""

    @abc.abstractmethod
    def published(self, profile: Profile, plus: Ints, minus: Ints) -> Figures:
        """The estimates to use, from counts int64[k]."""

    @abc.abstractmethod
    def plain(self, profile: Profile, plus: Ints, minus: Ints) -> Figures:
        """Horvitz-Thompson estimates, for comparison."""
