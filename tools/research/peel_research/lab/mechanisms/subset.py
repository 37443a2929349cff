# SPDX-License-Identifier: MIT
"""A subset of the categories in which the true one is more often than chance (Wang et al. 2016; Ye and Barg 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peel_research.lab.mechanisms.base import Indicators, Reports
from peel_research.lab.mechanisms.sampling import Floats

__all__ = ["SingleSubset", "Subset"]


@dataclass(frozen=True)
class Subset(Indicators):
    """`members` of the categories. A report is bool[N, size]."""

    name = "subset"

    members: int | None = None
    """The number of categories in a report; None for the best number, size / (e^eps + 1), at least 2."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.count < self.size:
            raise ValueError(
                f"{self.name}: of a size of {self.size}, a subset has 1 to {self.size - 1} members, not {self.count}"
            )

    @classmethod
    def least_size(cls) -> int:
        return 3

    @property
    def count(self) -> int:
        """The number of categories in a report."""
        return max(2, round(self.size / (exp(self.epsilon) + 1))) if self.members is None else self.members

    @property
    def own(self) -> float:
        favour = self.count * exp(self.epsilon)
        return favour / (favour + self.size - self.count)

    @property
    def other(self) -> float:
        return (self.count - self.own) / (self.size - 1)

    @property
    def bound(self) -> float:
        return float(self.count)

    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        rows = np.arange(len(values))
        rank = rng.random((len(values), self.size))
        rank[rows, values] = np.where(rng.random(len(values)) < self.own, -1.0, 2.0)
        chosen = np.argpartition(rank, self.count - 1, axis=1)[:, : self.count]
        reports = np.zeros(rank.shape, bool)
        reports[rows[:, None], chosen] = True
        return reports

    def statistic(self, reports: Reports) -> Floats:
        return reports.astype(np.float64)

    def squared_norm(self, values: NDArray[Any]) -> float:
        return float(self.count)

    def squared_sum(self, values: NDArray[Any]) -> float:
        return float(self.count**2)

    def log_likelihood(self, reports: Reports, values: NDArray[Any]) -> Floats:
        holds = reports[np.arange(len(values)), values]
        inside = self.own / comb(self.size - 1, self.count - 1)
        outside = (1 - self.own) / comb(self.size - 1, self.count)
        return np.log(np.where(holds, inside, outside))

    def outputs(self) -> Reports:
        subsets = np.array(list(combinations(range(self.size), self.count)))
        reports = np.zeros((len(subsets), self.size), bool)
        np.put_along_axis(reports, subsets, True, axis=1)
        return reports


@dataclass(frozen=True)
class SingleSubset(Subset):
    """A subset of one category: kRR in another guise, 1-sparse as it is."""

    name = "subset-1"
    natural = True

    members: int | None = 1
