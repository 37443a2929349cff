# SPDX-License-Identifier: MIT
"""A field with several workers on one PostgreSQL database."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Any

from field import Field
from helpers import wait_until

from peel_gateway.model.verdict import Verdict
from peel_tools.servers.gateway import GatewayProcess

LEASE_SECONDS = 1.5
PARTITIONS = 8
_AT_ONCE = 40
_PAUSE_SECONDS = 0.1


class Yard:
    """Workers of a field. All of them, and all commands, use one schema of a server."""

    def __init__(self, field: Field, url: str, **settings: object) -> None:
        self.field = field
        self._settings: dict[str, object] = {
            "store_url": url,
            "store_partitions": PARTITIONS,
            "worker_lease_seconds": LEASE_SECONDS,
            "publish_seconds": 0.5,
            **settings,
        }
        self.workers: list[GatewayProcess] = []

    def hire(self, count: int = 1) -> list[GatewayProcess]:
        """Start further workers."""
        new = []
        for _ in range(count):
            name = f"worker{len(self.workers)}"
            new.append(self.field.new_gateway(name, worker_name=name, **self._settings))
            self.workers.append(new[-1].start())
        return new

    def owned(self, worker: GatewayProcess) -> list[int]:
        """The partitions that a worker says it serves; none where it does not answer."""
        summary: Any = worker.ask("/api/summary") if worker.pid is not None else None
        return list(summary["worker"]["partitions"]) if summary else []

    def wait_shared(self, *workers: GatewayProcess, seconds: float = 40.0) -> list[int]:
        """Wait until these workers serve all partitions between them, each as many as is fair; return how many each has."""
        fair = {PARTITIONS // len(workers), -(-PARTITIONS // len(workers))}

        def settled() -> bool:
            found = [self.owned(worker) for worker in workers]
            all_of_them = sorted(partition for partitions in found for partition in partitions)
            return all_of_them == list(range(PARTITIONS)) and set(map(len, found)) <= fair

        wait_until(settled, f"{len(workers)} workers with all partitions", seconds)
        return [len(self.owned(worker)) for worker in workers]

    def leases(self, worker: GatewayProcess) -> Any:
        """Return the output of `peel gateway workers --json`."""
        done = worker.command("workers", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def accepted(self) -> int:
        """Reports that count, in all partitions."""
        with self.workers[0].store() as archive:
            return archive.counts().verdicts.get(Verdict.ACCEPTED, 0)

    def audit(self, published: Sequence[tuple[str, bytes]], seconds: float = 60.0) -> None:
        """Everything was counted, once; nobody is exposed; and all that is published follows from the logs."""
        wait_until(lambda: self.accepted() >= len(published), f"acceptance of {len(published)} reports", seconds)
        for worker in self.workers:
            if worker.pid is not None:
                assert worker.stop() == 0, worker.log_tail()
        with self.workers[0].store() as archive:
            counts = archive.counts()
            found = {verdict: count for verdict, count in counts.verdicts.items() if count}
            assert found.pop(Verdict.ACCEPTED) == len(published)
            assert set(found) <= {Verdict.REDELIVERED}, found
            assert counts.exposed_devices == 0
            logged = archive.device_reports()
        assert sum(by_verdict.get(Verdict.ACCEPTED, 0) for by_verdict in logged.values()) == len(published)
        recount = self.workers[0].command("recount")
        assert recount.returncode == 0, recount.stdout + recount.stderr


class Load:
    """Publishes reports, some at a time, while it is entered."""

    def __init__(self, field: Field) -> None:
        self.sent: list[tuple[str, bytes]] = []
        self._field = field
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(_PAUSE_SECONDS):
            batch = self._field.reports(_AT_ONCE)
            while not self._published(batch):  # again and again, as devices do: what comes twice counts once
                time.sleep(_PAUSE_SECONDS)
            self.sent += batch

    def _published(self, batch: Sequence[tuple[str, bytes]]) -> bool:
        try:
            self._field.publish(batch)
        except (OSError, RuntimeError):
            return False
        return True
