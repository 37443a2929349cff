# SPDX-License-Identifier: MIT
"""From what somebody knows of a fleet to all of it.

Devices, interval and epsilon (of a report, or of a day) and the accuracy wanted within a time hang together by one equation
(`accuracy`): where accuracy is given, one of the others may be left open, and what else is missing gets a default.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from peel_core import Profile
from peel_gateway.planning.task import BEST_EPSILON, DAY, Subject, Task, half_width, reports_for

__all__ = ["Given", "PlanError", "Solved", "solve"]

DEVICES, INTERVAL, EPSILON = 100, 900.0, 1.0
"""Where nothing is said."""
LEAST_EPSILON, MOST_EPSILON = 1e-6, 16.0
"""As in profiles."""


class PlanError(Exception):
    """No fleet is like that; the message says why, and what to change."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """What is known; None is left open."""

    attributes: int | None = None
    categories: int | None = None
    subject: Subject | None = None
    """Of a profile, instead of one of the above."""
    devices: int | None = None
    interval_s: float | None = None
    epsilon: float | None = None
    epsilon_per_day: float | None = None
    accuracy: float | None = None
    """Half-width of a 95% interval, as a part of the range."""
    within_s: float = DAY

    def of_profile(self, profile: Profile) -> Given:
        """The same about a profile: what is not given is what it says."""
        no_budget = self.epsilon_per_day is None
        return replace(
            self,
            subject=Subject.of(profile),
            epsilon=profile.epsilon if self.epsilon is None and no_budget else self.epsilon,
            interval_s=profile.interval_s if self.interval_s is None and no_budget else self.interval_s,
        )


LIMITS: dict[str, tuple[float, float]] = {
    "attributes": (1, 1024),
    "categories": (2, 65_535),
    "devices": (1, 10**9),
    "interval_s": (0.001, 100 * 365 * DAY),
    "epsilon": (LEAST_EPSILON, MOST_EPSILON),
    "epsilon_per_day": (1e-6, 1e9),
    "accuracy": (1e-6, 1.0),
    "within_s": (1.0, 100 * 365 * DAY),
}
"""Least and most of what can be given, by the fields of `Given`."""


@dataclass(frozen=True)
class Solved:
    """A task, and which of its numbers follow from the others or are defaults."""

    task: Task
    found: tuple[str, ...]
    assumed: tuple[str, ...]


def solve(given: Given) -> Solved:
    """Complete what is given."""
    _check(given)
    missing = _missing(given)
    unknown = _unknown(given, missing)
    assumed = tuple(name for name in missing if name != unknown)
    task = _with_defaults(given)
    if unknown is not None and given.accuracy is not None:
        task = _SOLVERS[unknown](given, task, given.accuracy)
    found = () if unknown is None else (unknown,)
    derived = "epsilon" if given.epsilon_per_day is not None and "epsilon" not in found else None
    return Solved(task, (*found, *((derived,) if derived else ())), assumed)


def _check(given: Given) -> None:
    if sum(value is not None for value in (given.attributes, given.categories, given.subject)) > 1:
        raise PlanError("give attributes, categories or a profile, not two of them")
    if given.epsilon is not None and given.epsilon_per_day is not None and given.interval_s is not None:
        raise PlanError("epsilon per report, epsilon per day and interval follow from each other: give two of them")
    for name, (least, most) in LIMITS.items():
        value = getattr(given, name)
        if value is not None and not least <= value <= most:
            label = name.removesuffix("_s").replace("_", " ")
            raise PlanError(f"{label}: must be between {least:g} and {most:g}, not {value:g}")


def _missing(given: Given) -> list[str]:
    """What is not given and does not follow by itself."""
    missing = ["devices"] if given.devices is None else []
    budgets = sum(value is not None for value in (given.epsilon, given.epsilon_per_day, given.interval_s))
    if given.epsilon is None and given.epsilon_per_day is None:
        missing.append("epsilon")
    if given.interval_s is None and budgets < 2:
        missing.append("interval")
    return missing


def _unknown(given: Given, missing: list[str]) -> str | None:
    """What the accuracy decides: devices if they are open, or else the interval, or the epsilon."""
    if given.accuracy is None:
        return None
    order = ("devices", "epsilon", "interval") if given.interval_s is not None else ("devices", "interval", "epsilon")
    return next((name for name in order if name in missing), None)


def _with_defaults(given: Given) -> Task:
    epsilon, interval = given.epsilon, given.interval_s
    if given.epsilon_per_day is not None:
        if interval is not None:
            epsilon = given.epsilon_per_day * interval / DAY
        else:
            epsilon = BEST_EPSILON if epsilon is None else epsilon
            interval = epsilon * DAY / given.epsilon_per_day
    epsilon = EPSILON if epsilon is None else epsilon
    if not LEAST_EPSILON <= epsilon <= MOST_EPSILON:
        raise PlanError(
            f"epsilon would be {epsilon:.3g} per report, and at least {LEAST_EPSILON:g} and at most {MOST_EPSILON:g} is possible; "
            "another interval, or another budget per day, makes it so"
        )
    return Task(
        _subject(given, epsilon),
        DEVICES if given.devices is None else given.devices,
        INTERVAL if interval is None else interval,
        epsilon,
    )


def _subject(given: Given, epsilon: float) -> Subject:
    if given.subject is not None:
        return given.subject
    if given.categories is not None:
        return Subject.categories(given.categories, epsilon)
    return Subject("harmony", given.attributes or 1)


def _solve_devices(given: Given, task: Task, half: float) -> Task:
    per_device = given.within_s / task.interval_s
    return replace(task, devices=max(1, math.ceil(reports_for(task.subject, task.epsilon, half) / per_device)))


def _solve_interval(given: Given, task: Task, half: float) -> Task:
    if given.epsilon_per_day is not None:
        return _best_of_budget(given, task, half)
    return replace(task, interval_s=given.within_s * task.devices / reports_for(task.subject, task.epsilon, half))


def _best_of_budget(given: Given, task: Task, half: float) -> Task:
    """With a budget per day the defaults are the best interval already: it is enough, or nothing is."""
    if half_width(task, given.within_s) > half:
        raise PlanError(
            f"with {given.epsilon_per_day:g} per day and {task.devices} devices ±{half:.1%} is out of reach within that time: at best "
            f"±{half_width(task, given.within_s):.1%}, with epsilon {task.epsilon:.2f} every {task.interval_s:,.0f} s"
        )
    return task


def _solve_epsilon(given: Given, task: Task, half: float) -> Task:
    """The least epsilon that is enough, by halving; whatever the mechanism, more epsilon means less spread."""
    low, high = 0.0, MOST_EPSILON
    if half_width(replace(task, epsilon=high), given.within_s) > half:
        best = half_width(replace(task, epsilon=high), given.within_s)
        raise PlanError(
            f"no epsilon gives ±{half:.1%}: {task.devices} devices every {task.interval_s:g} s reach ±{best:.1%} at best within that "
            "time; more devices or a longer time is needed"
        )
    for _ in range(40):
        middle = (low + high) / 2
        enough = half_width(_at(given, task, middle), given.within_s) <= half
        low, high = (low, middle) if enough else (middle, high)
    return _at(given, task, high)


def _at(given: Given, task: Task, epsilon: float) -> Task:
    """The same at another epsilon; categories may want another mechanism there."""
    epsilon = max(epsilon, LEAST_EPSILON)
    return replace(task, epsilon=epsilon, subject=_subject(given, epsilon))


_SOLVERS: dict[str, Callable[[Given, Task, float], Task]] = {
    "devices": _solve_devices,
    "interval": _solve_interval,
    "epsilon": _solve_epsilon,
}
