# SPDX-License-Identifier: MIT
"""The mechanisms for frequencies of categories: kRR and local hashing.

**kRR**: the device says its own category with probability p, any other with probability q. With q = (2^31 - R)/(k 2^31) and
p = q + R/2^31 the share of category v is f_v = (n_v/N - q) / (p - q).

**Local hashing** (Wang et al. 2017): the number assigns a hash of the categories into g symbols, the device answers kRR over these. A
report speaks for every category whose symbol, under its hash, is the one that it says: for the device's own with probability
p = (1 + (g - 1) R/2^31)/g, and for any other with probability 1/g exactly, since under a random hash of the family (SPEC section 6.3)
two categories meet with probability 1/g. With C_v of N reports speaking for v its share is f_v = (C_v/N - 1/g) / (p - 1/g).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_core.hash_family import digits
from peel_core.hashing import supports
from peel_gateway.mechanisms.base import Categorical
from peel_gateway.mechanisms.bets import Alphabet, Bets, bets_on

__all__ = ["HASHING", "KRR", "hashing_bets", "krr_bets"]

Ints = npt.NDArray[np.int64]

Floats = npt.NDArray[np.float64]

Bools = npt.NDArray[np.bool_]

_ONE = 2.0**31


def krr_bets(k: int, rule: int) -> Bets:
    """Return the bets on devices with k categories."""
    return bets_on(Alphabet(mechanism=KRR.name, units=1, symbols=k, rule=rule))


class _Krr(Categorical):
    name = "krr"

    def toss(self, profile: Profile, cell: Ints, sign: Ints) -> tuple[Ints, Ints]:
        return np.zeros(len(cell), np.int64), cell

    def bets(self, profile: Profile) -> Bets:
        return krr_bets(profile.k, profile.rule)

    def ranges(self, profile: Profile) -> tuple[Floats, Floats]:
        return np.zeros(profile.k), np.ones(profile.k)

    def chances(self, profile: Profile) -> tuple[float, float]:
        wrong = (_ONE - profile.rule) / (profile.k * _ONE)
        return wrong, wrong + profile.rule / _ONE

    def speaking(self, profile: Profile, cell: Ints, weight: Floats) -> Floats:
        return np.bincount(cell, weight, profile.k).astype(np.float64, copy=False)


KRR = _Krr()


def hashing_bets(categories: int, symbols: int, digits: int, rule: int) -> Bets:
    """Return the bets on devices that hash so many categories into a few symbols, with symbols^digits hashes."""
    hashes = symbols**digits
    return bets_on(
        Alphabet(mechanism=HASHING.name, units=hashes, symbols=symbols, rule=rule, categories=categories, digits=digits)
    )


class _Hashing(Categorical):
    name = "hashing"

    def toss(self, profile: Profile, cell: Ints, sign: Ints) -> tuple[Ints, Ints]:
        return cell // profile.k, cell % profile.k

    def bets(self, profile: Profile) -> Bets:
        return hashing_bets(profile.domain, profile.k, digits(profile.k, profile.domain), profile.rule)

    def ranges(self, profile: Profile) -> tuple[Floats, Floats]:
        return np.zeros(profile.size), np.ones(profile.size)

    def chances(self, profile: Profile) -> tuple[float, float]:
        return 1 / profile.k, (1 + (profile.k - 1) * profile.rule / _ONE) / profile.k

    def speaking(self, profile: Profile, cell: Ints, weight: Floats) -> Floats:
        return supports(cell, weight, profile.k, profile.domain)


HASHING = _Hashing()
