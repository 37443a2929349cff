# SPDX-License-Identifier: MIT
"""From dense statistics to 1-sparse reports (Horvitz and Thompson 1952): one entry is drawn and divided by its probability.

Drawing entry j with probability p_j and reporting t_j / p_j keeps E[s | t] = t and adds sum_j t_j^2 (1/p_j - 1) to the squared error. This
is least for p_j proportional to |t_j|. The report is then plus or minus the sum of all |t_j|, which differs from report to report.

A frame carries only an index and a sign. With a public bound B on that sum, entry j is drawn with probability |t_j| / B and +B or -B is
reported. With the rest of the probability, any index with any sign is reported, which adds nothing in expectation. The squared
error grows by B^2 - sum_j t_j^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Ints", "Sparse", "added", "constant", "drawn", "least_added", "most_added", "proportional"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ROUNDING = 1e-9
"""By how much, relative to it, sums of magnitudes may exceed the bound."""


@dataclass(frozen=True)
class Sparse:
    """N reports of one entry each."""

    index: Ints
    """int64[N]."""
    value: Floats
    """float64[N]: its sign, times what a report weighs."""

    def mean(self, width: int) -> Floats:
        """The mean report, float64[width]."""
        return np.bincount(self.index, self.value, minlength=width) / len(self.index)


def proportional(t: Floats, rng: np.random.Generator) -> Sparse:
    """With p_j proportional to |t_j|; t is float64[N, width], and a row of zeros gives zero."""
    magnitude = np.abs(t)
    total = magnitude.sum(axis=1)
    index = _pick(magnitude, rng.random(len(t)) * total)
    return Sparse(index, np.sign(t[np.arange(len(t)), index]) * total)


def constant(t: Floats, bound: float, rng: np.random.Generator) -> Sparse:
    """Every report plus or minus `bound`; ValueError where the magnitudes of a row add up to more."""
    magnitude = np.abs(t)
    total = magnitude.sum(axis=1)
    if total.size and total.max() > bound * (1 + _ROUNDING):
        raise ValueError(f"magnitudes add up to {total.max():.6g}, beyond the bound of {bound:.6g}")
    point = rng.random(len(t)) * bound
    index = _pick(magnitude, np.minimum(point, total))
    sign = np.sign(t[np.arange(len(t)), index])
    idle = np.flatnonzero(point >= total)
    index[idle] = rng.integers(t.shape[1], size=len(idle))
    sign[idle] = rng.choice([-1.0, 1.0], size=len(idle))
    return Sparse(index, sign * bound)


def drawn(t: Floats, p: Floats, rng: np.random.Generator) -> Sparse:
    """With probabilities p of one's own, float64[N, width] or float64[width], rows adding up to 1: what the best ones are held against."""
    chances = np.broadcast_to(p, t.shape)
    index = _pick(chances, rng.random(len(t)))
    rows = np.arange(len(t))
    return Sparse(index, t[rows, index] / chances[rows, index])


def added(t: Floats, p: Floats, weights: Floats | float = 1.0) -> Floats:
    """Return the squared error that sampling with probabilities p adds to each report, with a weight per estimate, float64[N].

    An entry that is zero needs no probability.
    """
    chances = np.broadcast_to(p, t.shape)
    terms = np.square(weights * t)
    return np.asarray(np.sum(terms * (1 / np.where(terms > 0, chances, 1.0) - 1), axis=1))


def least_added(t: Floats, weights: Floats | float = 1.0) -> Floats:
    """Return the least added squared error, at probabilities proportional to |w_j t_j|, float64[N]."""
    terms = np.abs(weights * t)
    return np.asarray(terms.sum(axis=1) ** 2 - np.square(terms).sum(axis=1))


def most_added(t: Floats) -> Floats:
    """The paper's upper bound of what the best probabilities add, with all weights 1: float64[N]."""
    return np.asarray((t.shape[1] - 1) * np.square(t).sum(axis=1))


def _pick(weights: Floats, points: Floats) -> Ints:
    """In which entry's share of a row's weights each point lies, int64[N]; behind the last one is the last that has a weight."""
    ends = np.cumsum(weights, axis=1)
    index = np.sum(ends <= points[:, None], axis=1)
    last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    return np.asarray(np.minimum(index, last), np.int64)
