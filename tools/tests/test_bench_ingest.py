# SPDX-License-Identifier: MIT
"""A whole gateway at a queue, in short: every message is stored, and it is faster than a client that only counts."""

from __future__ import annotations

from peel_tools import bench_ingest


def test_a_gateway_that_stores_is_ahead_of_clients_that_count() -> None:
    figures = bench_ingest.measure(messages=20_000)
    assert figures["ratio_vs_bare_paho"] > 1.5  # 5 and more on a machine that does nothing else
    assert figures["batched_reports_per_s"] > figures["messages_per_s"]
    assert figures["cpu_us_per_message"] < 60
