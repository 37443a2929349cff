# SPDX-License-Identifier: MIT
"""A whole gateway at a queue, in short: everything is stored, with little of the processor; rates need a machine that does nothing else."""

from __future__ import annotations

from peel_research.bench import ingest

FIELDS = {
    "messages_per_s", "cpu_us_per_message", "ratio_vs_bare_paho", "ratio_vs_bare_gmqtt", "batched_reports_per_s", "rss_mb",
}  # fmt: skip
"""The keys that other programs read."""


def test_a_message_takes_microseconds() -> None:
    figures = ingest.measure(messages=10_000)
    assert figures.keys() >= FIELDS
    assert 0 < figures["cpu_us_per_message"] < 60  # as an object of its own each took 180
    for rate in ("messages_per_s", "batched_reports_per_s", "bare_paho_per_s", "bare_gmqtt_per_s"):
        assert figures[rate] > 0


def test_another_broker_has_its_queue_emptied_too() -> None:
    figures = ingest.measure(messages=3_000, kind="nats")
    assert figures["broker"] == "nats"
    assert min(figures["messages_per_s"], figures["batched_reports_per_s"]) > 0
    assert not [name for name in figures if "bare" in name]  # the bare ones speak MQTT 5
