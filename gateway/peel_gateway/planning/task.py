# SPDX-License-Identifier: MIT
"""A task of a planned fleet (what it measures, how often its devices report, epsilon), with formulas for accuracy and privacy.

::

    half-width of a 95% interval, as a part of the range  =  1.96 spread / sqrt(reports)        `Subject.spread`

This is the worst case over possible readings, for honest reports with equal weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

from peel_core import Profile, choice
from peel_core.fields import MICRO
from peel_core.kinds import HASHED, KINDS, SIGN, Attribute, Question, kind_for_categories
from peel_core.odds import EPSILON_ONE
from peel_gateway.mechanisms.intervals import Z95

__all__ = [
    "BEST_EPSILON",
    "DAY",
    "Subject",
    "Task",
    "composed_epsilon",
    "half_width",
    "half_widths",
    "reports_for",
    "seconds_for",
]

DAY = 86_400


@dataclass(frozen=True)
class Subject:
    """The measured quantities: the attributes of a profile. The statistic with the widest interval decides."""

    attributes: tuple[Attribute, ...]

    @classmethod
    def of(cls, profile: Profile) -> Subject:
        """Return the subject of a profile."""
        return cls(profile.attributes)

    @classmethod
    def categories(cls, count: int, epsilon: float) -> Subject:
        """Return a subject of one attribute with so many categories, of the better kind."""
        kind = kind_for_categories(count, _q20(epsilon))
        names = tuple(f"c{place + 1}" for place in range(count)) if kind == "category" else ()
        return cls((Attribute("attribute_1", kind, domain=count, categories=names),))

    @classmethod
    def means(cls, count: int) -> Subject:
        """Return a subject of so many means."""
        names = (f"attribute_{place + 1}" for place in range(count))
        return cls(tuple(Attribute(name, "mean", high_micro=MICRO) for name in names))

    def questions(self, epsilon: float) -> list[Question]:
        """Return the questions that reports answer at this epsilon."""
        return list(_questions(self.attributes, _q20(epsilon)))

    @cached_property
    def slots(self) -> int:
        """The number of slots that numbers assign: each question has as many as its weight."""
        return sum(question.weight for question in self.questions(1.0))

    @property
    def signs(self) -> bool:
        """Whether all answers are signs, so that no attribute has categories."""
        return all(KINDS[attribute.kind].numeric for attribute in self.attributes)

    def share(self, question: Question) -> float:
        """Return the share of reports that answer a question."""
        return question.weight / self.slots

    def symbols(self, epsilon: float) -> int:
        """Return the number of columns that honest codewords have."""
        return sum(question.symbols for question in self.questions(epsilon))

    def cap(self, epsilon: float) -> float:
        """Return the greatest influence of one forged report on the statistics of its question, in honest reports."""
        return max(cost.cap for _, cost in self._costs(epsilon))

    def spread(self, epsilon: float) -> float:
        """Return the worst-case standard deviation of an estimate, as a part of its range, times the root of the number of reports."""
        return max(self.spreads(epsilon))

    def spreads(self, epsilon: float) -> list[float]:
        """Return the spread of each attribute: that of its question with the widest interval."""
        widest = [0.0] * len(self.attributes)
        for question, cost in self._costs(epsilon):
            spread = math.sqrt(cost.variance / self.share(question))
            widest[question.attribute] = max(widest[question.attribute], spread)
        return widest

    def worst(self, epsilon: float) -> Attribute:
        """Return the first attribute with the widest intervals."""
        spreads = self.spreads(epsilon)
        return self.attributes[spreads.index(max(spreads))]

    def _costs(self, epsilon: float) -> list[tuple[Question, choice.Cost]]:
        return [(question, _cost(question, _q20(epsilon))) for question in self.questions(epsilon)]


def _cost(question: Question, epsilon_q20: int) -> choice.Cost:
    """Return the cost of a question that every report answers. The sign about a threshold costs as much as that of a mean."""
    if question.form == SIGN:
        return choice.harmony_cost(epsilon_q20, 1)
    return (
        choice.hashing_cost(epsilon_q20) if question.form == HASHED else choice.krr_cost(epsilon_q20, question.symbols)
    )


@lru_cache(maxsize=64)
def _questions(attributes: tuple[Attribute, ...], epsilon_q20: int) -> tuple[Question, ...]:
    return tuple(
        question
        for place, attribute in enumerate(attributes)
        for question in KINDS[attribute.kind].questions(attribute, place, epsilon_q20)
    )


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
    """Return the half-width of the widest 95% interval after a time, as a part of the range, at most 1."""
    return max(half_widths(task, seconds))


def half_widths(task: Task, seconds: float) -> list[float]:
    """Return the half-width of each attribute's 95% intervals after a time, as a part of the range, at most 1."""
    reports = task.reports_per_second * seconds
    return [min(1.0, Z95 * spread / math.sqrt(reports)) for spread in task.subject.spreads(task.epsilon)]


def reports_for(subject: Subject, epsilon: float, half: float) -> int:
    """Return the number of reports of the whole fleet for an interval of this half-width."""
    return math.ceil((Z95 * subject.spread(epsilon) / half) ** 2)


def seconds_for(task: Task, half: float) -> float:
    """Return the time in which the fleet sends the reports for an interval of this half-width."""
    return reports_for(task.subject, task.epsilon, half) / task.reports_per_second


BEST_EPSILON = 2.2
"""The best epsilon per report for a budget per day.

For means, n reports of epsilon each are worth n tanh(epsilon/2)^2. With n epsilon fixed, that is largest where
tanh(epsilon/2)^2 / epsilon is: at 2.18. Epsilon 2.2 has the odds 9:1, which are nearly exact.
"""


def composed_epsilon(epsilon: float, count: int, delta: float) -> float:
    """Return the epsilon' for which `count` reports of epsilon each are together (epsilon', delta)-private.

    ::

        min(n eps, n eps (e^eps - 1)/(e^eps + 1) + eps sqrt(2 n ln(1/delta)))

    Kairouz, Oh, Viswanath, The composition theorem for differential privacy, 2015, theorem 3.4.
    """
    drift = count * epsilon * math.tanh(epsilon / 2)
    return min(count * epsilon, drift + epsilon * math.sqrt(2 * count * math.log(1 / delta)))
