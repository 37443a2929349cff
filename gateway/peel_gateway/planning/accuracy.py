# SPDX-License-Identifier: MIT
"""How wide the intervals are after some time, and how long it takes until they are narrow enough.

::

    half-width of a 95% interval, as a part of the range  =  1.96 spread / sqrt(reports)        `Subject.spread`

The worst case over what may be measured, for honest reports that all count the same.
"""

from __future__ import annotations

import math

from peel_gateway.mechanisms.intervals import Z95
from peel_gateway.planning.task import Subject, Task

__all__ = ["half_width", "reports_for", "seconds_for"]


def half_width(task: Task, seconds: float) -> float:
    """Half of a 95% interval after so much time, as a part of the range; at most the whole range."""
    reports = task.reports_per_second * seconds
    return min(1.0, Z95 * task.subject.spread(task.epsilon) / math.sqrt(reports))


def reports_for(subject: Subject, epsilon: float, half: float) -> int:
    """How many reports of the whole fleet an interval of this half-width takes."""
    return math.ceil((Z95 * subject.spread(epsilon) / half) ** 2)


def seconds_for(task: Task, half: float) -> float:
    """How long the fleet takes to send them."""
    return reports_for(task.subject, task.epsilon, half) / task.reports_per_second
