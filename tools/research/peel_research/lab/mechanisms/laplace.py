# SPDX-License-Identifier: MIT
"""Laplace noise on every attribute (Dwork et al. 2006), clipped where a public bound is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peel_research.lab.mechanisms.base import Numeric, Reports
from peel_research.lab.mechanisms.sampling import Floats

__all__ = ["Laplace"]


@dataclass(frozen=True)
class Laplace(Numeric):
    """Noise of scale 2 size / epsilon on each of `size` attributes. A report is float64[N, size].

    Reports have no bound, so their statistic is clipped to plus or minus `limit`, beyond which the noisy reading of an attribute lies, on
    either side, with probability at most `tail`. That leaves a bias, which `bias` states and which is at most scale x tail; the plain
    estimate (`estimate`) is not clipped.
    """

    name = "laplace"

    tail: float = 1e-3

    @property
    def scale(self) -> float:
        """Of the noise: two inputs differ by at most 2 in each attribute."""
        return 2 * self.size / self.epsilon

    @property
    def limit(self) -> float:
        """The limit at which statistics are clipped."""
        return 1 - self.scale * float(np.log(2 * self.tail))

    @property
    def bound(self) -> float:
        return self.size * self.limit

    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        return np.asarray(np.clip(values, -1, 1) + rng.laplace(scale=self.scale, size=values.shape))

    def statistic(self, reports: Reports) -> Floats:
        return np.clip(reports, -self.limit, self.limit)

    def estimate(self, reports: Reports) -> Floats:
        return np.asarray(reports.mean(axis=0))

    def decode(self, mean: Floats) -> Floats:
        return mean

    def bias(self, values: NDArray[Any]) -> Floats:
        """Return the bias of 1-sparse estimates from clipping, float64[size]."""
        above, below = self._beyond(values)
        return np.asarray(self.scale * (below - above).mean(axis=0))

    def variance(self, values: NDArray[Any]) -> float:
        """Of the plain estimate, which is not clipped."""
        return 2 * self.scale**2 / len(values)

    def _sampling_variance(self, values: NDArray[Any], sparse_square: float) -> float:
        """Sampling a clipped report adds what it does elsewhere, clipping takes away some of the noise, and its bias counts too."""
        above, below = self._beyond(values)
        means = values + self.scale * (below - above)
        clipped = (self.squared_norm(values) - np.square(means).sum(axis=1).mean()) / (len(values) * self.size)
        bias = float(np.mean(self.bias(values) ** 2))
        return super()._sampling_variance(values, sparse_square) + float(clipped) + bias - self.variance(values)

    def squared_norm(self, values: NDArray[Any]) -> float:
        """E[clip(z)^2] = E[z^2] - E[(z^2 - limit^2) where |z| > limit]; beyond the limit the noise has no memory."""
        above, below = self._beyond(values)
        excess = 2 * self.scale * (self.limit + self.scale) * (above + below)
        return float((np.square(values) + 2 * self.scale**2 - excess).sum(axis=1).mean())

    def squared_sum(self, values: NDArray[Any]) -> float:
        """E[(sum_j |t_j|)^2] = sum_j E[t_j^2] + (sum_j E|t_j|)^2 - sum_j E|t_j|^2: noises are independent."""
        above, below = self._beyond(values)
        size = np.abs(values)
        magnitudes = size + self.scale * np.exp(-size / self.scale) - self.scale * (above + below)
        cross = magnitudes.sum(axis=1) ** 2 - np.square(magnitudes).sum(axis=1)
        return self.squared_norm(values) + float(cross.mean())

    def _beyond(self, values: NDArray[Any]) -> tuple[Floats, Floats]:
        """P(z > limit) and P(z < -limit), float64[N, size] each."""
        above = np.exp((values - self.limit) / self.scale) / 2
        below = np.exp((-values - self.limit) / self.scale) / 2
        return above, below

    def log_likelihood(self, reports: Reports, values: NDArray[Any]) -> Floats:
        distance = np.abs(reports - values).sum(axis=1)
        return np.asarray(-distance / self.scale - self.size * np.log(2 * self.scale))
