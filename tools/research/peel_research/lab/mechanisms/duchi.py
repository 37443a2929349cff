# SPDX-License-Identifier: MIT
"""A sign for every attribute at once (Duchi, Jordan, Wainwright 2018, for the cube)."""

from __future__ import annotations

from itertools import product
from math import comb, exp, log, tanh
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peel_research.lab.mechanisms.base import Numeric, Reports
from peel_research.lab.mechanisms.sampling import Floats

__all__ = ["Duchi"]


class Duchi(Numeric):
    """A corner of the cube: on the side of the reading with probability e^eps / (1 + e^eps). A report is int64[N, size] of -1 and +1.

    The reading x is first rounded to a corner v with expectation x; of the corners that agree with v in most attributes, or in few, each
    is equally likely. Those that agree in exactly half of them, where the size is even, are on either side with half the weight: at full
    weight, as the algorithm is often printed, such a report is likelier than one of the other side by 1 + e^eps, more than the budget.
    """

    name = "duchi"

    @property
    def gain(self) -> float:
        """coth(eps / 2), over how far the mean corner of a side leans to its v: E|agreeing - opposing| / size."""
        surplus = (comb(self.size, agreeing) * abs(2 * agreeing - self.size) for agreeing in range(self.size + 1))
        lean = sum(surplus) / (self.size << self.size)
        return 1 / (tanh(self.epsilon / 2) * lean)

    @property
    def bound(self) -> float:
        return float(self.size)

    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        corner = np.where(rng.random(values.shape) < (1 + np.clip(values, -1, 1)) / 2, 1, -1)
        anywhere = 2 * rng.integers(2, size=values.shape) - 1
        surplus = np.einsum("ij,ij->i", anywhere, corner)
        wanted = np.where(rng.random(len(values)) < 1 / (1 + exp(-self.epsilon)), 1, -1)
        return np.asarray(anywhere * np.where(surplus * wanted < 0, -1, 1)[:, None])

    def statistic(self, reports: Reports) -> Floats:
        return reports.astype(np.float64)

    def decode(self, mean: Floats) -> Floats:
        return mean * self.gain

    def variance(self, values: NDArray[Any]) -> float:
        return float(self.gain**2 - np.mean(np.square(values))) / len(values)

    def squared_norm(self, values: NDArray[Any]) -> float:
        return float(self.size)

    def squared_sum(self, values: NDArray[Any]) -> float:
        return float(self.size**2)

    def log_likelihood(self, reports: Reports, values: NDArray[Any]) -> Floats:
        """By how likely the rounded reading is on the report's side."""
        agreements = _poisson_binomial((1 + reports * values) / 2)
        surplus = np.sign(2 * np.arange(self.size + 1) - self.size)
        return np.asarray(np.log(agreements @ (1 + surplus * tanh(self.epsilon / 2))) - self.size * log(2))

    def outputs(self) -> Reports:
        return np.array(list(product([-1, 1], repeat=self.size)))


def _poisson_binomial(chances: Floats) -> Floats:
    """Return the distribution of the number of successes, float64[N, k + 1], for a probability per trial, float64[N, k]."""
    found = np.zeros((len(chances), chances.shape[1] + 1))
    found[:, 0] = 1
    for chance in chances.T[:, :, None]:
        found[:, 1:] = found[:, 1:] * (1 - chance) + found[:, :-1] * chance
        found[:, :1] *= 1 - chance
    return found
