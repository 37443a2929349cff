# SPDX-License-Identifier: MIT
"""The costs of growth: throughput and memory by attributes, devices, log, exposures, and an open page.

Each figure comes from a separate process with its fleet folder and database. Throughput is in reports per second of CPU time, from message
to commit, so that a busy machine matters little. The time for the page counts as well. Along an axis only one quantity grows, and
`largest_over_smallest` is the remaining throughput.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from peel_gateway.engine.engine import Engine
from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import FleetSnapshot, take_snapshot
from peel_gateway.model.messages import MessageBatch
from peel_gateway.model.verdict import Verdict
from peel_gateway.queries.exposed import Cases
from peel_gateway.queries.parameters import DeviceQuery, EstimateQuery, ExposedQuery
from peel_gateway.queries.views import Views
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_research.bench.alone import alone
from peel_research.bench.workload import BATCH, Workload
from peel_tools.profiles.drafts import Draft
from peel_tools.servers.broker import Broker
from peel_tools.servers.gateway import GatewayProcess
from peel_tools.simulation.session import fleet_of

__all__ = ["FULL", "SHORT", "Growth", "Stage", "measure"]

_NAME = "bench"
_PAGE_SECONDS = 1.0
_PIECE_BYTES = 24
_START_SECONDS = 300.0

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """The state of the gateway before a measurement."""

    k: int = 16
    registered: int = 500
    speaking: int = 500
    log_rows: int = 0
    exposures: int = 0
    page: bool = False


@dataclass(frozen=True, kw_only=True)
class Growth:
    """The measurement: axes along which one quantity grows, and the number of devices at the start."""

    axes: Mapping[str, Sequence[Stage]]
    batches: int
    """Batches of 2000 reports per figure."""
    registered: int

    @property
    def steps(self) -> int:
        """The number of progress reports."""
        return sum(map(len, self.axes.values())) + 1


def _axes(
    *,
    k: Sequence[int],
    registered: Sequence[int],
    speaking: Sequence[int],
    log: Sequence[int],
    exposures: Sequence[int],
) -> dict[str, list[Stage]]:
    return {
        "k": [Stage(k=each) for each in k],
        "registered": [Stage(registered=each, speaking=registered[0]) for each in registered],
        "speaking": [Stage(registered=speaking[-1], speaking=each) for each in speaking],
        "log_rows": [Stage(log_rows=each) for each in log],
        "exposures": [Stage(exposures=each) for each in exposures],
        "page": [Stage(page=each) for each in (False, True)],
    }


FULL = Growth(
    axes=_axes(
        k=(1, 16, 64, 252, 1024),
        registered=(10**2, 10**3, 10**4, 10**5, 10**6),
        speaking=(10**2, 10**3, 10**4, 10**5),
        log=(10**4, 10**5, 10**6, 10**7),
        exposures=(0, 10**3, 10**5),
    ),
    batches=50,
    registered=10**6,
)
SHORT = Growth(
    axes=_axes(k=(1, 64), registered=(10**2, 10**4), speaking=(10**2, 10**3), log=(0, 10**4), exposures=(0, 10**3)),
    batches=3,
    registered=10**4,
)


def measure(growth: Growth = FULL, on_progress: Progress = lambda _: None) -> dict[str, Any]:
    """The figures of ``peel bench growth``."""
    figures: dict[str, Any] = {}
    for name, stages in growth.axes.items():
        points = []
        for stage in stages:
            points.append({name: getattr(stage, name)} | alone(_point, stage, growth.batches))
            on_progress(f"{name} {getattr(stage, name)}")
        ratio = points[-1]["reports_per_cpu_s"] / points[0]["reports_per_cpu_s"]
        figures[name] = {"points": points, "largest_over_smallest": round(ratio, 2)}
    figures["start"] = alone(_start, growth.registered)
    on_progress("start")
    return figures


def _make_fleet(folder: Path, k: int, devices: int) -> Fleet:
    """A fleet folder with so many devices, each with a bundle: what `peel fleet add` makes, but for the bundles' files."""
    rows = [{"name": f"a{place}", "kind": "mean", "low": 0, "high": 1} for place in range(k)]
    path = folder.with_name("bench.toml")
    path.write_text(
        Draft(name=_NAME, attributes=rows, quota=1_000_000, period=1, verify=False).text(), encoding="utf-8"
    )
    return fleet_of(folder, _NAME, [path], {_NAME: devices})


def _point(stage: Stage, batches: int) -> dict[str, Any]:
    """Throughput and memory of an engine at one stage."""
    with tempfile.TemporaryDirectory() as folder:
        snapshot = take_snapshot(_make_fleet(Path(folder) / "fleet", stage.k, stage.registered))
        workload = Workload(snapshot, stage.speaking)
        store = SqliteStore(Path(folder) / "bench.sqlite")
        engine = Engine(store)
        engine.load(snapshot)
        _prepare(engine, workload, stage)
        with _page(store, snapshot) if stage.page else _nothing():
            spent, passed, reports = _timed(engine, workload, batches)
        _check(store, stage, reports)
        size = store.size_bytes()
        store.close()
    return {
        "reports_per_cpu_s": round(reports / spent),
        "reports_per_s": round(reports / passed),
        "rss_mb": round(_memory_mb(os.getpid(), "VmHWM")),
        "store_mb": round(size / 1e6, 1),
    }


def _prepare(engine: Engine, workload: Workload, stage: Stage) -> None:
    """Fill the log and the quarantine; everybody who will speak has spoken once."""
    reports = max(stage.log_rows, workload.first_contacts * BATCH)
    for _ in range(-(-reports // BATCH)):
        engine.process(workload.batch())
    for first in range(0, stage.exposures, BATCH):
        engine.process(_junk(min(BATCH, stage.exposures - first)))


def _junk(count: int) -> MessageBatch:
    """Pieces that are no reports, each of other bytes: all of them are held."""
    ends = np.arange(1, count + 1, dtype=np.uint64)
    return MessageBatch(
        payloads=os.urandom(_PIECE_BYTES * count),
        payload_ends=ends * np.uint64(_PIECE_BYTES),
        topics=b"t" * count,
        topic_ends=ends,
        received=np.full(count, round(time.time() * 1000), np.int64),
    )


def _timed(engine: Engine, workload: Workload, batches: int) -> tuple[float, float, int]:
    """CPU seconds and seconds of some batches, and their reports; encoding them does not count."""
    spent = passed = 0.0
    for _ in range(batches):
        messages = workload.batch()
        cpu, wall = time.process_time(), time.perf_counter()
        engine.process(messages)
        spent += time.process_time() - cpu
        passed += time.perf_counter() - wall
    return spent, passed, batches * BATCH


def _check(store: SqliteStore, stage: Stage, reports: int) -> None:
    counts = store.counts()
    honest = counts.verdicts[Verdict.ACCEPTED]
    if honest < reports or counts.exposed != stage.exposures:
        raise RuntimeError(
            f"{honest} reports accepted and {counts.exposed} refused: that is not what is to be measured"
        )


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _page(store: SqliteStore, snapshot: FleetSnapshot) -> Iterator[None]:
    """Ask for what an open page shows, once a second, on a thread of its own."""
    views = Views(store, lambda: snapshot)
    cases = Cases(store, lambda: snapshot, residual_limit=3e-3)
    closed = threading.Event()

    def look() -> None:
        while not closed.is_set():
            views.totals()
            views.estimates(EstimateQuery(devices=False))
            views.devices(DeviceQuery())
            cases.devices(ExposedQuery())
            closed.wait(_PAGE_SECONDS)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        closed.set()
        thread.join()


def _start(devices: int) -> dict[str, Any]:
    """A whole gateway with so many registered devices: from nothing to a connection with its broker, and the memory that it then has."""
    with tempfile.TemporaryDirectory() as folder, Broker() as broker:
        began = time.perf_counter()
        fleet = _make_fleet(Path(folder) / "fleet", Stage().k, devices)
        made = time.perf_counter() - began
        gateway = GatewayProcess(
            fleet=fleet.folder, folder=Path(folder), broker_port=broker.port, settings={"http_port": 0}
        )
        began = time.perf_counter()
        gateway.start(until="started")
        pid = gateway.pid
        assert pid is not None
        gateway.wait_for(lambda: gateway.connections() == 2, _START_SECONDS, "its connections to the broker")
        started = time.perf_counter() - began
        figures = {
            "registered": devices,
            "provision_s": round(made, 1),
            "start_s": round(started, 1),
            "start_cpu_s": round(_cpu_seconds(pid), 1),
            "rss_mb": round(_memory_mb(pid, "VmRSS")),
            "rss_peak_mb": round(_memory_mb(pid, "VmHWM")),
            "devices_file_mb": round((fleet.folder / "devices.jsonl").stat().st_size / 1e6, 1),
        }
        gateway.stop()
    return figures


def _memory_mb(pid: int, field: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition(f"{field}:")[2].split()[0]) / 1024


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
