# SPDX-License-Identifier: MIT
"""A short run of the disk benchmark: a report takes few bytes, and many share a transaction."""

from __future__ import annotations

from peel_research.bench import disk


def test_few_bytes_are_written_and_fewer_kept() -> None:
    figures = disk.measure(rates=(10, 1000), seconds=3, stored=100_000)
    slow, fast = figures["r10"], figures["r1000"]
    assert slow.keys() == fast.keys() >= {"written_bytes_per_report", "stored_bytes_per_report", "latency_ms"}
    # Longer runs come to 3 KB and 130 bytes: here the last checkpoint counts for more. A transaction for each report is 20 KB.
    assert 500 < slow["written_bytes_per_report"] < 12_000
    assert 38 < fast["written_bytes_per_report"] < 800
    assert slow["stored_bytes_per_report"] < 50
    assert fast["stored_bytes_per_report"] < 50
    assert slow["latency_ms"] > 100
