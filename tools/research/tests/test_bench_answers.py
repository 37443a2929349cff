# SPDX-License-Identifier: MIT
"""The benchmark of answers: its sums are right, and its figures have the names that readers rely on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from peel_gateway.storage.sql.rollups import DAY
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_research.bench import answers
from peel_research.bench.workload import bench_profile


def test_the_sums_are_those_of_as_many_reports(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "answers.sqlite")
    fleet = answers._filled(store, 20_000, 50, 9)
    profile = bench_profile(16).id
    whole = store.device_tallies(profile)
    assert 19_900 < (whole.plus + whole.minus).sum() <= 20_000
    assert len(np.unique(whole.device)) == 50
    assert set(whole.index.tolist()) == set(range(16))
    for span in ({}, {"bucket_seconds": DAY}, {"bucket_seconds": 3600}):
        devices, tallies = store.device_tallies(profile, **span), store.tallies(profile, **span)  # type: ignore[arg-type]
        for column in ("plus", "minus"):
            assert getattr(devices, column).sum() == getattr(tallies, column).sum() == getattr(whole, column).sum()
    questions = dict(answers._questions(fleet))
    assert all(answers._timed(fleet, question) > 0 for question in questions.values())
    store.close()


def test_figures_of_one_small_size() -> None:
    figures = answers.measure([5000], [20], days=5)
    assert set(figures) == {"page_worst_ms", "askers_40_mb", "askers_40_mb_smallest", "bytes_per_report", "sizes"}
    (size,) = figures["sizes"].values()
    assert figures["page_worst_ms"] == size["page_worst_ms"] <= size["api_worst_ms"]
    assert size["askers_40_mb"] > 0 and size["bytes_per_report"] > 11
