# SPDX-License-Identifier: MIT
"""The planner's formulas, against the estimator's own intervals and against each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from peel_core import Profile, make_profile
from peel_core.kinds import CHOICE, SIGN
from peel_gateway.estimation.statistics import Reports, equal_reports
from peel_gateway.planning.outlook import advice
from peel_gateway.planning.solve import Given, PlanError, solve
from peel_gateway.planning.task import BEST_EPSILON, DAY, Subject, Task, half_width, reports_for, seconds_for

TASK = Task(Subject.means(4), devices=200, interval_s=900, epsilon=1.0)

Row = dict[str, object]
MEANS: list[Row] = [{"name": f"a{i}", "kind": "mean", "low": 0, "high": 1} for i in range(4)]
ABOVE: Row = {"name": "a0", "kind": "above", "thresholds": [0.2, 0.7], "weight": 3}
CATEGORY: Row = {"name": "state", "kind": "category", "categories": list("abcd")}
HASHED: Row = {"name": "word", "kind": "hashed", "domain": 200}


def _profile(rows: list[Row]) -> Profile:
    table = {"name": "planned", "epsilon": 1.0, "verify": False, "width": 48, "seed": 1, "quota": 60, "period": 3600}
    return make_profile({**table, "attribute": rows})


@pytest.mark.parametrize(
    "rows",
    [
        MEANS[:1],
        MEANS,
        [CATEGORY],
        [HASHED],
        [MEANS[0], ABOVE],
        [*MEANS, ABOVE, CATEGORY],
        [*MEANS, ABOVE, CATEGORY, HASHED],
        [MEANS[0] | {"weight": 2}, CATEGORY | {"weight": 5}, HASHED | {"weight": 16}],
    ],
)
def test_the_planned_width_is_that_of_the_estimator(rows: list[Row], rng: np.random.Generator) -> None:
    """Readings in the middle, or a category that nobody has: what the plan calls the worst case."""
    profile, reports = _profile(rows), 200_000
    cell, plus = np.zeros(reports, np.int64), np.ones(reports, np.int64)
    weights = np.array([block.weight * block.questions for block in profile.blocks])
    assigned = rng.choice(len(weights), reports, p=weights / weights.sum())
    for place, block in enumerate(profile.blocks):
        mine = np.flatnonzero(assigned == place)
        cell[mine] = block.first_cell + rng.integers(block.cells, size=len(mine))
        if block.form == CHOICE:  # everybody is in category 0, nobody in the last
            cell[mine] = np.where(rng.random(len(mine)) < block.true_share, block.first_cell, cell[mine])
        if block.form == SIGN:
            plus[mine] = rng.integers(2, size=len(mine))
    found = Reports.of(profile, np.arange(reports), cell, plus, 1 - plus)
    bounds = found.statistics(equal_reports(found.report_counts)).unclipped
    last = [block.first_statistic + block.statistics - 1 for block in profile.blocks]
    measured = (bounds.high - bounds.low)[last].max() / 2
    task = Task(Subject.of(profile), devices=reports, interval_s=1.0, epsilon=profile.epsilon)
    assert half_width(task, 1.0) == pytest.approx(measured, rel=0.03)


def test_reports_and_time_agree_with_the_width() -> None:
    reports = reports_for(TASK.subject, TASK.epsilon, 0.05)
    assert seconds_for(TASK, 0.05) == pytest.approx(reports * 900 / 200)
    assert half_width(TASK, seconds_for(TASK, 0.05)) == pytest.approx(0.05, rel=1e-3)


@pytest.mark.parametrize("left_open", ["devices", "interval_s", "epsilon"])
def test_what_is_left_open_is_found(left_open: str) -> None:
    given = Given(attributes=4, devices=200, interval_s=900, epsilon=1.0, accuracy=half_width(TASK, DAY))
    solved = solve(replace(given, **{left_open: None}))  # type: ignore[arg-type]  # a field by its name
    assert solved.found == (left_open.removesuffix("_s"),)
    assert solved.assumed == ()
    assert getattr(solved.task, left_open) == pytest.approx(getattr(TASK, left_open), rel=0.02)


def test_defaults_are_named() -> None:
    assert solve(Given()).assumed == ("devices", "epsilon", "interval")


def test_a_budget_per_day_is_kept_and_used_well() -> None:
    solved = solve(Given(devices=200, epsilon_per_day=24))
    task = solved.task
    assert task.epsilon * task.reports_per_day == pytest.approx(24)
    for epsilon in (0.5 * BEST_EPSILON, 0.9 * BEST_EPSILON, 1.1 * BEST_EPSILON, 2 * BEST_EPSILON):
        other = replace(task, epsilon=epsilon, interval_s=epsilon * DAY / 24)
        assert half_width(task, DAY) < half_width(other, DAY)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Given(attributes=1, categories=2), "exclude each other"),
        (Given(epsilon=1, epsilon_per_day=2, interval_s=3), "Give two of them"),
        (Given(devices=0), "devices: must be between 1 and"),
        (Given(accuracy=float("nan")), "accuracy: must be between"),
        (Given(epsilon_per_day=1e6, interval_s=DAY), "between 0.005 and 5.5"),
        (Given(epsilon_per_day=1e9, interval_s=900, accuracy=0.05), "between 0.005 and 5.5"),
        (Given(epsilon_per_day=1e-6, interval_s=1), "between 0.005 and 5.5"),
        (Given(devices=2, interval_s=3600, accuracy=0.01), "no epsilon gives"),
        (Given(devices=2, epsilon_per_day=1, accuracy=0.01), "out of reach"),
    ],
)
def test_what_cannot_be_is_refused(given: Given, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        solve(given)


def test_few_categories_are_asked_directly_and_many_are_hashed() -> None:
    assert [each.kind for each in solve(Given(categories=4)).task.subject.attributes] == ["category"]
    assert [each.kind for each in solve(Given(categories=400)).task.subject.attributes] == ["hashed"]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (replace(TASK, epsilon=5.0), "4 is enough"),
        (replace(TASK, subject=Subject.means(252)), "252 questions"),
        (replace(TASK, devices=5), "with 5 devices"),
        (replace(TASK, subject=Subject.categories(64, 4.0)), "use kind hashed"),
        (replace(TASK, interval_s=10), "adds up to"),
        (replace(TASK, epsilon=0.1, interval_s=8640), "used better by one report"),
    ],
)
def test_advice(task: Task, said: str) -> None:
    assert any(said in sentence for sentence in advice(task)), advice(task)


def test_no_advice_where_nothing_is_wrong() -> None:
    assert advice(replace(TASK, interval_s=3600)) == []
