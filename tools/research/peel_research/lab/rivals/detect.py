# SPDX-License-Identifier: MIT
"""DETECT: fake devices support the same categories together more often than chance allows (Cao, Jia, Gong 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, lgamma, log

import numpy as np

from peel_research.lab.rivals.base import Bools, SetHunter

__all__ = ["Detect", "threshold"]


@dataclass(frozen=True)
class Detect(SetHunter):
    """Flag the devices that support the set of categories that far too many support at once."""

    false_alarm: float = 0.01
    """Probability that honest devices alone make any set look abnormal."""
    name: str = "DETECT"
    source: str = "Cao, Jia, Gong: Data Poisoning Attacks to Local Differential Privacy Protocols, USENIX Security 2021, section 7"
    assumes: str = ""
    departs: str = (
        "judges the first round, as users report once there; sets are grown greedily from the most abnormal pair instead of mined "
        "exhaustively, and the most abnormal one counts instead of all that are; its threshold comes from Chernoff's bound and a union "
        "over all sets of a size, where the program that Li et al. 2025 publish of it bounds each set alone, by Chebyshev's, and looks at "
        "sets of 4 to 12 categories only"
    )

    def _abnormal(self, bits: Bools, p: float, q: float) -> Bools:
        """Return the reports that support the set whose count exceeds its threshold by the largest factor; bool[reports]."""
        reports, categories = bits.shape
        inside = np.ones(reports, np.bool_)
        chosen: list[int] = []
        flags, worst = np.zeros(reports, np.bool_), 1.0
        for size in range(1, categories + 1):
            category = self._next(bits, inside, chosen)
            chosen.append(category)
            inside = inside & bits[:, category]
            factor = inside.sum() / threshold(reports, categories, size, p, q, self.false_alarm)
            if size > 1 and factor >= worst:
                flags, worst = inside, factor
        return flags

    @staticmethod
    def _next(bits: Bools, inside: Bools, chosen: list[int]) -> int:
        """Return the category that the reports inside support most beyond its share. The first one belongs to the most correlated pair."""
        shares = bits.mean(axis=0)
        if chosen:
            excess = bits[inside].sum(axis=0) - shares * inside.sum()
        else:
            numbers = bits.astype(np.float32)
            together = numbers.T @ numbers / len(bits) - np.outer(shares, shares)
            np.fill_diagonal(together, -np.inf)
            excess = together.max(axis=1)
        excess[chosen] = -np.inf
        return int(excess.argmax())


def threshold(reports: int, categories: int, size: int, p: float, q: float, false_alarm: float) -> int:
    """Least count of reports that support a set of this size which honest ones reach, for any such set, with at most this probability.

    An honest report supports a given set with probability at most p q^(size-1): its own category and others, or q^size. By Chernoff's bound
    P[Bin(n, a) >= m] <= exp(-n KL(m/n, a)), summed over all sets.
    """
    rate = max(p * q ** (size - 1), q**size)
    sets = lgamma(categories + 1) - lgamma(size + 1) - lgamma(categories - size + 1)
    needed = (sets - log(false_alarm)) / reports
    low, high = rate, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _divergence(middle, rate) < needed else (low, middle)
    return ceil(high * reports)


def _divergence(a: float, b: float) -> float:
    """Of a coin with a from one with b, in nats."""
    first = a * log(a / b) if a > 0 else 0.0
    return first + ((1 - a) * log((1 - a) / (1 - b)) if a < 1 else 0.0)
