# SPDX-License-Identifier: MIT
"""The interface of a mechanism, and the bets on its devices (`Game`)."""

from __future__ import annotations

import abc
import enum
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Profile

__all__ = [
    "Categorical",
    "Face",
    "Faces",
    "Game",
    "HeavyHitters",
    "Mechanism",
    "Sets",
    "Shares",
    "both_ends",
    "up_to_half",
]


class Face(enum.IntEnum):
    """The predictions of the pooled bets, for reports about any unit; in the kernel's order."""

    PLUS = 0
    MINUS = 1
    AGREE = 2
    """The cohort's sign before the batch."""
    DISAGREE = 3
    PAST = 4
    """The symbol that the device has reported most often about this unit."""
    AGAINST = 5
    """The other sign: detects a device that reverses its own past."""
    RECENT = 6
    """The prediction of a restart window; the kernel keeps four windows, each with this capital."""


@dataclass(frozen=True, kw_only=True)
class Faces:
    """Bets on the symbol that a report says about its unit."""

    units: int
    symbols: int
    most: float
    """No honest report says a given symbol with a larger probability."""
    capital: Mapping[Face, float]
    unit_capital: float = 0.0
    """Of the bets on single units, all together."""


@dataclass(frozen=True, kw_only=True)
class Sets:
    """Bets that an item is among the a that came most often, for several sizes a."""

    items: int
    few: tuple[int, ...]
    """Sizes up to half of the items, ascending: played by the whole past and by restart windows."""
    many: tuple[int, ...] = ()
    """Sizes above, ascending: that the others come too seldom. Played by the whole past alone: it takes long anyhow."""
    most: float
    """A set of a items is hit with probability at most most + (a - 1) least."""
    least: float
    past: float
    """Capital of the whole past, shared evenly among the sizes."""
    notebooks: int = 0
    notebook: float = 0.0
    """Capital of each restart window, shared evenly among the sizes."""


@dataclass(frozen=True, kw_only=True)
class HeavyHitters:
    """Bets that a report supports one of a few categories, which the device's last reports point to. Its unit is the hash."""

    categories: int
    symbols: int
    """The number of hash values: g, a prime of at most 127."""
    digits: int
    """m: categories and hashes have so many digits to base g."""
    sizes: tuple[int, ...]
    """A report says one of the symbols that so many candidates hash to; at most 16."""
    votes: tuple[int, ...]
    """A report says the symbol that most of so many candidates hash to; at most 16."""
    most: float
    """One of a symbols comes with probability at most most + (a - 1) least."""
    least: float
    capital: float
    """Of each of the kernel's four lists of candidates, shared evenly among sizes and votes."""


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Bets that a report says what its unit's last reports said most, or not what they said least, where they did so beyond the bound."""

    units: int
    symbols: int
    most: float
    """No honest report says a given symbol with a larger probability."""
    least: float
    """Nor with a smaller one."""
    capital: float
    """Of each of the two."""


@dataclass(frozen=True, kw_only=True)
class Game:
    """All bets on the devices of a profile: two processes, whose capital adds up to 1 each."""

    faces: Faces | None = None
    reports: Sets | None = None
    """Bets on the units of the reports that came."""
    gaps: Sets | None = None
    """Bets on the units of missing reports."""
    symbols: Sets | None = None
    """Bets on symbols or categories, for reports about any unit."""
    heavy_hitters: HeavyHitters | None = None
    shares: Shares | None = None
    late: Sets | None = None
    """Bets on the units of late reports, which had been settled as missing. A separate process."""
    late_share: float = 0.0
    """The part of alpha that the process of late reports has."""


def up_to_half(items: int, step: int) -> tuple[int, ...]:
    """1, step, step^2, ... and half of the items."""
    sizes, size = set(), 1
    while size < items // 2:
        sizes.add(size)
        size *= step
    return (*sorted(sizes), max(1, items // 2))


def both_ends(items: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """1, 2, 4, ... half of the items, and the same counted from the other end."""
    few = up_to_half(items, 2)
    return few, tuple(items - size for size in reversed(few) if items - size > items // 2)


Ints = npt.NDArray[np.int64]

Floats = npt.NDArray[np.float64]

Bools = npt.NDArray[np.bool_]


class Mechanism(abc.ABC):
    """One mechanism, as the layers, the statistics and the estimates need it.

    What is estimated are *figures*: a mean per attribute, or a share per category. A report is counted in a *cell* (`Profile.cell`), by its
    sign, and speaks for a figure or not.
    """

    name: str
    """As in profiles."""
    assigns: bool
    """Whether a report's number assigns its attribute, so that a missing number is known to miss an attribute."""
    signed: bool
    """Whether reports are signs, which others agree with or not."""
    separate: bool
    """Whether each report is about one figure, that of its index (attributes), or about all of them (shares of categories)."""

    @abc.abstractmethod
    def supported(self, profile: Profile, expected: Ints, index: Ints, sign: Ints) -> Bools:
        """Return True for each codeword, decoded to (index, sign), that an honest device may send if its number assigns `expected`."""

    @abc.abstractmethod
    def toss(self, profile: Profile, cell: Ints, sign: Ints) -> tuple[Ints, Ints]:
        """Return the unit that each report is about and the symbol that it reports."""

    @abc.abstractmethod
    def game(self, profile: Profile) -> Game:
        """Return the bets on the devices of a profile and their capital."""

    @abc.abstractmethod
    def ranges(self, profile: Profile) -> tuple[Floats, Floats]:
        """The least and the greatest value that each figure can have, float64[figures]."""

    @abc.abstractmethod
    def chances(self, profile: Profile) -> tuple[float, float]:
        """With which chance a report speaks for a figure that has its least value, and its greatest; in between it is linear."""

    @abc.abstractmethod
    def speaking(self, profile: Profile, cell: Ints, weight: Floats) -> Floats:
        """Return the weight of plus reports that support each statistic, float64[figures]; one row per cell with its weight."""

    def plain(self, profile: Profile, cell: Ints, plus: Ints, minus: Ints) -> tuple[Floats, Floats, Floats] | None:
        """Value, low and high of the textbook's estimator, float64[figures] each, where it is another one; from rows as above."""
        return None


class Categorical(Mechanism):
    """Base of the mechanisms that report one of `k` symbols about a single attribute."""

    assigns = False
    signed = False
    separate = False

    def supported(self, profile: Profile, expected: Ints, index: Ints, sign: Ints) -> Bools:
        return np.asarray((index < profile.k) & (sign > 0))
