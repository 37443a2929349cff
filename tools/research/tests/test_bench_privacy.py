# SPDX-License-Identifier: MIT
"""Frames of the real core reveal over time as much as theory says."""

from __future__ import annotations

import math

import pytest

from peel_gateway.planning.task import composed_epsilon
from peel_research.bench.privacy import measure


def test_a_gateway_learns_what_the_variance_says_and_no_more() -> None:
    found = measure(
        epsilon=1.0, interval=600, reading=21.3, low=-40.0, high=85.0, devices=20, stretches=["day", "month"]
    )
    day, month = found["day"], found["month"]
    assert (day["reports"], day["epsilon"], day["samples"]) == (144, 144, 600)
    assert (month["reports"], month["samples"]) == (4320, 20)
    # A root mean square over n samples is off by 1/sqrt(2 n) of itself; six times that is one miss in 500 million.
    for figures in (day, month):
        slack = 6 / math.sqrt(2 * figures["samples"])
        assert figures["error"] == pytest.approx(figures["expected_error"], rel=slack)


def exact_delta(epsilon: float, count: int, composed: float) -> float:
    """The delta of `count` randomised responses at `composed`: the worst that any epsilon-private reports can do."""
    keep = 1 / (1 + math.exp(-epsilon))
    delta = 0.0
    for kept in range(count + 1):
        ways = math.comb(count, kept)
        here, there = (
            ways * keep**kept * (1 - keep) ** (count - kept),
            ways * (1 - keep) ** kept * keep ** (count - kept),
        )
        delta += max(0.0, here - math.exp(composed) * there)
    return delta


@pytest.mark.parametrize(("epsilon", "count"), [(1.0, 1), (0.1, 96), (0.05, 300), (0.5, 100), (1.0, 200)])
def test_the_composed_epsilon_holds(epsilon: float, count: int) -> None:
    composed = composed_epsilon(epsilon, count, 1e-6)
    assert composed <= epsilon * count
    assert exact_delta(epsilon, count, composed) <= 1e-6 * (1 + 1e-9)


def test_many_small_reports_compose_better_than_their_sum() -> None:
    assert composed_epsilon(0.1, 96, 1e-6) < 0.65 * 9.6
