# SPDX-License-Identifier: MIT
"""The gain of several workers: throughput and CPU time per report with 1, 2 and 4, and the database's work per report.

All processes are real: workers on a PostgreSQL server that flushes every commit, a mosquitto, a fleet folder with many devices of which
some report. The workers are stopped (SIGSTOP) while the broker gets the reports, so that all begin at once with full queues. Time runs
from their release to the last report, because commits are large. CPU times are those of the processes, so other load does not count.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.store import Archive
from peel_research.bench.load import Load, cpu_seconds, publish, rss_mb
from peel_tools.servers.broker import Broker
from peel_tools.servers.gateway import GatewayError, GatewayProcess, Site
from peel_tools.servers.postgres import PostgresServer

__all__ = ["FULL", "SHORT", "Scale", "measure"]

PARTITIONS = 8
_K = 16
_POLL_SECONDS = 0.05
_PATIENCE = 600.0

Progress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The size of the fleet, and the part of it that reports."""

    registered: int
    speaking: int
    reports: int
    workers: Sequence[int]
    lease_seconds: float

    @property
    def steps(self) -> int:
        """The number of progress reports."""
        return len(self.workers) + 1


FULL = Scale(registered=1_000_000, speaking=20_000, reports=100_000, workers=(1, 2, 4), lease_seconds=10.0)
SHORT = Scale(registered=2_000, speaking=400, reports=4_000, workers=(1, 2), lease_seconds=2.0)


def measure(scale: Scale = FULL, on_progress: Progress = lambda _: None) -> dict[str, Any]:
    """The figures of ``peel bench scale``."""
    figures: dict[str, Any] = {
        "registered": scale.registered,
        "speaking": scale.speaking,
        "reports": scale.reports,
        "k": _K,
        "partitions": PARTITIONS,
        "processors": os.cpu_count(),
    }
    with tempfile.TemporaryDirectory() as folder:
        load = Load(Path(folder) / "fleet", _K, devices=scale.speaking, registered=scale.registered)
        on_progress("fleet")
        for count in scale.workers:
            home = Path(folder) / f"workers{count}"
            home.mkdir()
            figures[f"w{count}"] = _run(load, home, count, scale)
            on_progress(f"{count} workers")
    first = figures[f"w{scale.workers[0]}"]["reports_per_s"]
    for count in scale.workers[1:]:
        figures[f"speedup_{count}"] = round(figures[f"w{count}"]["reports_per_s"] / first, 2)
    return figures


def _run(load: Load, folder: Path, count: int, scale: Scale) -> dict[str, float]:
    with _server() as server, Site(folder, load.fleet, Broker(embedded=False)) as site:
        settings = {
            "store_url": server.url,
            "store_partitions": PARTITIONS,
            "worker_lease_seconds": scale.lease_seconds,
        }
        workers = [site.add_gateway(f"worker{place}", settings) for place in range(count)]
        for worker in workers:
            worker.start(until="started")
        _wait(lambda: _shared(workers), "all partitions to be served")
        with workers[0].store() as archive, psycopg.connect(server.url, autocommit=True) as admin:
            drained = _drained(site, server, workers, load.messages(scale.reports), archive, admin)
            memory = max(rss_mb(_pid(worker)) for worker in workers)
            taken_over = _takeover(workers) if count == 2 else {}
        return drained | {"rss_mb": round(memory)} | taken_over


def _server() -> PostgresServer:
    return PostgresServer(shared_preload_libraries="pg_stat_statements", shared_buffers="256MB", max_wal_size="4GB")


def _pid(worker: GatewayProcess) -> int:
    if worker.pid is None:
        raise GatewayError(f"a worker has ended; end of its log:\n{worker.log_tail()}")
    return worker.pid


def _partitions_of(worker: GatewayProcess) -> list[int]:
    summary: Any = worker.ask("/api/summary")
    return list(summary["worker"]["partitions"]) if summary and summary["broker"]["connected"] else []


def _shared(workers: Sequence[GatewayProcess]) -> bool:
    """Whether these workers serve everything between them, each as much as the others."""
    each = [_partitions_of(worker) for worker in workers]
    return (
        sorted(partition for partitions in each for partition in partitions) == list(range(PARTITIONS))
        and len({len(partitions) for partitions in each}) == 1
    )


def _drained(
    site: Site,
    server: PostgresServer,
    workers: Sequence[GatewayProcess],
    messages: Sequence[tuple[str, bytes]],
    archive: Archive,
    admin: psycopg.Connection,
) -> dict[str, float]:
    """Queue the messages, let go, and count."""
    for worker in workers:
        worker.signal(signal.SIGSTOP)
    publish(site.broker, messages)
    admin.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
    before = _Spent.now(site, server, workers, admin)
    for worker in workers:
        worker.signal(signal.SIGCONT)
    seconds, waits = _watch(workers, archive, admin, len(messages))
    spent = _Spent.now(site, server, workers, admin).since(before)
    count = len(messages)
    return {
        "reports_per_s": round(count / seconds),
        "cpu_us_per_report": round(1e6 * spent.workers / count, 1),
        "broker_cpu_us_per_report": round(1e6 * spent.broker / count, 1),
        "database_cpu_us_per_report": round(1e6 * spent.database / count, 1),
        "wal_bytes_per_report": round(spent.wal_bytes / count, 1),
        "statements_per_report": round(spent.statements / count, 3),
        "reports_per_transaction": round(count / max(1, spent.transactions)),
        "lock_wait_share": round(waits, 3),
    }


@dataclass(frozen=True)
class _Spent:
    """The resources used so far by all processes."""

    workers: float
    broker: float
    database: float
    wal_bytes: float
    statements: float
    transactions: float

    @classmethod
    def now(
        cls, site: Site, server: PostgresServer, workers: Sequence[GatewayProcess], admin: psycopg.Connection
    ) -> _Spent:
        ((wal,),) = admin.execute("SELECT wal_bytes::float8 FROM pg_stat_wal").fetchall()
        ((statements, commits),) = admin.execute(
            """SELECT coalesce(sum(calls), 0)::float8, coalesce(sum(calls) FILTER (WHERE query ILIKE 'COMMIT%'), 0)::float8
               FROM pg_stat_statements"""
        ).fetchall()
        return cls(
            workers=sum(cpu_seconds(_pid(worker)) for worker in workers),
            broker=cpu_seconds(site.broker.pid or 0),
            database=sum(map(cpu_seconds, server.processes())),
            wal_bytes=wal,
            statements=statements,
            transactions=commits,
        )

    def since(self, before: _Spent) -> _Spent:
        return _Spent(*(now - then for now, then in zip(vars(self).values(), vars(before).values(), strict=True)))


def _watch(
    workers: Sequence[GatewayProcess], archive: Archive, admin: psycopg.Connection, count: int
) -> tuple[float, float]:
    """Seconds until so many reports are stored; the part of busy sessions that waited for another's lock."""
    busy = waiting = 0
    began = time.monotonic()
    while (stored := archive.counts().verdicts.get(Verdict.ACCEPTED, 0)) < count:
        ((active, locked),) = admin.execute(
            """SELECT count(*), count(*) FILTER (WHERE wait_event_type = 'Lock') FROM pg_stat_activity
               WHERE state = 'active' AND application_name LIKE 'peel % epoch %'"""
        ).fetchall()
        busy, waiting = busy + active, waiting + locked
        for worker in workers:
            _pid(worker)
        if time.monotonic() > began + _PATIENCE:
            raise GatewayError(f"{stored} of {count} reports were stored within {_PATIENCE:g} s")
        time.sleep(_POLL_SECONDS)
    return time.monotonic() - began, waiting / max(1, busy)


def _takeover(workers: Sequence[GatewayProcess]) -> dict[str, float]:
    """Kill one of two, and time how long its partitions are nobody's."""
    killed, left = workers
    killed.kill()
    began = time.monotonic()
    _wait(lambda: _shared([left]), "the partitions of a killed worker")
    return {"takeover_s": round(time.monotonic() - began, 1)}


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise GatewayError(f"waited {_PATIENCE:g} s for {what}")
        time.sleep(_POLL_SECONDS)
