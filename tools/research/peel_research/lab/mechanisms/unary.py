# SPDX-License-Identifier: MIT
"""A noisy bit per category: unary encoding, symmetric and optimised (Wang et al. 2017), and basic RAPPOR (Erlingsson et al. 2014).

The statistic is the bit minus a half: all its magnitudes are the same, so a 1-sparse report tells one bit of a category that is drawn
evenly, and no report is wasted on the constant magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peel_research.lab.mechanisms.base import Indicators, Reports
from peel_research.lab.mechanisms.sampling import Floats

__all__ = ["Oue", "Rappor", "Sue"]


class _Bits(Indicators):
    """A report is bool[N, size]: 1 with probability `own` at the true category, `other` elsewhere, all independent."""

    @property
    def bound(self) -> float:
        return self.size / 2

    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        true = values[:, None] == np.arange(self.size)
        return np.asarray(rng.random(true.shape) < np.where(true, self.own, self.other))

    def statistic(self, reports: Reports) -> Floats:
        return reports - 0.5

    def decode(self, mean: Floats) -> Floats:
        return super().decode(mean + 0.5)

    def squared_norm(self, values: NDArray[Any]) -> float:
        return self.size / 4

    def squared_sum(self, values: NDArray[Any]) -> float:
        return self.size**2 / 4

    def log_likelihood(self, reports: Reports, values: NDArray[Any]) -> Floats:
        ones = np.where(values[:, None] == np.arange(self.size), self.own, self.other)
        return np.asarray(np.log(np.where(reports, ones, 1 - ones)).sum(axis=1))

    def outputs(self) -> Reports:
        return np.array(list(product([False, True], repeat=self.size)))


class Sue(_Bits):
    """Symmetric: ones and zeros are kept equally often."""

    name = "sue"

    @property
    def own(self) -> float:
        return 1 / (1 + exp(-self.epsilon / 2))

    @property
    def other(self) -> float:
        return 1 - self.own


class Oue(_Bits):
    """Optimised: the one is kept half of the time, so that the many zeros can be kept more often."""

    name = "oue"

    @property
    def own(self) -> float:
        return 0.5

    @property
    def other(self) -> float:
        return 1 / (1 + exp(self.epsilon))


@dataclass(frozen=True)
class Rappor(_Bits):
    """Basic RAPPOR: bits that are randomised once and for all, and once more in every report.

    `epsilon` is what all reports of one category together spend, through the permanent bits; one report spends `report_epsilon`.
    """

    name = "rappor"

    one: float = 0.75
    """The probability that a permanent 1 is reported as 1 (q in the paper)."""
    zero: float = 0.5
    """The probability that a permanent 0 is reported as 1 (p)."""

    @property
    def flip(self) -> float:
        """f / 2 of the paper: how often a permanent bit is not the true one; the permanent bits are symmetric unary encoding."""
        return 1 / (1 + exp(self.epsilon / 2))

    @property
    def own(self) -> float:
        return self.one - self.flip * (self.one - self.zero)

    @property
    def other(self) -> float:
        return self.zero + self.flip * (self.one - self.zero)

    @property
    def report_epsilon(self) -> float:
        return log(self.own * (1 - self.other) / (self.other * (1 - self.own)))

    def permanent(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """The bits that a device makes once for a category and keeps, bool[N, size]."""
        return Sue(self.epsilon, self.size).perturb(values, rng)

    def instantaneous(self, permanent: Reports, rng: np.random.Generator) -> Reports:
        """A report from kept bits, bool[N, size]."""
        return np.asarray(rng.random(permanent.shape) < np.where(permanent, self.one, self.zero))

    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        return self.instantaneous(self.permanent(values, rng), rng)
