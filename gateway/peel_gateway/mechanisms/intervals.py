# SPDX-License-Identifier: MIT
"""95% intervals of a mean chance, from reports that may weigh differently.

A report speaks for a statistic (shows plus, names a category) with a chance p between `least` and `most`, which depends on its reading.
With weights w that depend on anything but what the reports said, the share S = sum w x / sum w of those that speak estimates
P = sum w p / sum w, and ::

    Var S = sum w^2 p (1 - p) / (sum w)^2  <=  Q (1 - Q) / E        E = (sum w)^2 / sum w^2       (the effective number)
                                                                    Q = sum w^2 p / sum w^2       (Jensen: p (1 - p) is concave)

With equal weights Q = P and E is the number of reports, so Wilson's interval (1927) for P holds; given the readings it is if anything
too wide (Hoeffding 1956). Otherwise Q is P + D, and D is estimated by the *lean*, sum w^2 x / sum w^2, minus S: the interval is
Wilson's for Q, moved by D. D is only known to within sqrt(doubt) of its own,

    doubt = sum (w^2 / sum w^2 - w / sum w)^2      so that      Var(lean - S) <= max p (1 - p) doubt,

and of all D within 1.96 of its deviations the one with the largest variance is taken. Both ends are taken half a step further out
(a continuity correction; a step is what the heaviest report moves S by): with equal weights the coverage is then nowhere below 94.5%,
and that only for a single report.

The difference of two mean chances has the interval of Newcombe (1998, method 10): each end is as far from the difference as the root of the
sum of squares of the two distances from an estimate to its bound. It needs intervals that do not know what is possible. With intervals cut
off at a bound it covers less than 80% where one chance lies at the least and the other at the most. Both ends are taken half a step of all
reports together, 1 / 2(E_1 + E_2), further out. The coverage is then above 95% with equal weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Z95", "Weighing", "chance_interval", "difference_interval", "wilson"]

Floats = npt.NDArray[np.float64]

Z95 = 1.959963984540054
"""Two-sided 95% point of the normal distribution."""


class Weighing(NamedTuple):
    """The weights of reports in statistics, float64[statistics] each (or one value for all)."""

    total: Floats
    """Sum of the weights; 0 where there is no report."""
    effective: Floats
    """The effective number: this many reports of equal weight would be as precise."""
    doubt: Floats
    """0 where all weigh the same; see above."""
    step: Floats
    """The change of a share that the heaviest report can cause."""


def wilson(share: Floats, trials: Floats) -> tuple[Floats, Floats]:
    """Wilson's interval around a share of trials; NaN where there are none."""
    with np.errstate(invalid="ignore", divide="ignore"):
        square = Z95**2 / trials
        centre = (share + square / 2) / (1 + square)
        half = Z95 / (1 + square) * np.sqrt(share * (1 - share) / trials + square / (4 * trials))
    return centre - half, centre + half


def chance_interval(
    share: Floats,
    lean: Floats,
    weighing: Weighing,
    chances: tuple[Floats | float, Floats | float],
    within: tuple[Floats | float, Floats | float],
) -> tuple[Floats, Floats]:
    """Interval of a mean chance that is known to lie `within` two bounds.

    A share beyond a bound is taken for the bound: nearer to every chance that is possible, so that coverage only grows, and no interval
    comes out empty.

    Parameters
    ----------
    share, lean : float64, shape (statistics,)
        The weighted shares above.
    chances : tuple of float, or of float64, shape (statistics,)
        What a single report's chance lies between.
    within : likewise
        The same, or (0, 1) for an interval that does not know it.
    """
    held = np.clip(share, *within)
    widest = np.clip(0.5, *chances)
    reach = Z95 * np.sqrt(widest * (1 - widest) * weighing.doubt)
    middle = held + lean - share
    spread = np.clip(np.clip(widest, middle - reach, middle + reach), *within)
    low, _ = wilson(np.maximum(spread - weighing.step / 2, 0), weighing.effective)
    _, high = wilson(np.minimum(spread + weighing.step / 2, 1), weighing.effective)
    return held + np.minimum(low - spread, 0), held + np.maximum(high - spread, 0)  # rounding must not put it outside


Triple = tuple[Floats, Floats, Floats]
"""Estimates, and the lower and upper ends of their intervals."""


def difference_interval(before: Triple, after: Triple, half_step: Floats) -> tuple[Floats, Floats]:
    """Return the interval of `after - before`, from intervals of both that do not know what is possible."""
    (first, first_low, first_high), (second, second_low, second_high) = before, after
    low = second - first - np.hypot(second - second_low, first_high - first) - half_step
    high = second - first + np.hypot(second_high - second, first - first_low) + half_step
    return low, high
