# SPDX-License-Identifier: MIT
"""The costs of the mechanisms at an epsilon and a number of attributes or categories.

Harmony: a mean over [-1, 1] from n / k signs, scaled up by c, has the variance k c^2 / n at most (at the middle of the range), and the
range is 2 long. Its cap is c.

Categories: with the odds ``keep : change`` over f symbols and ``K = keep + (f - 1) change``::

    kRR       f = k   variance change (K - change) / (keep - change)^2      cap K / (keep - change)
    hashing   f = g   variance K^2 / ((g - 1) (keep - change)^2)            cap K / (keep - change)

The variance is that of a rare category's share, times the number of reports (Wang et al. 2017). The cap is how far one forged
report can move a share, in honest reports: about (e^eps + f - 1) / (e^eps - 1). kRR has the lower variance for few categories,
and a cap that grows with their number.
"""

from __future__ import annotations

from dataclasses import dataclass

from peel_core import hash_family
from peel_core.odds import odds_of
from peel_core.primitives import MAX_WIDTH

__all__ = ["Cost", "harmony_cost", "hashing_cost", "hashing_is_better", "krr_cost"]


@dataclass(frozen=True)
class Cost:
    """The costs of a mechanism."""

    variance: float
    """The variance of a mean, as a part of its range, or of a rare category's share; times the number of all reports."""
    cap: float
    """The distance that one forged report can move an estimate, in honest reports."""


def harmony_cost(epsilon_q20: int, attributes: int) -> Cost:
    """Return the costs of Harmony over this many attributes."""
    cap = odds_of(epsilon_q20, 2).cap
    return Cost(attributes * cap**2 / 4, cap)


def krr_cost(epsilon_q20: int, categories: int) -> Cost:
    """Return the costs of kRR over this many categories."""
    odds = odds_of(epsilon_q20, categories)
    return Cost(odds.variance, odds.cap)


def hashing_cost(epsilon_q20: int) -> Cost:
    """Return the costs of local hashing, which do not depend on the number of categories."""
    symbols = hash_family.symbols(epsilon_q20)
    cap = odds_of(epsilon_q20, symbols).cap
    return Cost(cap**2 / (symbols - 1), cap)


def hashing_is_better(epsilon_q20: int, categories: int) -> bool:
    """Whether local hashing has the lower variance; it then has the lower cap too."""
    return categories > MAX_WIDTH or hashing_cost(epsilon_q20).variance < krr_cost(epsilon_q20, categories).variance
