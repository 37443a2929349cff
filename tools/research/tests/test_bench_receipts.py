# SPDX-License-Identifier: MIT
"""Receipts cost as much as the documents say."""

from __future__ import annotations

from peel_research.bench import receipts


def test_a_receipt_is_small_and_costs_the_flash_nothing() -> None:
    figures = receipts.measure()
    assert (figures["bytes"], figures["bytes_with_4_gaps"]) == (19, 19 + 4 * 12)
    assert figures["bytes_on_air"] < 80
    flash = figures["flash_per_report"]
    assert flash["confirmed_by_gateway"] == flash["confirmed_by_broker"] == {"written": 1, "removed": 1}
    assert flash["gateway_away"] == {"written": 1, "removed": 0}
    assert flash["gateway_away_deep_sleep"] == {"written": 1.125, "removed": 0}
