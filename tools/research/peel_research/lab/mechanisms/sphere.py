# SPDX-License-Identifier: MIT
"""A direction on the sphere (Duchi, Jordan, Wainwright 2018, for the ball), with the cube scaled into the ball."""

from __future__ import annotations

from math import exp, lgamma, pi, sqrt, tanh
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peel_research.lab.mechanisms.base import Numeric, Reports
from peel_research.lab.mechanisms.sampling import Floats

__all__ = ["Sphere"]


class Sphere(Numeric):
    """A direction, on the reading's side of the sphere with a probability that its length decides. A report is float64[N, size]."""

    name = "sphere"

    @property
    def gain(self) -> float:
        """coth(eps / 2), over how far half a sphere leans to its pole, Gamma(k/2) / (sqrt(pi) Gamma((k+1)/2)); times the cube's scale."""
        lean = exp(lgamma(self.size / 2) - lgamma((self.size + 1) / 2)) / sqrt(pi)
        return sqrt(self.size) / (tanh(self.epsilon / 2) * lean)

    @property
    def bound(self) -> float:
        return sqrt(self.size)

    def _plus(self, values: NDArray[Any]) -> tuple[Floats, Floats]:
        """The reading's direction, float64[N, size] (zero where it has none), and how likely reports lie on its side, float64[N]."""
        length = np.linalg.norm(values, axis=1)
        direction = values / np.where(length > 0, length, 1)[:, None]
        return direction, (1 + length / sqrt(self.size) * tanh(self.epsilon / 2)) / 2

    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        direction, plus = self._plus(np.clip(values, -1, 1))
        anywhere = rng.standard_normal(values.shape)
        anywhere /= np.linalg.norm(anywhere, axis=1, keepdims=True)
        here = np.einsum("ij,ij->i", anywhere, direction) >= 0
        wanted = rng.random(len(values)) < plus
        return np.asarray(anywhere * np.where(here == wanted, 1, -1)[:, None])

    def statistic(self, reports: Reports) -> Floats:
        return reports

    def decode(self, mean: Floats) -> Floats:
        return mean * self.gain

    def variance(self, values: NDArray[Any]) -> float:
        return float(self.gain**2 / self.size - np.mean(np.square(values))) / len(values)

    def squared_norm(self, values: NDArray[Any]) -> float:
        return 1.0

    def squared_sum(self, values: NDArray[Any]) -> float:
        """1 + sum over pairs of E|z_i z_j| = 2 / (pi size), whatever the reading: both halves of a sphere have the same magnitudes."""
        return 1 + (self.size - 1) * 2 / pi

    def log_likelihood(self, reports: Reports, values: NDArray[Any]) -> Floats:
        """Relative to the uniform density."""
        direction, plus = self._plus(values)
        here = np.einsum("ij,ij->i", reports, direction) >= 0
        return np.asarray(np.log(2 * np.where(here, plus, 1 - plus)))
