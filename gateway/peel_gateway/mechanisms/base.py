# SPDX-License-Identifier: MIT
"""The interface of a mechanism."""

from __future__ import annotations

import abc

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.mechanisms.bets import Bets

__all__ = ["Categorical", "Mechanism"]


Ints = npt.NDArray[np.int64]

Floats = npt.NDArray[np.float64]

Bools = npt.NDArray[np.bool_]


class Mechanism(abc.ABC):
    """One mechanism, as the layers, the statistics and the estimates need it.

    What is estimated are *statistics*: a mean per attribute, or a share per category. A report is counted in a *cell* (`Profile.cell`), by
    its sign, and speaks for a statistic or not.
    """

    name: str
    """As in profiles."""
    assigns: bool
    """Whether a report's number assigns its attribute, so that a missing number is known to miss an attribute."""
    signed: bool
    """Whether reports are signs, which others agree with or not."""
    separate: bool
    """Whether each report is about one statistic, that of its index (attributes), or about all of them (shares of categories)."""

    @abc.abstractmethod
    def supported(self, profile: Profile, expected: Ints, index: Ints, sign: Ints) -> Bools:
        """Return True for each codeword, decoded to (index, sign), that an honest device may send if its number assigns `expected`."""

    @abc.abstractmethod
    def toss(self, profile: Profile, cell: Ints, sign: Ints) -> tuple[Ints, Ints]:
        """Return the unit that each report is about and the symbol that it reports."""

    @abc.abstractmethod
    def bets(self, profile: Profile) -> Bets:
        """Return the bets on the devices of a profile and their capital."""

    @abc.abstractmethod
    def ranges(self, profile: Profile) -> tuple[Floats, Floats]:
        """The least and the greatest value that each statistic can have, float64[statistics]."""

    @abc.abstractmethod
    def chances(self, profile: Profile) -> tuple[float, float]:
        """With which chance a report speaks for a statistic that has its least value, and its greatest; in between it is linear."""

    @abc.abstractmethod
    def speaking(self, profile: Profile, cell: Ints, weight: Floats) -> Floats:
        """Return the weight of plus reports that support each statistic, float64[statistics]; one row per cell with its weight."""

    def plain(self, profile: Profile, cell: Ints, plus: Ints, minus: Ints) -> tuple[Floats, Floats, Floats] | None:
        """Value, low and high of the textbook's estimator, float64[statistics] each, where it is another one; from rows as above."""
        return None


class Categorical(Mechanism):
    """Base of the mechanisms that report one of `k` symbols about a single attribute."""

    assigns = False
    signed = False
    separate = False

    def supported(self, profile: Profile, expected: Ints, index: Ints, sign: Ints) -> Bools:
        return np.asarray((index < profile.k) & (sign > 0))
