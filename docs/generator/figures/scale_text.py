# SPDX-License-Identifier: MIT
"""Figures of several workers on PostgreSQL: throughput and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docs.generator.figures.record import figures
from docs.generator.figures.words import listed, paragraph, rounded, run_sentence, table
from peel_research.bench.scale import FULL

__all__ = ["scale", "sizes"]

_WORKERS = (1, 2, 4)


def scale() -> str:
    """Return the measurement with several workers."""
    return f"{paragraph(_what_ran())}\n{run_sentence('scale')}\n{_table()}\n{paragraph(_what_it_says())}"


def _runs() -> list[Mapping[str, Any]]:
    run = figures("scale")
    return [run[f"w{count}"] for count in _WORKERS]


def _what_ran() -> str:
    run = figures("scale")
    return (
        f"{run['registered']:,} devices registered, k = {run['k']}, {run['partitions']} partitions; {run['speaking']:,} of "
        f"them send {run['reports']:,} reports, {run['reports'] / run['speaking']:g} each, which wait in mosquitto "
        "until all workers begin at once. PostgreSQL flushes every commit; everything runs on one machine with "
        f"{run['processors']} cores."
    )


def _table() -> str:
    lines = {
        "reports/s": lambda run: rounded(run["reports_per_s"]),
        "CPU of the workers, per report": lambda run: f"{run['cpu_us_per_report']:.0f} µs",
        "CPU of PostgreSQL, per report": lambda run: f"{run['database_cpu_us_per_report']:.0f} µs",
        "CPU of mosquitto, per report": lambda run: f"{run['broker_cpu_us_per_report']:.0f} µs",
        "write-ahead log of PostgreSQL, per report": lambda run: f"{run['wal_bytes_per_report']:.0f} bytes",
        "statements, per report": lambda run: f"{run['statements_per_report']:.3f}",
        "reports per transaction": lambda run: rounded(run["reports_per_transaction"], 2),
        "busy sessions that waited for a lock": lambda run: f"{run['lock_wait_share']:.1%}",
        "memory of a worker": lambda run: f"{run['rss_mb']} MB",
        f"from SIGKILL until its partitions are served, leases of {FULL.lease_seconds:g} s": lambda run: (
            f"{run['takeover_s']} s" if "takeover_s" in run else ""
        ),
    }
    header = ["", *(f"{count} worker{'s' if count > 1 else ''}" for count in _WORKERS)]
    return table(header, [[name, *map(show, _runs())] for name, show in lines.items()])


def _what_it_says() -> str:
    run, (alone, *_) = figures("scale"), _runs()
    each = sum(alone[f"{part}cpu_us_per_report"] for part in ("", "database_", "broker_"))
    cores = run["processors"] * 1e6 / each
    gains = listed([f"with {count} {run[f'speedup_{count}']:.2f} times as many" for count in _WORKERS[1:]])
    return (
        f"Workers, database and broker share {run['processors']} cores here. With one worker a report takes {each:.0f} "
        f"µs of CPU time altogether, so all of these cores would do {rounded(cores)} reports/s, and more workers only "
        f"share them: {gains} reports per second as with one. How far workers carry on machines of their own has not "
        f"been measured. One report in {run['reports'] / run['speaking']:g} was its device's first, which costs more "
        f"than later ones, because it makes its rows: the same gateway on SQLite with 500 devices that keep reporting "
        f"needs {_engine_us():.1f} µs ([figures](lab-and-figures.md#the-engine))."
    )


def sizes() -> str:
    """Return the sizes to plan with, part by part."""
    start = figures("growth")["start"]
    rows = [
        [
            "a partition",
            f"{_range('cpu_us_per_report')} µs of one core per report while devices are new; {_engine_us():.0f} later, "
            "on SQLite",
            "one core: its screening is one thread",
        ],
        [
            "a worker",
            f"{rounded(start['rss_mb'] * 1e6 / start['registered'], 2)} MB per million registered devices, and "
            "`screen.memory_bytes` at most for each partition it owns",
            "its share of the cores",
        ],
        [
            "the database",
            f"{_range('database_cpu_us_per_report')} µs of CPU and up to {_most('wal_bytes_per_report'):.0f} bytes of "
            "write-ahead log per report; one transaction per partition and `batch.seconds` at most when it is quiet",
            f"its disk: some {_stored_bytes():.0f} bytes per report for `store.retention_days`, and what each device takes "
            "([disk](deploy.md#disk))",
        ],
        [
            "the broker",
            f"{_range('broker_cpu_us_per_report')} µs of CPU per report to deliver, and what receiving takes (not "
            "measured); queues for the longest outage",
            "mosquitto: one core, and its connections",
        ],
        [
            "takeover",
            "`worker.lease_seconds` and up to half of that again",
            "1 s at the least; the network between worker and database must keep up with it",
        ],
    ]
    return table(["part", "plan with", "limit"], rows)


def _engine_us() -> float:
    """CPU time of a report on one gateway whose devices keep reporting."""
    return float(figures("engine")["k16_d500"]["cpu_us_per_report"])


def _stored_bytes() -> float:
    """Return the stored bytes per report, at rates where device states hardly count."""
    return max(float(figures("disk")[rate]["stored_bytes_per_report"]) for rate in ("r10", "r1000"))


def _most(field: str) -> float:
    return max(float(run[field]) for run in _runs())


def _range(field: str) -> str:
    values = sorted(run[field] for run in _runs())
    low, high = f"{values[0]:.0f}", f"{values[-1]:.0f}"
    return low if low == high else f"{low} to {high}"
