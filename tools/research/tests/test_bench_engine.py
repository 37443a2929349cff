# SPDX-License-Identifier: MIT
"""The engine's CPU time as a multiple of a lower bound from the same run, with a margin for a busy machine."""

from __future__ import annotations

from peel_core.kinds import KINDS
from peel_research.bench.engine import SIZES, Size, measure
from peel_research.bench.workload import bench_profile

SLACK = 1.5


def test_figures() -> None:
    figures = measure([Size(16, 500), Size(None, 500), Size(252, 500)], rounds=1)
    assert figures.keys() == {"k16_d500", "mixed16_d500", "k252_d500"} < {str(size) for size in SIZES}
    for name, floors in (("k16_d500", 3), ("mixed16_d500", 4), ("k252_d500", 4)):
        size = figures[name]
        stages = size["stages_us"]
        assert stages.keys() == {"open", "reconstruct", "statistics", "store", "rest"}
        assert abs(sum(stages.values()) - size["cpu_us_per_report"]) < 0.1
        assert size["ratio_vs_floor"] <= SLACK * floors
        assert size["gemm_fraction"] >= 1 / SLACK
        assert size["ratio_vs_naive"] > 10
        assert 0 <= size["checkpoint_us"] < size["cpu_us_per_report"]


def test_the_mixed_profile_asks_for_every_kind() -> None:
    profile = Size(None, 500).profile
    assert {attribute.kind for attribute in profile.attributes} == KINDS.keys()
    assert profile.width == bench_profile(16).width  # so that the projections cost the same
