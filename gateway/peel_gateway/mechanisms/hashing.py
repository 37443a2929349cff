# SPDX-License-Identifier: MIT
"""Local hashing (Wang et al. 2017): the number assigns a hash of the categories into g symbols, the device answers kRR over these.

A report speaks for every category whose symbol, under its hash, is the one that it says: for the device's own with probability
p = (1 + (g - 1) R/2^31)/g, and for any other with probability 1/g exactly, since under a random hash of the family (SPEC section 6.3)
two categories meet with probability 1/g. With C_v of N reports speaking for v its share is f_v = (C_v/N - 1/g) / (p - 1/g).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_core.hash_family import digits
from peel_core.hashing import supports
from peel_gateway.mechanisms.base import Categorical, Face, Faces, Game, HeavyHitters, Sets, Shares, both_ends

__all__ = ["HASHING", "hashing_game"]

_REMEMBERED_HASHES = 2500
"""Up to so many hashes, what a device says about each is remembered; beyond, it would take too much room, and too long to come back."""

_REMEMBERED_COUNTS = 7500
"""The same for how often it says each symbol about each hash."""


def hashing_game(categories: int, symbols: int, digits: int, rule: int) -> Game:
    """The bets on devices that hash so many categories into a few symbols, with symbols^digits hashes.

    Eleven sixteenths of the capital for heavy hitters: they expose a device that supports one or a few categories. An eighth for
    the reports on each hash: it exposes a device that supports any set of categories, choosing the best symbol per hash, but a hash must
    recur first.
    A sixteenth for shares: a device that is biased only where its categories share a symbol. An eighth for symbols alone: a device
    that does not even look at the hash. Which hashes came is not bet on: skipped numbers count, so picking among hashes gains nothing in
    a mean over reports. In one over devices it does (THREAT_MODEL.md, *Local hashing*).
    """
    least = (_ONE - rule) / (symbols * _ONE)
    most = (_ONE + (symbols - 1) * rule) / (symbols * _ONE)
    few, many = both_ends(symbols)
    hashes = symbols**digits
    faces = Faces(units=hashes, symbols=symbols, most=most, capital=dict.fromkeys((Face.PAST, Face.RECENT), 1 / 40))
    shares = Shares(units=hashes, symbols=symbols, most=most, least=least, capital=1 / 32)
    return Game(
        faces=faces if hashes <= _REMEMBERED_HASHES else None,
        shares=shares if hashes * symbols <= _REMEMBERED_COUNTS else None,
        symbols=Sets(
            items=symbols, few=few, many=many, most=most, least=least, past=1 / 16, notebooks=4, notebook=1 / 64
        ),
        heavy_hitters=HeavyHitters(
            categories=categories,
            symbols=symbols,
            digits=digits,
            sizes=tuple(size for size in (1, 2, 4, 8) if size < symbols),
            votes=(4, 8, 16),
            most=most,
            least=least,
            capital=11 / 64,
        ),
    )


Ints = npt.NDArray[np.int64]

Floats = npt.NDArray[np.float64]

Bools = npt.NDArray[np.bool_]

_ONE = 2.0**31


class _Hashing(Categorical):
    name = "hashing"

    def toss(self, profile: Profile, cell: Ints, sign: Ints) -> tuple[Ints, Ints]:
        return cell // profile.k, cell % profile.k

    def game(self, profile: Profile) -> Game:
        return hashing_game(profile.domain, profile.k, digits(profile.k, profile.domain), profile.rule)

    def ranges(self, profile: Profile) -> tuple[Floats, Floats]:
        return np.zeros(profile.size), np.ones(profile.size)

    def chances(self, profile: Profile) -> tuple[float, float]:
        return 1 / profile.k, (1 + (profile.k - 1) * profile.rule / _ONE) / profile.k

    def speaking(self, profile: Profile, cell: Ints, weight: Floats) -> Floats:
        return supports(cell, weight, profile.k, profile.domain)


HASHING = _Hashing()
