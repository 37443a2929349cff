# SPDX-License-Identifier: MIT
"""The interface of the lab's mechanisms: a randomiser, the 1-sparse form of its reports, an unbiased estimate, variance and privacy.

With z a report and t(z) its *statistic*, a vector of `width` numbers, every estimate here is linear: ``decode(mean of t)``. A report is
1-sparse when t has one entry that is not zero. A dense one is made 1-sparse by sampling an entry in such a way that E[s | z] = t(z), so
that the estimate stays unbiased. `added_variance` is the error that this adds. See :mod:`peel_research.lab.mechanisms.sampling`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from peel_research.lab.mechanisms import sampling
from peel_research.lab.mechanisms.sampling import Floats, Ints, Sparse

__all__ = ["Categorical", "Indicators", "Mechanism", "Natural", "Numeric", "Reports"]

Reports = NDArray[Any]
"""Reports of devices, one row each, in a form that only the mechanism knows."""


@dataclass(frozen=True)
class Mechanism(ABC):
    """A locally private mechanism, for one report per row of values.

    Another budget, as a rule poisoner has it, is ``dataclasses.replace(mechanism, epsilon=...)``.
    """

    name: ClassVar[str]
    kind: ClassVar[Literal["numeric", "categorical"]]
    natural: ClassVar[bool] = False
    """The statistic of every report has one entry that is not zero."""

    epsilon: float
    """The budget: what one report spends, unless `report_epsilon` says otherwise."""
    size: int
    """The number of estimated attributes or categories."""

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise ValueError(f"{self.name}: epsilon must be above 0, not {self.epsilon}")
        if self.size < self.least_size():
            raise ValueError(f"{self.name}: needs a size of at least {self.least_size()}, not {self.size}")

    @classmethod
    @abstractmethod
    def least_size(cls) -> int:
        """The fewest attributes or categories that make sense."""

    @property
    def report_epsilon(self) -> float:
        """The epsilon of one report."""
        return self.epsilon

    @property
    def width(self) -> int:
        """The number of entries of the statistic."""
        return self.size

    @property
    def carried(self) -> int:
        """The number of entries that a frame must distinguish: all except those that the report number determines."""
        return self.width

    @abstractmethod
    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        """One report per row: of ``float[N, size]`` in [-1, 1] if numeric, of ``int[N]`` below size if categorical."""

    @abstractmethod
    def statistic(self, reports: Reports) -> Floats:
        """t(z), float64[N, width]."""

    @property
    @abstractmethod
    def bound(self) -> float:
        """The largest sum of magnitudes that a statistic can have: what a 1-sparse report of constant magnitude weighs."""

    @abstractmethod
    def decode(self, mean: Floats) -> Floats:
        """The estimate, float64[size], from the mean of statistics or of 1-sparse reports, float64[width]."""

    @abstractmethod
    def truth(self, values: NDArray[Any]) -> Floats:
        """Return the true means or shares, float64[size]."""

    @abstractmethod
    def variance(self, values: NDArray[Any]) -> float:
        """Expected squared error of an estimate from one report per row, without PEEL: the mean over the `size` figures."""

    def added_variance(self, values: NDArray[Any]) -> float:
        """Return the variance that 1-sparse reports of constant magnitude (`sparse`) add: the paper's Delta_n, per estimate."""
        return self._sampling_variance(values, self.bound**2)

    def added_variance_free(self, values: NDArray[Any]) -> float:
        """Return the variance that 1-sparse reports of variable magnitude (`sparse_free`) add: the paper's least Delta_n, per estimate."""
        return self._sampling_variance(values, self.squared_sum(values))

    def _sampling_variance(self, values: NDArray[Any], sparse_square: float) -> float:
        return self.gain**2 * (sparse_square - self.squared_norm(values)) / (len(values) * self.size)

    @property
    def gain(self) -> float:
        """By what `decode` multiplies each entry of the mean; of no use where nothing is sampled."""
        return 1.0

    @abstractmethod
    def squared_norm(self, values: NDArray[Any]) -> float:
        """E[sum of t_j^2], the mean over rows."""

    @abstractmethod
    def squared_sum(self, values: NDArray[Any]) -> float:
        """E[(sum of |t_j|)^2], the mean over rows."""

    def sparse(self, reports: Reports, rng: np.random.Generator) -> Sparse:
        """The 1-sparse form that fits a frame: an index and a sign, all of magnitude `bound`; E[s | z] = t(z)."""
        return sampling.constant(self.statistic(reports), self.bound, rng)

    def sparse_free(self, reports: Reports, rng: np.random.Generator) -> Sparse:
        """The 1-sparse form of the paper: the magnitude, the sum of all |t_j|, travels with the report; E[s | z] = t(z)."""
        return sampling.proportional(self.statistic(reports), rng)

    def estimate(self, reports: Reports) -> Floats:
        """The estimate without PEEL, float64[size]."""
        return self.decode(self.statistic(reports).mean(axis=0))

    def estimate_sparse(self, sparse: Sparse) -> Floats:
        """The estimate from 1-sparse reports, float64[size]."""
        return self.decode(sparse.mean(self.width))

    @abstractmethod
    def log_likelihood(self, reports: Reports, values: NDArray[Any]) -> Floats:
        """log P(report | value), or the logarithm of its density, float64[N]; epsilon bounds how much another value changes it."""

    def outputs(self) -> Reports:
        """Every report that there can be, for small sizes; NotImplementedError where they are a continuum."""
        raise NotImplementedError(f"{self.name} has a continuum of reports")


class Numeric(Mechanism):
    """Means of attributes in [-1, 1]."""

    kind = "numeric"

    @classmethod
    def least_size(cls) -> int:
        return 1

    def truth(self, values: NDArray[Any]) -> Floats:
        return np.asarray(values.mean(axis=0))


class Categorical(Mechanism):
    """Shares of categories."""

    kind = "categorical"

    @classmethod
    def least_size(cls) -> int:
        return 2

    def truth(self, values: NDArray[Any]) -> Floats:
        return np.bincount(values, minlength=self.size) / len(values)


class Indicators(Categorical):
    """Statistics with an entry per category that differs between two values: one more often (`own`) for the true category."""

    @property
    @abstractmethod
    def own(self) -> float:
        """The probability that the true category's indicator is 1."""

    @property
    @abstractmethod
    def other(self) -> float:
        """The probability that another category's indicator is 1."""

    @property
    def gain(self) -> float:
        return 1 / (self.own - self.other)

    def decode(self, mean: Floats) -> Floats:
        return (mean - self.other) * self.gain

    def variance(self, values: NDArray[Any]) -> float:
        """Each indicator's own (Wang et al. 2017, equation 3), the mean over categories."""
        own, other = self.own, self.other
        total = own * (1 - own) + (self.size - 1) * other * (1 - other)
        return self.gain**2 * total / (len(values) * self.size)


class Natural(Mechanism):
    """Reports that are 1-sparse as they are, of constant magnitude: nothing is sampled, nothing is added."""

    natural = True

    @abstractmethod
    def entries(self, reports: Reports) -> tuple[Ints, Floats]:
        """Return the non-zero entry of each statistic, int64[N], and its value, float64[N]."""

    @property
    def bound(self) -> float:
        return 1.0

    def squared_norm(self, values: NDArray[Any]) -> float:
        return self.bound**2

    def squared_sum(self, values: NDArray[Any]) -> float:
        return self.bound**2

    def added_variance(self, values: NDArray[Any]) -> float:
        return 0.0

    def added_variance_free(self, values: NDArray[Any]) -> float:
        return 0.0

    def statistic(self, reports: Reports) -> Floats:
        index, value = self.entries(reports)
        dense = np.zeros((len(index), self.width))
        dense[np.arange(len(index)), index] = value
        return dense

    def sparse(self, reports: Reports, rng: np.random.Generator) -> Sparse:
        return Sparse(*self.entries(reports))

    def sparse_free(self, reports: Reports, rng: np.random.Generator) -> Sparse:
        return Sparse(*self.entries(reports))

    def estimate(self, reports: Reports) -> Floats:
        return self.estimate_sparse(Sparse(*self.entries(reports)))
