# SPDX-License-Identifier: MIT
"""A short run of the scale benchmark: two workers store all reports in few transactions, and one takes over."""

from __future__ import annotations

from peel_research.bench.scale import SHORT, measure


def test_workers_share_the_work_and_the_database_does_little_for_a_report() -> None:
    scale = SHORT
    figures = measure(scale)
    assert figures.keys() > {"registered", "speaking", "reports", "w1", "w2", "speedup_2"}
    for count in scale.workers:
        run = figures[f"w{count}"]
        assert run["reports_per_s"] > 200
        assert 5 < run["cpu_us_per_report"] < 20_000
        assert run["reports_per_transaction"] > 20, "a batch is one transaction"
        assert run["statements_per_report"] < 1, "and a few statements, not some for each report"
        assert run["wal_bytes_per_report"] < 20_000
        assert run["lock_wait_share"] < 0.5, "partitions do not wait for each other, in a handful of samples"
    assert scale.lease_seconds / 2 < figures["w2"]["takeover_s"] < 20 * scale.lease_seconds
