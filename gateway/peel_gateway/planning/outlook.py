# SPDX-License-Identifier: MIT
"""The outlook of a task as plain values, for the page and `peel plan`: accuracy, privacy, influence of one device, and advice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TypedDict

from peel_core.kinds import CHOICE, SIGN
from peel_core.odds import EPSILON_ONE, odds_of
from peel_gateway.planning.solve import Solved
from peel_gateway.planning.task import (
    BEST_EPSILON,
    DAY,
    Task,
    composed_epsilon,
    half_width,
    half_widths,
    reports_for,
    seconds_for,
)

__all__ = ["YEAR_DAYS", "Outlook", "advice", "outlook", "rounded"]

DELTA = 1e-6

ACCURACIES = (0.1, 0.05, 0.02, 0.01)

YEAR_DAYS = 365


class ReadingQuestions(TypedDict):
    """The number of questions about one reading, over all its attributes."""

    name: str
    questions: int


class PlannedTask(TypedDict):
    attributes: list[str]
    questions: int
    readings: list[ReadingQuestions]
    devices: int
    interval_s: float
    epsilon: float
    found: list[str]
    assumed: list[str]


class HalfWidths(TypedDict):
    hour: float
    day: float
    week: float


class TimeUntil(TypedDict):
    half_width: float
    reports: int
    hours: float


class AttributeAccuracy(TypedDict):
    """The interval of one attribute after the planned time, in the worst case over its readings."""

    name: str
    kind: str
    questions: int
    reports: float
    """The share of all reports that answer each of its questions."""
    half_width: float
    """Of its range, or of all readings for shares."""
    in_unit: float | None
    """The same in its unit, for a mean."""
    unit: str


class Accuracy(TypedDict):
    of: str
    half_width: HalfWidths
    until: list[TimeUntil]
    within_s: float
    attributes: list[AttributeAccuracy]
    """After `within_s` seconds."""


class Spent(TypedDict):
    reports: int
    epsilon: float
    epsilon_at_delta: float


class Privacy(TypedDict):
    report: Spent
    day: Spent
    year: Spent
    delta: float


class Ratio(TypedDict):
    cap: float


class Insider(TypedDict):
    liar_moves: float
    insider_moves_at_first: float
    ratio: Ratio


class Outlook(TypedDict):
    """The accuracy and the privacy cost of a task."""

    task: PlannedTask
    accuracy: Accuracy
    privacy: Privacy
    insider: Insider
    advice: list[str]


def outlook(solved: Solved, accuracy: float | None = None, within_s: float = DAY) -> Outlook:
    """Return all that follows by formula. `accuracy` adds a row for that half-width; intervals per attribute are those after `within_s`."""
    task = solved.task
    return {
        "task": {
            "attributes": [f"{each.name} ({each.kind})" for each in task.subject.attributes],
            "questions": len(task.subject.questions(task.epsilon)),
            "readings": _readings(task),
            "devices": task.devices,
            "interval_s": round(task.interval_s, 3),
            "epsilon": round(task.epsilon, 4),
            "found": list(solved.found),
            "assumed": list(solved.assumed),
        },
        "accuracy": _accuracy(task, accuracy, within_s),
        "privacy": _privacy(task),
        "insider": _insider(task),
        "advice": advice(task),
    }


def _readings(task: Task) -> list[ReadingQuestions]:
    """Return the questions per reading. Those of several attributes about one reading add up."""
    names = [task.subject.attributes[each.attribute].name for each in task.subject.questions(task.epsilon)]
    return [{"name": name, "questions": count} for name, count in Counter(names).items()]


def _of_attributes(task: Task, seconds: float) -> Iterator[AttributeAccuracy]:
    questions = task.subject.questions(task.epsilon)
    asked = Counter(each.attribute for each in questions)
    means = {each.attribute for each in questions if each.form == SIGN and each.threshold is None}
    for place, half in enumerate(half_widths(task, seconds)):
        attribute = task.subject.attributes[place]
        ranged = place in means
        yield {
            "name": attribute.name,
            "kind": attribute.kind,
            "questions": asked[place],
            "reports": rounded(attribute.weight / task.subject.slots),
            "half_width": rounded(half),
            "in_unit": rounded(half * (attribute.high - attribute.low)) if ranged else None,
            "unit": attribute.unit if ranged else "",
        }


def _accuracy(task: Task, wanted: float | None, within_s: float) -> Accuracy:
    steps = sorted({*ACCURACIES, *([] if wanted is None else [wanted])}, reverse=True)
    return {
        "of": task.subject.worst(task.epsilon).name,
        "half_width": {
            "hour": rounded(half_width(task, 3600)),
            "day": rounded(half_width(task, DAY)),
            "week": rounded(half_width(task, 7 * DAY)),
        },
        "until": [
            {
                "half_width": half,
                "reports": reports_for(task.subject, task.epsilon, half),
                "hours": rounded(seconds_for(task, half) / 3600),
            }
            for half in steps
        ],
        "within_s": within_s,
        "attributes": list(_of_attributes(task, within_s)),
    }


def _privacy(task: Task) -> Privacy:
    def spent(reports: float) -> Spent:
        count = max(1, round(reports))
        composed = composed_epsilon(task.epsilon, count, DELTA)
        return {"reports": count, "epsilon": rounded(task.epsilon * count), "epsilon_at_delta": rounded(composed)}

    return {
        "report": spent(1),
        "day": spent(task.reports_per_day),
        "year": spent(task.reports_per_day * YEAR_DAYS),
        "delta": DELTA,
    }


def _insider(task: Task) -> Insider:
    """Return one device's influence: a liar moves an estimate by at most its share of the reports, an insider by that times the cap."""
    liar = 1 / task.devices
    cap = task.subject.cap(task.epsilon)
    return {
        "liar_moves": rounded(min(1.0, liar)),
        "insider_moves_at_first": rounded(min(1.0, liar * cap)),
        "ratio": {"cap": rounded(cap)},
    }


def rounded(value: float) -> float:
    """Round to three significant digits."""
    return float(f"{value:.3g}")


_ENOUGH_EPSILON = 4.0

_MANY_QUESTIONS = 16

_FEW_DEVICES = 20

_MUCH_PER_DAY = 50.0

_LARGE_CAP = 5.0


def advice(task: Task) -> list[str]:
    """Return sentences about weaknesses of a task, each with the reason and a remedy."""
    return [*_about_epsilon(task), *_about_size(task), *_about_devices(task)]


def _about_epsilon(task: Task) -> Iterator[str]:
    if task.subject.signs and task.epsilon > _ENOUGH_EPSILON:
        gained = 1 - half_width(task, DAY) / half_width(replace(task, epsilon=_ENOUGH_EPSILON), DAY)
        yield (
            f"epsilon {task.epsilon:g} reveals more than {_ENOUGH_EPSILON:g} and makes intervals only {gained:.1%} narrower: "
            f"{_ENOUGH_EPSILON:g} is enough"
        )
    per_day = task.epsilon * task.reports_per_day
    if per_day > _MUCH_PER_DAY:
        yield (
            f"epsilon adds up to {per_day:,.0f} a day for each device: a constant reading does not stay private for long. Report "
            "less often, or give the profile a smaller quota"
        )
    if task.subject.signs and per_day < BEST_EPSILON and task.epsilon < BEST_EPSILON / 2:
        yield (
            f"the same {per_day:.2g} a day would be used better by one report of epsilon {min(per_day, BEST_EPSILON):.2g} than by "
            f"{task.reports_per_day:.3g} of {task.epsilon:.2g}"
        )


def _about_size(task: Task) -> Iterator[str]:
    subject = task.subject
    questions = len(subject.questions(task.epsilon))
    if questions > _MANY_QUESTIONS:
        yield (
            f"each of the {questions} questions gets about one report in {questions}, so intervals are {questions**0.5:.0f} times "
            "as wide as with one: leave out attributes and thresholds that you do not need, or split the fleet into several profiles"
        )
    for question in subject.questions(task.epsilon):
        cap = odds_of(int(task.epsilon * EPSILON_ONE), question.outcomes).cap
        if question.form == CHOICE and cap > _LARGE_CAP:
            name = subject.attributes[question.attribute].name
            yield f"{name}: one forged answer counts for {cap:.0f} honest ones before it is exposed: use kind hashed, or merge categories"


def _about_devices(task: Task) -> Iterator[str]:
    if task.devices < _FEW_DEVICES:
        yield (
            f"with {task.devices} devices one of them moves a mean by {min(1.0, task.subject.cap(task.epsilon) / task.devices):.0%} of "
            "the range until it is judged, and what the mean says is said about few"
        )
