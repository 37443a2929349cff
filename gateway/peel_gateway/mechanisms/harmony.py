# SPDX-License-Identifier: MIT
"""Signs, by Harmony (Nguyen et al. 2016): the device tosses a sign with mean x/c for a reading x on [-1, 1].

With c = K/(keep - change) of the coin's odds, a question that n_j of N reports answered has the mean ::

    ratio    m_j = c (plus_j - minus_j) / n_j            n_j = plus_j + minus_j
    plain    m_j = c k (plus_j - minus_j) / N            N = sum_j n_j     (Horvitz-Thompson)

Both are unbiased; the ratio estimator is the published one, because it does not pay for the chance in how often a question was
assigned: its variance is about k (c^2 - m^2)/N, that of the plain one (k c^2 - m^2)/N, larger by (k - 1) m^2/N. Here 1/k is the
probability with which a number assigns the question.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core import Block
from peel_core.odds import Odds
from peel_gateway.mechanisms.base import Form
from peel_gateway.mechanisms.bets import Alphabet, Bets, bets_on
from peel_gateway.mechanisms.intervals import Z95

__all__ = ["SIGNS", "harmony_bets", "plain_means"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def plain_means(block: Block, slots: int, total: float, plus: Floats, minus: Floats) -> tuple[Floats, Floats, Floats]:
    """Horvitz-Thompson means on [-1, 1], clipped, and their 95% score intervals, float64[questions] each.

    A number assigns each question with probability 1/k = weight / slots; `total` is the number of reports about any question. A term is
    c k times a sign, or 0, and its square is (c k)^2 with probability 1/k: the variance follows from the mean, k c^2 - m^2, and all m
    with (mean - m)^2 <= 1.96^2 (k c^2 - m^2)/N are in the interval.
    """
    if total == 0:
        none = np.full(block.questions, np.nan)
        return none, none, none
    scale, k = block.cap, slots / block.weight
    mean = np.clip(scale * k * (plus - minus) / total, -1, 1)
    square = Z95**2 / total
    half = np.sqrt(square * ((1 + square) * k * scale**2 - mean**2))
    return mean, np.maximum((mean - half) / (1 + square), -1), np.minimum((mean + half) / (1 + square), 1)


class _Signs(Form):
    signed = True

    def supported(self, block: Block, unit: Ints, column: Ints, sign: Ints) -> Bools:
        return np.asarray(column == unit)

    def symbol(self, block: Block, cell: Ints, sign: Ints) -> Ints:
        return np.asarray(sign > 0, dtype=np.int64)

    def alphabet(self, block: Block) -> Alphabet:
        return Alphabet(mechanism="harmony", units=block.units, questions=block.questions, odds=block.odds)

    def chances(self, block: Block) -> tuple[float, float]:
        return block.change / block.odds.total, block.keep / block.odds.total

    def speaking(self, block: Block, cell: Ints, weight: Floats) -> Floats:
        return np.bincount(cell, weight, block.questions).astype(np.float64, copy=False)


SIGNS = _Signs()


def harmony_bets(units: int, odds: Odds) -> Bets:
    """Return the bets on devices with so many questions answered by signs."""
    return bets_on([Alphabet(mechanism="harmony", units=units, questions=units, odds=odds)])
