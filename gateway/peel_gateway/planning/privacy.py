# SPDX-License-Identifier: MIT
"""What the reports of one device give away together."""

from __future__ import annotations

import math

__all__ = ["BEST_EPSILON", "composed_epsilon"]

BEST_EPSILON = 2.18
"""The epsilon per report that makes most of a budget per day.

For means, n reports of epsilon each are worth n tanh(epsilon/2)^2; with n epsilon fixed that is largest where
tanh(epsilon/2)^2 / epsilon is.
"""


def composed_epsilon(epsilon: float, count: int, delta: float) -> float:
    """The epsilon' for which `count` reports of epsilon each are together (epsilon', delta)-private.

    ::

        min(n eps, n eps (e^eps - 1)/(e^eps + 1) + eps sqrt(2 n ln(1/delta)))

    Kairouz, Oh, Viswanath, The composition theorem for differential privacy, 2015, theorem 3.4.
    """
    drift = count * epsilon * math.tanh(epsilon / 2)
    return min(count * epsilon, drift + epsilon * math.sqrt(2 * count * math.log(1 / delta)))
