# SPDX-License-Identifier: MIT
"""Disk writes and stored bytes per report, and the latency of the delay that saves writes.

Written: a real gateway with its defaults behind a real mosquitto, whose devices report at random moments. The kernel counts the bytes of
the process until it has ended, including its last checkpoint. Stored: the size of the file after many reports, on an engine whose clock
runs ahead.
"""

from __future__ import annotations

import functools
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from peel_gateway.engine.clock import Reading, read_clock
from peel_gateway.engine.engine import Engine
from peel_gateway.model.messages import Message
from peel_gateway.model.verdict import Verdict
from peel_gateway.settings import Settings
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_gateway.storage.store import Archive
from peel_research.bench.load import DEVICES, Load, written_bytes
from peel_tools.servers.broker import AnyBroker, Broker
from peel_tools.servers.gateway import GatewayProcess, Site

__all__ = ["RATES", "measure"]

RATES = (1, 10, 1000)
"""Reports per second, of all devices together."""
SECONDS = 60.0
STORED = 200_000
_K = 16
_WARM_UP = 4
"""Reports of each device before anything is counted."""
_POLL_SECONDS = 0.01
_LARGEST_BATCH = 8192
_HOUR = 3600.0

Floats = npt.NDArray[np.float64]
Progress = Callable[[float], None]
"""Takes seconds that have passed."""


def measure(
    *,
    rates: Sequence[int] = RATES,
    seconds: float = SECONDS,
    stored: int = STORED,
    batch_seconds: float | None = None,
    on_progress: Progress = lambda passed: None,
) -> dict[str, Any]:
    """The figures of ``peel bench disk``, each rate for so many seconds, and the file's size after so many reports."""
    if batch_seconds is None:
        batch_seconds = Settings().batch_seconds
    figures: dict[str, Any] = {
        "devices": DEVICES,
        "k": _K,
        "batch_seconds": batch_seconds,
        "seconds": seconds,
        "stored_reports": stored,
    }
    for place, rate in enumerate(rates):
        with tempfile.TemporaryDirectory() as folder:
            load = Load(Path(folder) / "fleet", _K)
            kept = {"stored_bytes_per_report": round(_stored(load, Path(folder) / "ahead.sqlite", rate, stored), 1)}
            site = Site(Path(folder), load.fleet, Broker(embedded=False))
            site.add_gateway(settings={"batch_seconds": batch_seconds})
            with site:
                passed = functools.partial(_further, on_progress, place * seconds)
                figures[f"r{rate}"] = _run(site, load, rate, seconds, passed) | kept
    return figures


def _further(on_progress: Progress, before: float, passed: float) -> None:
    on_progress(before + passed)


# ---- written ----


def _run(site: Site, load: Load, rate: float, seconds: float, on_progress: Progress) -> dict[str, float]:
    gateway, line = site.gateway, _Line(site.broker)
    _warm_up(gateway, line, load)
    gateway.start()
    pid = gateway.pid
    assert pid is not None
    before = written_bytes(pid)
    with gateway.store() as store:  # and not open any more when the gateway ends: the last one makes the checkpoint
        latency = _pace(line, load, store, rate, seconds, on_progress)
    line.close()
    written = _written_at_the_end(gateway, pid) - before
    return {
        "reports": len(latency),
        "written_bytes_per_report": round(written / len(latency)),
        "latency_ms": round(1000 * float(latency.mean())),
        "latency_ms_p99": round(1000 * float(np.quantile(latency, 0.99))),
    }


def _warm_up(gateway: GatewayProcess, line: _Line, load: Load) -> None:
    """Let each device report: first reports make rows, later ones change them. Then start afresh, with an empty write-ahead log."""
    messages = load.messages(_WARM_UP * DEVICES)
    line.send(messages)
    with gateway.store() as store:
        gateway.wait_for(lambda: _accepted(store) == len(messages), what="what warms it up")
    gateway.stop()


class _Line:
    """A connection that publishes."""

    def __init__(self, broker: AnyBroker) -> None:
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id="bench-publisher")
        self._client.connect(broker.host, broker.port)
        self._client.loop_start()

    def send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        for topic, payload in messages:
            self._client.publish(topic, payload, qos=1)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def _pace(line: _Line, load: Load, store: Archive, rate: float, seconds: float, on_progress: Progress) -> Floats:
    """Publish at random moments; return how long it took until each report was committed."""
    due = np.cumsum(np.random.default_rng().exponential(1 / rate, max(1, round(rate * seconds))))
    messages, before = load.messages(len(due)), _accepted(store)
    sent, committed = np.zeros(len(due)), np.zeros(len(due))
    started, done, stored = time.monotonic(), 0, 0
    while stored < len(due):
        now = time.monotonic()
        ready = int(np.searchsorted(due, now - started))
        line.send(messages[done:ready])
        sent[done:ready], done = now, ready
        count = _accepted(store) - before
        committed[stored:count], stored = time.monotonic(), count
        on_progress(min(now - started, seconds))
        time.sleep(_POLL_SECONDS)
    return committed - sent


def _accepted(store: Archive) -> int:
    return store.counts().verdicts[Verdict.ACCEPTED]


def _written_at_the_end(gateway: GatewayProcess, pid: int) -> int:
    """End it in order, and read what it has written before it is gone."""
    gateway.signal(signal.SIGTERM)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    written = written_bytes(pid)
    gateway.stop()
    return written


# ---- stored ----


def _stored(load: Load, path: Path, rate: float, reports: int) -> float:
    """Bytes of the file per report, with the chores that a gateway does every hour."""
    store = SqliteStore(path)
    clock = _Ahead()
    engine = Engine(store, clock=clock)
    engine.load(load.snapshot)
    size = min(_LARGEST_BATCH, round(rate * store.bucket_seconds))
    chores_due = clock.now + _HOUR
    for first in range(0, reports, size):
        clock.now += size / rate
        batch = load.messages(min(size, reports - first))
        engine.process([Message(topic, payload, clock.now) for topic, payload in batch])
        if clock.now >= chores_due:
            chores_due = clock.now + _HOUR
            engine.prune(None)
    accepted = _accepted(store)
    store.close()
    if accepted != reports:
        raise RuntimeError(f"{accepted} of {reports} honest reports were accepted: that is not what is to be measured")
    return path.stat().st_size / reports


class _Ahead:
    """A clock that is told what time it is."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> Reading:
        return Reading(round(self.now * 1000), read_clock().boot, round(self.now * 1000))
