# SPDX-License-Identifier: MIT
"""A figure over several seeds: its mean and a 95% interval of that mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

__all__ = ["Spread"]

_STUDENT = (
    12.71,
    4.30,
    3.18,
    2.78,
    2.57,
    2.45,
    2.36,
    2.31,
    2.26,
    2.23,
    2.20,
    2.18,
    2.16,
    2.14,
    2.13,
    2.12,
    2.11,
    2.10,
    2.09,
)
"""Of Student's t with 1, 2, ... 19 degrees of freedom, 97.5%; 2.09 serves beyond."""


@dataclass(frozen=True)
class Spread:
    """The mean over seeds and where it may lie; one seed alone has no interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float], least: float = -inf, most: float = inf) -> Spread:
        """Of one value for each seed; the interval ends where no value can be."""
        mean, count = float(np.mean(values)), len(values)
        if count < 2:
            return cls(mean, mean, mean)
        half = _STUDENT[min(count - 1, len(_STUDENT)) - 1] * float(np.std(values, ddof=1)) / sqrt(count)
        return cls(mean, max(mean - half, least), min(mean + half, most))
