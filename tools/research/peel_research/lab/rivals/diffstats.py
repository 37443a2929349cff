# SPDX-License-Identifier: MIT
"""Diffstats: in a set of categories, crafted reports have a number of supports that honest ones seldom have (Li et al. 2025)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from statistics import NormalDist

import numpy as np

from peel_research.lab.rivals.base import Bools, Floats, Ints, SetHunter

__all__ = ["Diffstats", "expected_counts"]


@dataclass(frozen=True)
class Diffstats(SetHunter):
    """Grow the set of categories within which the number of supports per report differs most from what honest reports have, and flag the
    reports whose number is too frequent there."""

    most: int = 12
    """Largest set that is tried."""
    false_alarm: float = 0.01
    """Probability that honest devices alone make any number in any set that is tried look too frequent."""
    name: str = "Diffstats"
    source: str = "Li, Li, Wang, Sun: Mitigating Data Poisoning Attacks to Local Differential Privacy, ACM CCS 2025 (arXiv 2506.02156)"
    assumes: str = ""
    departs: str = (
        "judges the first round, as users report once there; counts supports within a set of categories that is grown greedily among the "
        "most supported ones, by the clearest excess in standard deviations, where its published program counts those of the whole report, "
        "takes the numbers that come too often for a binomial law, and of the reports that have one drops those that support any of up to "
        "six categories, whichever fit best by chi-square; a threshold from the number of sets tried (Bonferroni) instead of none; for kRR "
        "its paper recognises that there is an attack, not by whom, so that it does not apply here"
    )

    def _abnormal(self, bits: Bools, p: float, q: float) -> Bools:
        """Reports with a number of supports that too many have, in the set where that is clearest; bool[reports]."""
        candidates = np.argsort(-bits.sum(axis=0))[: 3 * self.most].tolist()
        limit = self._significance(len(candidates))
        clearest, chosen = max((_excess(bits[:, pair].sum(axis=1), 2, p, q).max(), pair) for pair in _pairs(candidates))
        numbers = bits[:, chosen].sum(axis=1)
        best, flags = 0.0, np.zeros(len(bits), np.bool_)
        for size in range(2, self.most + 1):
            if clearest > best:
                best, flags = clearest, _too_frequent(numbers, size, p, q, limit)
            candidates = [each for each in candidates if each not in chosen]
            if not candidates:
                break
            clearest, category = max(
                (_excess(numbers + bits[:, each], size + 1, p, q).max(), each) for each in candidates
            )
            chosen = [category]
            numbers = numbers + bits[:, category]
        return flags

    def _significance(self, candidates: int) -> float:
        """Standard deviations by which a number of supports must be too frequent, with so many candidates to choose from."""
        grown = range(3, min(self.most, candidates) + 1)
        tried = 3 * comb(candidates, 2) + sum((size + 1) * (candidates - size + 1) for size in grown)
        return NormalDist().inv_cdf(1 - self.false_alarm / tried)


def _too_frequent(numbers: Ints, size: int, p: float, q: float, limit: float) -> Bools:
    """Reports whose number is too frequent by far, where most that have it are not honest."""
    observed = np.bincount(numbers, minlength=size + 1)
    wrong = (_excess(numbers, size, p, q) > limit) & (observed > 2 * expected_counts(observed, p, q))
    return np.asarray(wrong[numbers])


def _pairs(categories: list[int]) -> Iterator[list[int]]:
    return (list(pair) for pair in combinations(categories, 2))


def _excess(numbers: Ints, size: int, p: float, q: float) -> Floats:
    """By how many standard deviations each number of supports is too frequent: float64[size + 1]."""
    observed = np.bincount(numbers, minlength=size + 1)
    expected = expected_counts(observed, p, q)
    return np.asarray((observed - expected) / np.sqrt(expected + 1))


def expected_counts(observed: Ints, p: float, q: float) -> Floats:
    """Return the expected histogram of supports in a set for honest reports, float64[size + 1].

    A report whose category is outside supports Bin(size, q) members. One whose category is inside supports a coin with p, and
    Bin(size - 1, q) others. The share inside is unknown and fitted by least squares.
    """
    size, reports = len(observed) - 1, int(observed.sum())
    outside = reports * _binomial(size, q)
    others = _binomial(size - 1, q)
    inside = reports * (p * np.append(0.0, others) + (1 - p) * np.append(others, 0.0))
    direction = inside - outside
    share = float(direction @ (observed - outside)) / max(float(direction @ direction), 1e-12)
    return np.asarray(outside + min(max(share, 0.0), 1.0) * direction)


def _binomial(count: int, probability: float) -> Floats:
    return np.array([comb(count, k) * probability**k * (1 - probability) ** (count - k) for k in range(count + 1)])
