# SPDX-License-Identifier: MIT
"""The gateway benchmark measures the statistics' guarantees about coins. The engine's speed has its own benchmark."""

from __future__ import annotations

from peel_research.bench import gateway


def test_figures() -> None:
    figures = gateway.measure(rounds=1)
    waits = figures["median_reports_until_exposed"]
    assert 50 <= waits["always_plus"] <= 65
    assert waits["always_plus"] < waits["plus_95"] < waits["plus_88"] < waits["plus_82"] < gateway.NEVER
    assert figures["honest_extreme_coins_exposed"] == 0
    assert figures["reports_per_second"].keys() == {"k16", "k252"}
