# SPDX-License-Identifier: MIT
"""The piecewise mechanism (Wang et al. 2019): a real number near the reading of one attribute, more likely than one far from it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from peel_research.lab.mechanisms.base import Numeric, Reports
from peel_research.lab.mechanisms.sampling import Floats

__all__ = ["Piecewise"]


class Piecewise(Numeric):
    """One attribute, all equally likely, and a number in [-reach, reach] for it. A report is (attribute, number), float64[N, 2].

    1-sparse as it is, but of no constant magnitude: without its number, only with its sign, a report carries what sampling leaves of it.
    """

    name = "piecewise"
    natural = True

    @property
    def _root(self) -> float:
        return float(np.exp(self.epsilon / 2))

    @property
    def bound(self) -> float:
        """The largest absolute report."""
        return (self._root + 1) / (self._root - 1)

    @property
    def gain(self) -> float:
        return float(self.size)

    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        attribute = rng.integers(self.size, size=len(values))
        left, right = self._near(np.clip(values[np.arange(len(values)), attribute], -1, 1))
        point = rng.random(len(values))
        far = -self.bound + point * (self.bound + 1)
        far += np.where(far >= left, right - left, 0)
        near = left + point * (right - left)
        number = np.where(rng.random(len(values)) < self._root / (self._root + 1), near, far)
        return np.stack([attribute, number], axis=1)

    def _near(self, told: Floats) -> tuple[Floats, Floats]:
        """The ends of the stretch of numbers that are likelier, of length bound - 1."""
        left = np.asarray((self.bound + 1) / 2 * told - (self.bound - 1) / 2)
        return left, left + self.bound - 1

    def statistic(self, reports: Reports) -> Floats:
        dense = np.zeros((len(reports), self.size))
        dense[np.arange(len(reports)), reports[:, 0].astype(np.int64)] = reports[:, 1]
        return dense

    def decode(self, mean: Floats) -> Floats:
        return mean * self.size

    def variance(self, values: NDArray[Any]) -> float:
        return (self.size * self.squared_norm(values) - float(np.mean(np.square(values)))) / len(values)

    def squared_norm(self, values: NDArray[Any]) -> float:
        """E[number^2] = x^2 root / (root - 1) + (root + 3) / (3 (root - 1)^2), from the paper's variance."""
        root, square = self._root, float(np.mean(np.square(values)))
        return square * root / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)

    def squared_sum(self, values: NDArray[Any]) -> float:
        return self.squared_norm(values)

    def log_likelihood(self, reports: Reports, values: NDArray[Any]) -> Floats:
        left, right = self._near(values[np.arange(len(values)), reports[:, 0].astype(np.int64)])
        near = (left <= reports[:, 1]) & (reports[:, 1] <= right)
        density = np.where(near, self._root / (self.bound - 1), 1 / (self.bound + 1)) / (self._root + 1)
        return np.asarray(np.log(density / self.size))
