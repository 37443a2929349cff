# SPDX-License-Identifier: MIT
"""Odds: the two integers of a coin, chosen from epsilon by exact comparisons (SPEC section 5)."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import NamedTuple

from peel_core.fields import ProfileError
from peel_core.primitives import MAX_WIDTH

__all__ = ["EPSILON_MAX", "EPSILON_ONE", "MAX_ODDS", "Odds", "odds_of", "variance_cost"]

EPSILON_ONE = 2**20
"""Epsilon is in units of 2^-20."""
EPSILON_MAX = 6 * EPSILON_ONE
MAX_ODDS = 255
_SCALE = 2**200


class Odds(NamedTuple):
    """A coin that keeps an answer in ``keep`` of ``total`` draws, and turns it into each other answer in ``change`` of them."""

    keep: int
    change: int
    outcomes: int
    """The number of possible answers."""

    @property
    def total(self) -> int:
        """The number of equally probable draws, K."""
        return self.keep + (self.outcomes - 1) * self.change

    @property
    def true_share(self) -> float:
        """The share of answers that are true; all others are uniformly random."""
        return (self.keep - self.change) / self.total

    @property
    def likeliest(self) -> float:
        """The probability of the most probable outcome."""
        return self.keep / self.total

    @property
    def cap(self) -> float:
        """The distance that one forged report can move an estimate, in honest reports: about (e^eps + outcomes - 1) / (e^eps - 1)."""
        return self.total / (self.keep - self.change)

    @property
    def variance(self) -> float:
        """The variance of a rare answer's share, times the number of reports."""
        return self.change * (self.total - self.change) / (self.keep - self.change) ** 2

    @property
    def epsilon(self) -> float:
        """The epsilon that one report costs: ln(keep / change)."""
        return math.log(self.keep / self.change)

    @property
    def rule(self) -> int:
        """The four bytes of a frame that state these odds, as an integer."""
        return self.keep | self.change << 8

    def __str__(self) -> str:
        return f"{self.keep}:{self.change}"


def odds_of(epsilon_q20: int, outcomes: int, most: int | None = None) -> Odds:
    """Return the odds of an epsilon for a coin with so many outcomes; ``most`` bounds their total.

    Raises
    ------
    ProfileError
        No odds fit. The message names the nearest epsilon that has odds.
    """
    if not 2 <= outcomes <= MAX_WIDTH:
        raise ValueError(f"a coin has 2 to {MAX_WIDTH} outcomes, got {outcomes}")
    found = _smallest(epsilon_q20, outcomes, most)
    if found is None:
        raise ProfileError("epsilon", _refusal(epsilon_q20, outcomes, most))
    return found


def variance_cost(odds: Odds, epsilon_q20: int) -> float:
    """Return how much more variance the odds have than a coin with exactly this epsilon: 0.03 is 3% more."""
    power, others = math.exp(epsilon_q20 / EPSILON_ONE), odds.outcomes - 2
    return odds.variance * (power - 1) ** 2 / (power + others) - 1


@lru_cache(4096)
def _smallest(epsilon_q20: int, outcomes: int, most: int | None) -> Odds | None:
    """Return the fitting odds with the smallest total, and of these the ones with the largest ``keep``."""
    if not 1 <= epsilon_q20 <= EPSILON_MAX:
        return None
    bounds = _exp_bounds(epsilon_q20)
    best: Odds | None = None
    for change in range(1, MAX_ODDS):
        limit = best.total - 1 if best else most
        # A smaller total with a larger change has a smaller keep, so the first of several with one total has the largest.
        highest = MAX_ODDS if limit is None else min(MAX_ODDS, limit - (outcomes - 1) * change)
        if highest <= change:
            break
        keep = _least_keep(change, min(highest, _private_limit(change, bounds)), outcomes, bounds)
        if keep is not None:
            best = Odds(keep, change, outcomes)
    return best


def _exp_bounds(epsilon_q20: int) -> tuple[int, int]:
    """Return integers below and above 2^200 e^(epsilon)."""
    with localcontext(prec=100):
        rounded_down = int((Decimal(epsilon_q20) / EPSILON_ONE).exp() * _SCALE)
    return rounded_down - 1, rounded_down + 2


def _private_limit(change: int, bounds: tuple[int, int]) -> int:
    """Return the largest integer that is at most ``change`` e^epsilon."""
    below, above = (change * bound // _SCALE for bound in bounds)
    if below != above:
        raise ArithmeticError(f"{change} e^epsilon is too close to an integer")
    return below


def _least_keep(change: int, highest: int, outcomes: int, bounds: tuple[int, int]) -> int | None:
    """Return the smallest precise ``keep`` up to ``highest``: the variance falls as ``keep`` rises."""
    if highest <= change or not _is_precise(highest, change, outcomes, bounds):
        return None
    low, high = change, highest  # low is not precise, high is
    while high - low > 1:
        middle = (low + high) // 2
        if _is_precise(middle, change, outcomes, bounds):
            high = middle
        else:
            low = middle
    return high


def _is_precise(keep: int, change: int, outcomes: int, bounds: tuple[int, int]) -> bool:
    """Return whether the variance is at most 5% (two outcomes) or 10% above that of epsilon itself."""
    below, above = bounds
    left = 20 * change * (keep + (outcomes - 2) * change)
    right = (21 if outcomes == 2 else 22) * (keep - change) ** 2 * _SCALE
    holds = left * (above - _SCALE) ** 2 <= right * (below + (outcomes - 2) * _SCALE)
    if holds != (left * (below - _SCALE) ** 2 <= right * (above + (outcomes - 2) * _SCALE)):
        raise ArithmeticError(f"the variance of the odds {keep}:{change} is too close to the limit")
    return holds


def _refusal(epsilon_q20: int, outcomes: int, most: int | None) -> str:
    given = f"{epsilon_q20 / EPSILON_ONE:.6g} has no odds keep:change up to {MAX_ODDS} for {outcomes} outcomes"
    given += f" with a total of at most {most}, which verified coins need" if most is not None else ""
    nearest = _nearest(epsilon_q20, outcomes, most)
    given += f"; use {nearest}, the nearest that has" if nearest else "; no other epsilon has any"
    return given + (", or verify = false" if most is not None else "")


def _nearest(epsilon_q20: int, outcomes: int, most: int | None) -> str | None:
    """Return the nearest epsilon that has odds, in hundredths."""
    hundredths = sorted(range(1, 601), key=lambda each: abs(each * EPSILON_ONE - 100 * epsilon_q20))
    for each in hundredths:
        if _smallest(each * EPSILON_ONE // 100, outcomes, most) is not None:
            return f"{each / 100:g}"
    return None
