# SPDX-License-Identifier: MIT
"""What the engine costs beside what could hardly be done with less: ratios of one run, with room for a busy machine."""

from __future__ import annotations

from peel_research.bench.engine import SIZES, Size, measure

SLACK = 1.5


def test_figures() -> None:
    figures = measure([Size(16, 500), Size(252, 500)], rounds=1)
    assert figures.keys() == {"k16_d500", "k252_d500"} < {str(size) for size in SIZES}
    for name, floors in (("k16_d500", 3), ("k252_d500", 4)):
        size = figures[name]
        stages = size["stages_us"]
        assert stages.keys() == {"open", "reconstruct", "statistics", "store", "rest"}
        assert abs(sum(stages.values()) - size["cpu_us_per_report"]) < 0.1
        assert size["ratio_vs_floor"] <= SLACK * floors
        assert size["gemm_fraction"] >= 1 / SLACK
        assert size["ratio_vs_naive"] > 10
        assert 0 <= size["checkpoint_us"] < size["cpu_us_per_report"]
