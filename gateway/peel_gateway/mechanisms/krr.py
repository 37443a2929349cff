# SPDX-License-Identifier: MIT
"""kRR: the device says its own category with probability p, any other with probability q.

With q = (2^31 - R)/(k 2^31) and p = q + R/2^31 the share of category v is f_v = (n_v/N - q) / (p - q).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.mechanisms.base import Categorical
from peel_gateway.mechanisms.bets import Alphabet, Bets, bets_on

__all__ = ["KRR", "krr_bets"]

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
