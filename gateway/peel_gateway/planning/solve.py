# SPDX-License-Identifier: MIT
"""Solve for the missing numbers of a planned fleet.

One equation connects devices, interval, epsilon (per report or per day) and the accuracy wanted within a time (`task.half_width`).
If accuracy is given, one of the others is solved for. All other missing numbers get defaults.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from peel_core import Profile
from peel_gateway.planning.task import BEST_EPSILON, DAY, Subject, Task, half_width, reports_for

__all__ = ["Given", "PlanError", "Solved", "solve"]

DEVICES, INTERVAL, EPSILON = 100, 900.0, 1.0
"""Defaults."""
LEAST_EPSILON, MOST_EPSILON = 0.005, 5.5
"""Every epsilon between them has odds, for any number of outcomes."""


class PlanError(Exception):
    """No fleet fulfils the request; the message says why and what to change."""


@dataclass(frozen=True, kw_only=True)
class Given:
    """The known numbers of a planned fleet; None for unknown ones."""

    attributes: int | None = None
    categories: int | None = None
    subject: Subject | None = None
    """From a profile, instead of the two above."""
    devices: int | None = None
    interval_s: float | None = None
    epsilon: float | None = None
    epsilon_per_day: float | None = None
    accuracy: float | None = None
    """Half-width of a 95% interval, as a part of the range."""
    within_s: float = DAY

    def of_profile(self, profile: Profile) -> Given:
        """Return a copy for a profile, whose epsilon and interval fill in missing ones."""
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
"""Least and greatest value of each field of `Given`."""


@dataclass(frozen=True)
class Solved:
    """A task, and the names of its numbers that were solved for or are defaults."""

    task: Task
    found: tuple[str, ...]
    assumed: tuple[str, ...]


def solve(given: Given) -> Solved:
    """Return the complete task. Raises PlanError if no fleet fulfils the request."""
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
        raise PlanError("attributes, categories and a profile exclude each other. Give one of them.")
    if given.epsilon is not None and given.epsilon_per_day is not None and given.interval_s is not None:
        raise PlanError(
            "two of epsilon per report, epsilon per day and interval determine the third. Give two of them."
        )
    for name, (least, most) in LIMITS.items():
        value = getattr(given, name)
        if value is not None and not least <= value <= most:
            label = name.removesuffix("_s").replace("_", " ")
            raise PlanError(f"{label}: must be between {least:g} and {most:g}, got {value:g}")


def _missing(given: Given) -> list[str]:
    """Return the numbers that are neither given nor determined by others."""
    missing = ["devices"] if given.devices is None else []
    budgets = sum(value is not None for value in (given.epsilon, given.epsilon_per_day, given.interval_s))
    if given.epsilon is None and given.epsilon_per_day is None:
        missing.append("epsilon")
    if given.interval_s is None and budgets < 2:
        missing.append("interval")
    return missing


def _unknown(given: Given, missing: list[str]) -> str | None:
    """Return the number to solve for: devices if unknown, else interval or epsilon; None without an accuracy."""
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
            f"epsilon per report must be between {LEAST_EPSILON:g} and {MOST_EPSILON:g}, but this interval and budget give {epsilon:.3g}. "
            "Change the interval or the budget per day."
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
    return Subject.means(given.attributes or 1)


def _solve_devices(given: Given, task: Task, half: float) -> Task:
    per_device = given.within_s / task.interval_s
    return replace(task, devices=max(1, math.ceil(reports_for(task.subject, task.epsilon, half) / per_device)))


def _solve_interval(given: Given, task: Task, half: float) -> Task:
    if given.epsilon_per_day is not None:
        return _best_of_budget(given, task, half)
    return replace(task, interval_s=given.within_s * task.devices / reports_for(task.subject, task.epsilon, half))


def _best_of_budget(given: Given, task: Task, half: float) -> Task:
    """Return the task if it is accurate enough: its interval is the best for a budget per day, so no other would do."""
    if half_width(task, given.within_s) > half:
        raise PlanError(
            f"with {given.epsilon_per_day:g} per day and {task.devices} devices ±{half:.1%} is out of reach within that time: at best "
            f"±{half_width(task, given.within_s):.1%}, with epsilon {task.epsilon:.2f} every {task.interval_s:,.0f} s"
        )
    return task


def _solve_epsilon(given: Given, task: Task, half: float) -> Task:
    """Find a small sufficient epsilon by bisection: the spread falls as epsilon grows, but for the steps between odds."""
    low, high = 0.0, MOST_EPSILON
    if half_width(replace(task, epsilon=high), given.within_s) > half:
        best = half_width(replace(task, epsilon=high), given.within_s)
        raise PlanError(
            f"no epsilon gives ±{half:.1%}: {task.devices} devices every {task.interval_s:g} s reach ±{best:.1%} at best within that "
            "time. Use more devices or a longer time."
        )
    for _ in range(40):
        middle = (low + high) / 2
        enough = half_width(_at(given, task, middle), given.within_s) <= half
        low, high = (low, middle) if enough else (middle, high)
    return _at(given, task, high)


def _at(given: Given, task: Task, epsilon: float) -> Task:
    """Return the task at another epsilon, where categories may need another mechanism."""
    epsilon = max(epsilon, LEAST_EPSILON)
    return replace(task, epsilon=epsilon, subject=_subject(given, epsilon))


_SOLVERS: dict[str, Callable[[Given, Task, float], Task]] = {
    "devices": _solve_devices,
    "interval": _solve_interval,
    "epsilon": _solve_epsilon,
}
