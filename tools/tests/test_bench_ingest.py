# SPDX-License-Identifier: MIT
"""A whole gateway at a queue, in short: everything is stored, with little of the processor; rates need a machine that does nothing else."""

from __future__ import annotations

from peel_tools import bench_ingest


def test_a_message_takes_microseconds() -> None:
    figures = bench_ingest.measure(messages=10_000)
    assert 0 < figures["cpu_us_per_message"] < 60  # as an object of its own each took 180
    for rate in ("messages_per_s", "batched_reports_per_s", "bare_paho_per_s", "bare_gmqtt_per_s"):
        assert figures[rate] > 0
