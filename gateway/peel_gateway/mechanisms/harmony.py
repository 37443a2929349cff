# SPDX-License-Identifier: MIT
"""Harmony (Nguyen et al. 2016): the number assigns an attribute, the device tosses a sign with mean (R/2^31) x.

Estimates on [-1, 1], with c = 2^31/R ::

    ratio    m_j = c (plus_j - minus_j) / n_j            n_j = plus_j + minus_j
    plain    m_j = c k (plus_j - minus_j) / N            N = sum_j n_j     (Horvitz-Thompson)

Both are unbiased; the ratio estimator is the published one, because it does not pay for the chance in how often an attribute was
assigned: its variance is about k (c^2 - m^2)/N, that of the plain one (k c^2 - m^2)/N, larger by (k - 1) m^2/N.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.mechanisms.base import Mechanism
from peel_gateway.mechanisms.bets import Alphabet, Bets, bets_on
from peel_gateway.mechanisms.intervals import Z95

__all__ = ["HARMONY", "harmony_bets", "plain_means"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_ONE = 2.0**31


def plain_means(profile: Profile, plus: Floats, minus: Floats) -> tuple[Floats, Floats, Floats]:
    """Horvitz-Thompson means on [-1, 1], clipped, and their 95% score intervals, float64[k] each.

    A term is c k times a sign, or 0, and its square is (c k)^2 with probability 1/k: the variance follows from the mean, k c^2 - m^2, and
    all m with (mean - m)^2 <= 1.96^2 (k c^2 - m^2)/N are in the interval.
    """
    total = (plus + minus).sum()
    if total == 0:
        none = np.full(profile.k, np.nan)
        return none, none, none
    scale = _ONE / profile.rule
    mean = np.clip(scale * profile.k * (plus - minus) / total, -1, 1)
    square = Z95**2 / total
    half = np.sqrt(square * ((1 + square) * profile.k * scale**2 - mean**2))
    return mean, np.maximum((mean - half) / (1 + square), -1), np.minimum((mean + half) / (1 + square), 1)


class _Harmony(Mechanism):
    name = "harmony"
    assigns = True
    signed = True
    separate = True

    def supported(self, profile: Profile, expected: Ints, index: Ints, sign: Ints) -> Bools:
        return np.asarray(index == expected)

    def toss(self, profile: Profile, cell: Ints, sign: Ints) -> tuple[Ints, Ints]:
        return cell, np.asarray(sign > 0, dtype=np.int64)

    def bets(self, profile: Profile) -> Bets:
        return harmony_bets(profile.k, profile.rule)

    def ranges(self, profile: Profile) -> tuple[Floats, Floats]:
        lows = np.array([attribute.low for attribute in profile.attributes], np.float64)
        return lows, np.array([attribute.high for attribute in profile.attributes], np.float64)

    def chances(self, profile: Profile) -> tuple[float, float]:
        return (_ONE - profile.rule) / (2 * _ONE), (_ONE + profile.rule) / (2 * _ONE)

    def speaking(self, profile: Profile, cell: Ints, weight: Floats) -> Floats:
        return np.bincount(cell, weight, profile.k).astype(np.float64, copy=False)

    def plain(self, profile: Profile, cell: Ints, plus: Ints, minus: Ints) -> tuple[Floats, Floats, Floats]:
        means = plain_means(
            profile, *(self.speaking(profile, cell, counts.astype(np.float64)) for counts in (plus, minus))
        )
        lows, highs = self.ranges(profile)
        value, low, high = (lows + (1 + each) / 2 * (highs - lows) for each in means)
        return value, low, high


HARMONY = _Harmony()


def harmony_bets(units: int, rule: int) -> Bets:
    """Return the bets on devices with so many attributes."""
    return bets_on(Alphabet(mechanism=HARMONY.name, units=units, symbols=2, rule=rule))
