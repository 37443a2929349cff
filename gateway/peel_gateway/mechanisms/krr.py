# SPDX-License-Identifier: MIT
"""kRR: the device says its own category with probability p, any other with probability q.

With q = (2^31 - R)/(k 2^31) the share of category v is f_v = (n_v/N - q) 2^31/R.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.mechanisms.base import Figures, Mechanism
from peel_gateway.mechanisms.game import Game, Sets, both_ends
from peel_gateway.mechanisms.intervals import wilson

__all__ = ["KRR", "krr_frequencies", "krr_game"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ONE = 2.0**31


def krr_frequencies(profile: Profile, counts: Ints) -> Figures:
    """Frequencies and their interval, float64[k] each."""
    wrong = (_ONE - profile.rule) / (profile.k * _ONE)
    scale = _ONE / profile.rule
    total = np.full(profile.k, counts.sum())
    low, high = wilson(counts, total)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = counts / total
    value = (share - wrong) * scale
    return Figures(value, np.clip((low - wrong) * scale, 0, 1), np.clip((high - wrong) * scale, 0, 1))


def krr_game(k: int, rule: int) -> Game:
    """The bets on devices with k categories: half of the capital for the whole past, which alone finds what comes too seldom."""
    least = (_ONE - rule) / (k * _ONE)
    most = (_ONE + (k - 1) * rule) / (k * _ONE)
    few, many = both_ends(k)
    sets = Sets(items=k, few=few, many=many, most=most, least=least, past=1 / 2, notebooks=4, notebook=1 / 8)
    return Game(symbols=sets)


class _Krr(Mechanism):
    name = "krr"
    assigns = False
    signed = False

    def supported(self, profile: Profile, expected: Ints, index: Ints, sign: Ints) -> Bools:
        return np.asarray((index < profile.k) & (sign > 0))

    def toss(self, profile: Profile, cell: Ints, sign: Ints) -> tuple[Ints, Ints]:
        return np.zeros(len(cell), np.int64), cell

    def game(self, profile: Profile) -> Game:
        return krr_game(profile.k, profile.rule)

    def labels(self, profile: Profile) -> list[tuple[str, str]]:
        return [(category, "") for category in profile.categories]

    def published(self, profile: Profile, plus: Ints, minus: Ints) -> Figures:
        return krr_frequencies(profile, plus)

    def plain(self, profile: Profile, plus: Ints, minus: Ints) -> Figures:
        return krr_frequencies(profile, plus)


KRR = _Krr()
