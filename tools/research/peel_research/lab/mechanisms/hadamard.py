# SPDX-License-Identifier: MIT
"""Hadamard response (Acharya, Sun, Zhang 2019): one of the columns in which the category's row of a Hadamard matrix is plus."""

from __future__ import annotations

from math import tanh
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peel_research.lab.mechanisms.base import Categorical, Natural, Reports
from peel_research.lab.mechanisms.sampling import Floats, Ints

__all__ = ["HadamardResponse"]


class HadamardResponse(Natural, Categorical):
    """A column of Sylvester's matrix of `width` rows, of which categories have those behind the first. A report is int64[N].

    The column is one where the row is plus with probability e^eps / (1 + e^eps); any two rows agree in half of the columns.
    """

    name = "hadamard"

    @property
    def width(self) -> int:
        return 1 << self.size.bit_length()

    @property
    def keep(self) -> float:
        """By how much more often a report is plus than minus in the true row."""
        return tanh(self.epsilon / 2)

    def perturb(self, values: NDArray[Any], rng: np.random.Generator) -> Reports:
        row = np.asarray(values) + 1
        column = rng.integers(self.width, size=len(row))
        wanted = np.where(rng.random(len(row)) < (1 + self.keep) / 2, 1, -1)
        # a change in the row's lowest bit changes the sign, and pairs up the columns
        return np.asarray(np.where(_sign(row, column) == wanted, column, column ^ (row & -row)))

    def entries(self, reports: Reports) -> tuple[Ints, Floats]:
        return reports, np.ones(len(reports))

    def decode(self, mean: Floats) -> Floats:
        return np.asarray(_transformed(mean)[1 : self.size + 1] / self.keep)

    def variance(self, values: NDArray[Any]) -> float:
        """Of a sign each: 1 / keep^2, less 1 for the true category."""
        return (1 / self.keep**2 - 1 / self.size) / len(values)

    def log_likelihood(self, reports: Reports, values: NDArray[Any]) -> Floats:
        return np.asarray(np.log((1 + self.keep * _sign(np.asarray(values) + 1, reports)) / self.width))

    def outputs(self) -> Reports:
        return np.arange(self.width)


def _sign(row: Ints, column: Ints) -> Ints:
    """The matrix's entries: minus where row and column have an odd number of bits in common."""
    return 1 - 2 * np.asarray(np.bitwise_count(row & column) % 2, np.int64)


def _transformed(vector: Floats) -> Floats:
    """The matrix times a vector, in width log width steps."""
    out = vector.astype(np.float64)
    step = 1
    while step < len(out):
        pairs = out.reshape(-1, 2, step)
        out = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        step *= 2
    return out
