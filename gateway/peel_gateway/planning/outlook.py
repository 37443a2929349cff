# SPDX-License-Identifier: MIT
"""What follows from a task, as one table of plain values: the page shows it, and `peel plan` with what it plays and counts beside it."""

from __future__ import annotations

from typing import Any

from peel_gateway.planning.accuracy import half_width, reports_for, seconds_for
from peel_gateway.planning.advice import advice
from peel_gateway.planning.privacy import composed_epsilon
from peel_gateway.planning.solve import Solved
from peel_gateway.planning.task import DAY, Task

__all__ = ["YEAR_DAYS", "outlook", "rounded"]

DELTA = 1e-6
ACCURACIES = (0.1, 0.05, 0.02, 0.01)
STRETCHES = {"hour": 3600, "day": DAY, "week": 7 * DAY}
YEAR_DAYS = 365


def outlook(solved: Solved, accuracy: float | None = None) -> dict[str, Any]:
    """Everything that is a formula; `accuracy` gets a line of its own."""
    task = solved.task
    return {
        "task": {
            "mechanism": task.subject.mechanism,
            "size": task.subject.size,
            "devices": task.devices,
            "interval_s": round(task.interval_s, 3),
            "epsilon": round(task.epsilon, 4),
            "found": list(solved.found),
            "assumed": list(solved.assumed),
        },
        "accuracy": _accuracy(task, accuracy),
        "privacy": _privacy(task),
        "insider": _insider(task),
        "advice": advice(task),
    }


def _accuracy(task: Task, wanted: float | None) -> dict[str, Any]:
    steps = sorted({*ACCURACIES, *([] if wanted is None else [wanted])}, reverse=True)
    return {
        "half_width": {name: rounded(half_width(task, seconds)) for name, seconds in STRETCHES.items()},
        "until": [
            {
                "half_width": half,
                "reports": reports_for(task.subject, task.epsilon, half),
                "hours": rounded(seconds_for(task, half) / 3600),
            }
            for half in steps
        ],
    }


def _privacy(task: Task) -> dict[str, Any]:
    reports = {
        "report": 1,
        "day": max(1, round(task.reports_per_day)),
        "year": max(1, round(task.reports_per_day * YEAR_DAYS)),
    }
    return {
        name: {
            "reports": count,
            "epsilon": rounded(task.epsilon * count),
            "epsilon_at_delta": rounded(composed_epsilon(task.epsilon, count, DELTA)),
        }
        for name, count in reports.items()
    } | {"delta": DELTA}


def _insider(task: Task) -> dict[str, Any]:
    """One device among many: a liar moves a figure by at most its part of the reports, an insider by that times the cap."""
    liar = 1 / task.devices
    cap = task.subject.cap(task.epsilon)
    return {
        "liar_moves": rounded(min(1.0, liar)),
        "insider_moves_at_first": rounded(min(1.0, liar * cap)),
        "ratio": {"cap": rounded(cap)},
    }


def rounded(value: float) -> float:
    """Three figures: more would promise too much."""
    return float(f"{value:.3g}")
