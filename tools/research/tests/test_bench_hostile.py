# SPDX-License-Identifier: MIT
"""A flood by one device, in short: honest devices get their receipts all the same."""

from __future__ import annotations

from peel_research.bench import hostile


def test_honest_devices_get_their_receipts_during_a_flood() -> None:
    figures = hostile.measure(seconds=2)
    assert min(figures["status_flood_messages"], figures["frame_flood_messages"]) > 1000
    assert 0 < figures["baseline_p95_s"] < 10
    # One device used to stop all receipts until the flood was worked off: then reports wait for half a minute.
    assert figures["status_flood_p95_s"] < 10
    assert figures["frame_flood_p95_s"] < 10
