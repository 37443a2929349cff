# SPDX-License-Identifier: MIT
"""A sign for one attribute: what Harmony and Duchi's one bit have in common, and the latter."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peel_research.lab.mechanisms.base import Natural, Numeric, Reports
from peel_research.lab.mechanisms.sampling import Floats, Ints

__all__ = ["DuchiOneBit", "OneSign"]


class OneSign(Natural, Numeric):
    """P(+) = 1/2 (1 + x keep) for one attribute, all equally likely. A report is (attribute, sign), int64[N, 2]."""

    @property
    @abstractmethod
    def keep(self) -> float:
        """The share of tosses that the reading decides, at full scale: tanh(epsilon / 2)."""

    def entries(self, reports: Reports) -> tuple[Ints, Floats]:
        return reports[:, 0], reports[:, 1].astype(np.float64)

    def decode(self, mean: Floats) -> Floats:
        return mean * self.size / self.keep

    def variance(self, values: NDArray[Any]) -> float:
        """Each figure's report is 0, or size / keep either way with probability 1 / size."""
        return float(self.size / self.keep**2 - np.mean(np.square(values))) / len(values)

    def log_likelihood(self, reports: Reports, values: NDArray[Any]) -> Floats:
        told = values[np.arange(len(values)), reports[:, 0]]
        return np.asarray(np.log((1 + reports[:, 1] * told * self.keep) / (2 * self.size)))

    def outputs(self) -> Reports:
        return np.stack([np.tile(np.arange(self.size), 2), np.repeat([1, -1], self.size)], axis=1)


class DuchiOneBit(OneSign):
    """One bit of one attribute (Duchi, Jordan, Wainwright 2018), which the device draws; in floating point, unlike Harmony here."""

    name = "duchi-1"

    @property
    def keep(self) -> float:
        return float(np.tanh(self.epsilon / 2))

    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        attribute = rng.integers(self.size, size=len(values))
        told = np.clip(values[np.arange(len(values)), attribute], -1, 1)
        plus = rng.random(len(values)) < (1 + told * self.keep) / 2
        return np.stack([attribute, np.where(plus, 1, -1)], axis=1)
