# SPDX-License-Identifier: MIT
"""The benchmark of answers: its sums are right, and its figures have the names that readers rely on."""

from __future__ import annotations

import time

import numpy as np
import pytest

from peel_gateway.storage.sql.rollups import DAY
from peel_research.bench import answers
from peel_research.bench.workload import bench_profile


@pytest.mark.parametrize("store", answers.STORES)
def test_the_sums_are_those_of_as_many_reports(store: str) -> None:
    first, days = int(time.time() - 9 * DAY) // DAY * DAY, 9
    with answers._database(store) as place:
        archive = place.open()
        answers._write(archive, place, 20_000, 50, first, days)
        profile = bench_profile(16).id
        whole = archive.device_tallies(profile)
        assert 19_900 < (whole.plus + whole.minus).sum() <= 20_000
        assert len(np.unique(whole.device)) == 50
        assert set(whole.index.tolist()) == set(range(16))
        for span in ({}, {"bucket_seconds": DAY}, {"bucket_seconds": 3600}):
            devices, tallies = archive.device_tallies(profile, **span), archive.tallies(profile, **span)  # type: ignore[arg-type]
            for column in ("plus", "minus"):
                assert getattr(devices, column).sum() == getattr(tallies, column).sum() == getattr(whole, column).sum()
        fleet = answers._Fleet(archive, place, 50, first, answers._noon(first, days))
        questions = dict(answers._questions(fleet))
        assert answers._timed(fleet, questions["history_all_tag"]) > 0
        assert (place.server_seconds(1) > 0) == (place.server_mb() > 0) == (store == "postgres")
        archive.close()


def test_figures_of_one_small_size() -> None:
    figures = answers.measure([5000], [20], days=5)
    names = {"store", "page_worst_ms", "askers_40_mb", "askers_40_mb_smallest", "bytes_per_report", "sizes"}
    assert set(figures) == names
    (size,) = figures["sizes"].values()
    assert figures["page_worst_ms"] == size["page_worst_ms"] <= size["api_worst_ms"]
    assert size["askers_40_mb"] > 0 and size["bytes_per_report"] > 11
