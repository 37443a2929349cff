# SPDX-License-Identifier: MIT
"""What experience says about a task: sentences, each with its reason and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from peel_core.primitives import MAX_WIDTH
from peel_gateway.planning.accuracy import half_width
from peel_gateway.planning.privacy import BEST_EPSILON
from peel_gateway.planning.task import DAY, Task

__all__ = ["advice"]

_ENOUGH_EPSILON = 4.0
_MANY_ATTRIBUTES = 16
_FEW_DEVICES = 20
_MUCH_PER_DAY = 50.0
_LARGE_CAP = 5.0


def advice(task: Task) -> list[str]:
    """Everything that speaks against a task as it is; empty where nothing does."""
    return [*_about_epsilon(task), *_about_size(task), *_about_devices(task)]


def _about_epsilon(task: Task) -> Iterator[str]:
    if task.subject.numeric and task.epsilon > _ENOUGH_EPSILON:
        gained = 1 - half_width(task, DAY) / half_width(replace(task, epsilon=_ENOUGH_EPSILON), DAY)
        yield (
            f"epsilon {task.epsilon:g} gives away more than {_ENOUGH_EPSILON:g} and makes intervals only {gained:.1%} narrower: "
            f"{_ENOUGH_EPSILON:g} is enough"
        )
    per_day = task.epsilon * task.reports_per_day
    if per_day > _MUCH_PER_DAY:
        yield (
            f"epsilon adds up to {per_day:,.0f} a day for each device: a constant reading does not stay private for long. Report "
            "less often, or give the profile a smaller quota"
        )
    if task.subject.numeric and per_day < BEST_EPSILON and task.epsilon < BEST_EPSILON / 2:
        yield (
            f"the same {per_day:.2g} a day would be used better by one report of epsilon {min(per_day, BEST_EPSILON):.2g} than by "
            f"{task.reports_per_day:.3g} of {task.epsilon:.2g}"
        )


def _about_size(task: Task) -> Iterator[str]:
    subject = task.subject
    if subject.numeric and subject.size > _MANY_ATTRIBUTES:
        yield (
            f"each of the {subject.size} attributes gets one report in {subject.size}, so intervals are {subject.size**0.5:.0f} times "
            "as wide as with one: leave out what nobody asks for, or split the fleet into profiles of fewer attributes"
        )
    if subject.numeric and subject.size == 1:
        return
    if subject.mechanism == "krr" and subject.cap(task.epsilon) > _LARGE_CAP:
        yield (
            f"one forged answer counts for {subject.cap(task.epsilon):.0f} honest ones before it is exposed: use local hashing"
            + (", or merge categories" if subject.size <= MAX_WIDTH else "")
        )


def _about_devices(task: Task) -> Iterator[str]:
    if task.devices < _FEW_DEVICES:
        yield (
            f"with {task.devices} devices one of them moves a mean by {min(1.0, task.subject.cap(task.epsilon) / task.devices):.0%} of "
            "the range until it is judged, and what the mean says is said about few"
        )
