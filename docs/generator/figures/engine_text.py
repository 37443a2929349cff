# SPDX-License-Identifier: MIT
"""Figures of one gateway: engine, queue and disk."""

from __future__ import annotations

from docs.generator.figures.record import figures
from docs.generator.figures.words import paragraph, rounded, run_sentence, table

__all__ = ["batch_seconds", "disk", "engine", "gateway", "ingest", "nats"]

_DAY = 86_400


def engine() -> str:
    """Return the CPU time per report by stage, for each number of attributes and devices."""
    stages = ["open", "reconstruct", "statistics", "store", "rest"]
    rows = []
    for name, size in figures("engine").items():
        attributes, devices = name.removeprefix("k").split("_d")
        rows.append(
            [
                f"{attributes}, {int(devices):,}",
                f"{size['cpu_us_per_report']:.1f}",
                *(f"{size['stages_us'][stage]:.2f}" for stage in stages),
                f"{size['ratio_vs_floor']:.2f}",
                rounded(size["gemm_fraction"], 2),
                rounded(size["ratio_vs_naive"]),
                f"{size['checkpoint_us']:.2f}",
            ]
        )
    header = ["k, devices", "µs", *stages, "x floor", "x product", "x naive", "checkpoints"]
    return f"{run_sentence('engine')}\n{table(header, rows)}"


def gateway() -> str:
    """Return the engine's rate with the disk, and how soon a biased coin is exposed."""
    run = figures("gateway")
    rates = run["reports_per_second"]
    waits = run["median_reports_until_exposed"]
    return f"{run_sentence('gateway')}\n" + paragraph(
        f"Reports per second of the same engine, disk included, with 500 devices: {rounded(rates['k16'])} at k = 16, "
        f"{rounded(rates['k252'])} at k = 252. Reports until a biased coin is exposed, the median: "
        f"{waits['always_plus']} if it always shows plus, {waits['plus_95']} at 95% plus, {waits['plus_88']} at 88%, "
        f"{waits['plus_82']} at 82%. Of {run['honest_extreme_coins']} coins at the honest limit, "
        f"{run['honest_extreme_coins_exposed']} were exposed."
    )


def ingest() -> str:
    """Return the rate of a gateway at a full queue, beside clients that only count."""
    run = figures("ingest")
    single, batched = rounded(run["messages_per_s"]), rounded(run["batched_reports_per_s"])
    paho, gmqtt = rounded(run["bare_paho_per_s"]), rounded(run["bare_gmqtt_per_s"])
    rows = [
        ["one frame per message", f"{single} messages/s, {run['cpu_us_per_message']:.1f} µs of CPU time each"],
        ["a bare paho subscriber, a bare gmqtt one", f"{paho} and {gmqtt} messages/s"],
        ["32 frames per message", f"{batched} reports/s, {run['batched_cpu_us_per_report']:.2f} µs of CPU time each"],
        ["memory", f"{run['rss_mb']:.0f} MB"],
    ]
    text = (
        f"A real mosquitto holds {run['messages']:,} messages (QoS 1, MQTT 5, k = {run['k']}, 500 devices). The "
        "gateway receives, opens, judges and commits them, and then acknowledges them. The bare clients only count "
        "messages of the same queue, in the same run."
    )
    return f"{paragraph(text)}\n{run_sentence('ingest')}\n{table(['', ''], rows)}"


def nats() -> str:
    """Return the rate with the same queue in NATS."""
    run = figures("ingest_nats")
    return (
        paragraph(
            f"At a full NATS queue of {run['messages']:,} messages a gateway takes {rounded(run['messages_per_s'])} "
            f"messages/s of one frame each and {rounded(run['batched_reports_per_s'])} reports/s in messages of 32, "
            f"with {run['cpu_us_per_message']:.1f} µs of CPU time per message."
        )
        + f"\n{run_sentence('ingest_nats')}"
    )


def disk() -> str:
    """Return the bytes written and stored per report, and how long a report waits."""
    run = figures("disk")
    rows = [
        [
            f"{rate:,}",
            _bytes(each["written_bytes_per_report"]),
            f"{each['stored_bytes_per_report']:.1f} bytes",
            _seconds(each),
        ]
        for rate, each in _rates("disk")
    ]
    text = (
        f"A gateway with its defaults and {run['devices']} devices that report at random moments, k = {run['k']}, "
        f"{run['seconds']:.0f} s for each rate. Written is the kernel's count for the process, with checkpoints. "
        f"Stored is the whole file after {run['stored_reports']:,} reports at that rate, with states and tallies."
    )
    header = ["reports/s", "written per report", "stored per report", "mean time until stored"]
    return f"{paragraph(text)}\n{run_sentence('disk')}\n{table(header, rows)}"


def batch_seconds() -> str:
    """Return what a longer wait for a transaction saves and costs."""
    rows = []
    for name in ("disk", "disk_10s"):
        wait = figures(name)["batch_seconds"]
        for rate, each in _rates(name):
            written = each["written_bytes_per_report"]
            label = f"{wait:g} (default)" if name == "disk" else f"{wait:g}"
            rows.append(
                [f"{rate:,}", label, _bytes(written), f"{rounded(written * rate * _DAY / 1e9, 2)} GB", _seconds(each)]
            )
    header = ["reports/s", "`batch.seconds`", "written per report", "in a day", "mean time until stored"]
    return table(header, rows) + "\n" + run_sentence("disk") + "\n" + run_sentence("disk_10s")


def _rates(name: str) -> list[tuple[int, dict[str, float]]]:
    run = figures(name)
    return [(rate, run[f"r{rate}"]) for rate in (1, 10, 1000)]


def _bytes(count: float) -> str:
    return f"{count / 1000:.1f} KB" if count >= 1000 else f"{count:.0f} bytes"


def _seconds(rate: dict[str, float]) -> str:
    return f"{rate['latency_ms'] / 1000:.1f} s"
