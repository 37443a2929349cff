# SPDX-License-Identifier: MIT
"""What a mechanism is to the gateway."""

from __future__ import annotations

import abc
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.mechanisms.game import Game

__all__ = ["Figures", "Mechanism"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


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
    signed: bool
    """Whether reports are signs, which others agree with or not."""

    @abc.abstractmethod
    def supported(self, profile: Profile, expected: Ints, index: Ints, sign: Ints) -> Bools:
        """Which codewords, decoded to (index, sign), an honest device may send where its number assigns `expected`."""

    def cell(self, profile: Profile, expected: Ints, index: Ints) -> Ints:
        """Where codewords are tallied: by their attribute or category, unless the mechanism says more."""
        return index

    @abc.abstractmethod
    def toss(self, profile: Profile, cell: Ints, sign: Ints) -> tuple[Ints, Ints]:
        """What was tossed, as bets take it: the unit that each report is about, and the symbol that it says about it."""

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
