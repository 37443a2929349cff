# SPDX-License-Identifier: MIT
"""A short run of the growth benchmark, with a margin for a busy machine."""

from __future__ import annotations

from peel_research.bench.growth import FULL, SHORT, measure

KEPT = 0.35
"""Of the throughput at the smallest; the targets are for longer runs, see docs/lab-and-figures.md."""


def test_figures() -> None:
    steps: list[str] = []
    figures = measure(SHORT, steps.append)
    assert len(steps) == SHORT.steps
    assert figures.keys() == {*FULL.axes, "start"}
    assert set(FULL.axes) == {"k", "registered", "speaking", "log_rows", "exposures", "page"}
    for name in FULL.axes:
        assert all(point["reports_per_cpu_s"] > 0 and point["rss_mb"] > 0 for point in figures[name]["points"])
    for name in ("registered", "log_rows", "exposures"):
        assert figures[name]["largest_over_smallest"] > KEPT, figures[name]
    small, large = figures["registered"]["points"]
    assert large["rss_mb"] < small["rss_mb"] + 20, "10,000 silent devices have no states in memory"
    start = figures["start"]
    assert start["registered"] == SHORT.registered
    assert start["start_s"] < 60
    assert start["rss_mb"] < 250
