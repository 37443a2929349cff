# SPDX-License-Identifier: MIT
"""Intervals of probabilities."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Z95", "wilson"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

Z95 = 1.959963984540054
"""Two-sided 95% point of the normal distribution."""


def wilson(successes: Ints, trials: Ints) -> tuple[Floats, Floats]:
    """95% interval of a mean probability (Wilson 1927); NaN where there are no trials.

    Trials need not be alike: given the readings they are independent with different chances, and their sum then varies no more than a
    binomial one with the mean chance (Hoeffding 1956), so the interval is, if anything, too wide.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        share = successes / trials
        square = Z95**2 / trials
        centre = (share + square / 2) / (1 + square)
        half = Z95 / (1 + square) * np.sqrt(share * (1 - share) / trials + square / (4 * trials))
    return centre - half, centre + half
