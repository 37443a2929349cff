# SPDX-License-Identifier: MIT
"""A task of a planned fleet (what it measures, how often its devices report, epsilon), with formulas for accuracy and privacy.

::

    half-width of a 95% interval, as a part of the range  =  1.96 spread / sqrt(reports)        `Subject.spread`

This is the worst case over possible readings, for honest reports with equal weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from peel_core import Profile, choice, mechanisms
from peel_core.primitives import EPSILON_ONE
from peel_gateway.mechanisms.intervals import Z95

__all__ = ["BEST_EPSILON", "DAY", "Subject", "Task", "composed_epsilon", "half_width", "reports_for", "seconds_for"]

DAY = 86_400


@dataclass(frozen=True)
class Subject:
    """The measured quantity: means of `size` numeric attributes, or frequencies of `size` categories."""

    mechanism: str
    size: int

    @classmethod
    def of(cls, profile: Profile) -> Subject:
        """Return the subject of a profile."""
        return cls(profile.mechanism, profile.size)

    @classmethod
    def categories(cls, count: int, epsilon: float) -> Subject:
        """Return a subject of categories with the better mechanism: kRR or local hashing."""
        return cls(mechanisms.for_categories(count, _q20(epsilon)).name, count)

    @classmethod
    def attributes(cls, count: int) -> Subject:
        """Return a subject of numeric attributes."""
        return cls(mechanisms.for_attributes().name, count)

    @property
    def numeric(self) -> bool:
        return not mechanisms.by_name(self.mechanism).categorical

    @property
    def hashes(self) -> bool:
        """Whether categories are hashed: the influence of a forged report then does not grow with their number."""
        return mechanisms.by_name(self.mechanism).hashes

    def symbols(self, epsilon: float) -> int:
        """Return the number of indices that a codeword can have."""
        return mechanisms.by_name(self.mechanism).symbols(self.size, _q20(epsilon))

    def cap(self, epsilon: float) -> float:
        """Return the influence of one forged report, in honest reports."""
        return self._cost(epsilon).cap

    def spread(self, epsilon: float) -> float:
        """Return the worst-case standard deviation of an estimate, as a part of its range, times the root of the number of reports."""
        return math.sqrt(self._cost(epsilon).variance)

    def _cost(self, epsilon: float) -> choice.Cost:
        return mechanisms.by_name(self.mechanism).cost(self.size, _q20(epsilon))


@dataclass(frozen=True)
class Task:
    """A subject with the numbers that determine accuracy and privacy."""

    subject: Subject
    devices: int
    interval_s: float
    """Seconds between two reports of a device."""
    epsilon: float
    """Epsilon of one report."""

    @property
    def reports_per_day(self) -> float:
        """Reports of one device per day."""
        return DAY / self.interval_s

    @property
    def reports_per_second(self) -> float:
        """Reports of the whole fleet per second."""
        return self.devices / self.interval_s


def _q20(epsilon: float) -> int:
    return int(epsilon * EPSILON_ONE)


def half_width(task: Task, seconds: float) -> float:
    """Return the half-width of a 95% interval after a time, as a part of the range, at most 1."""
    reports = task.reports_per_second * seconds
    return min(1.0, Z95 * task.subject.spread(task.epsilon) / math.sqrt(reports))


def reports_for(subject: Subject, epsilon: float, half: float) -> int:
    """Return the number of reports of the whole fleet for an interval of this half-width."""
    return math.ceil((Z95 * subject.spread(epsilon) / half) ** 2)


def seconds_for(task: Task, half: float) -> float:
    """Return the time in which the fleet sends the reports for an interval of this half-width."""
    return reports_for(task.subject, task.epsilon, half) / task.reports_per_second


BEST_EPSILON = 2.18
"""The best epsilon per report for a budget per day.

For means, n reports of epsilon each are worth n tanh(epsilon/2)^2; with n epsilon fixed that is largest where
tanh(epsilon/2)^2 / epsilon is.
"""


def composed_epsilon(epsilon: float, count: int, delta: float) -> float:
    """Return the epsilon' for which `count` reports of epsilon each are together (epsilon', delta)-private.

    ::

        min(n eps, n eps (e^eps - 1)/(e^eps + 1) + eps sqrt(2 n ln(1/delta)))

    Kairouz, Oh, Viswanath, The composition theorem for differential privacy, 2015, theorem 3.4.
    """
    drift = count * epsilon * math.tanh(epsilon / 2)
    return min(count * epsilon, drift + epsilon * math.sqrt(2 * count * math.log(1 / delta)))
