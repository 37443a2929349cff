# SPDX-License-Identifier: MIT
"""The status of a running gateway: health, summary and gauges."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from peel_gateway.metrics import Metrics
from peel_gateway.mqtt.client import MqttClient
from peel_gateway.queries.responses import Health, StoreState, Summary, moment_or_none
from peel_gateway.queries.views import Views
from peel_gateway.service.fleet_watch import FleetWatch
from peel_gateway.service.pool import PipelinePool, Worker
from peel_gateway.settings import Settings
from peel_gateway.settings.reading import pasteable
from peel_gateway.storage.dead_letters import DeadLetters
from peel_gateway.storage.store import Archive, StoreReplaced

__all__ = ["VERSION", "GatewayStatus"]

_GROWTH_SECONDS = 30.0
"""Minimum uptime before the growth of the store is estimated."""

VERSION = version("peel-telemetry")


@dataclass
class GatewayStatus:
    """The gateway's health and summary, collected from its parts."""

    settings: Settings
    worker_name: str
    """This worker's name; empty if there is only one."""
    fleet: FleetWatch
    store: Archive
    views: Views
    pool: PipelinePool
    worker: Worker
    clients: Callable[[], Sequence[MqttClient]]
    """Returns the clients of all connections to the broker, first the one for statuses."""

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._first_size = self.store.size_bytes()
        self._first: str | None = None
        self._dead_letters = DeadLetters(self.settings.dead_letters_path)

    def health(self) -> list[str]:
        """Return the current causes of bad health, without those that have just begun."""
        causes = []
        for name, problem, patience in (
            ("broker", self._broker_problem(), self.settings.health_broker_seconds),
            ("store", self.pool.store_problem() or self.worker.problem(), self.settings.health_store_seconds),
        ):
            if problem is not None and problem[0] >= patience:
                causes.append(f"{name}: failing for {problem[0]:.0f} s: {problem[1]}")
        try:
            self.store.verify_place()
        except StoreReplaced as error:
            causes.append(f"store: {error}")
        causes += self._lag_causes()
        if any(pipeline.engine.moment.behind for pipeline in self.pool.pipelines):
            causes.append(
                "clock: behind the last batch before the restart; no report is a flood until it is set. "
                "Set the clock, or run `peel gateway clock --believe` if it is right"
            )
        if self.fleet.restored:
            causes.append(f"fleet: {self.fleet.problem}")
        if self.pool.failure is not None:
            causes.append(f"ingest: ended: {type(self.pool.failure).__name__}")
        return list(map(pasteable, causes))

    def _lag_causes(self) -> list[str]:
        lag, receipt_lag, limit = self.pool.oldest_age(), self.pool.receipt_age(), self.settings.health_lag_seconds
        causes = []
        if lag > limit + self.settings.batch_seconds:
            causes.append(f"lag: the oldest message has waited for {lag:.0f} s to be stored")
        if receipt_lag > limit:
            causes.append(f"lag: the oldest receipt has waited for {receipt_lag:.0f} s to be sent")
        return causes

    def health_response(self) -> Health:
        """Return the causes of bad health and the numbers that warn early, without a query to the store."""
        return {
            "causes": self.health(),
            "dead_letters": len(self._dead_letters),
            "lag_seconds": round(self.pool.oldest_age(), 3),
            "receipt_lag_seconds": round(self.pool.receipt_age(), 3),
        }

    def summary(self) -> Summary:
        """Return the state of the whole gateway."""
        problem, clients = self._broker_problem(), self.clients()
        return {
            "fleet": self.fleet.name,
            "version": VERSION,
            "uptime_seconds": round(time.monotonic() - self._began, 1),
            "totals": self.views.totals(),
            "devices": self.views.device_counts().response(time.time()),
            "accident": self.views.accident(),
            "broker": {
                "connected": problem is None,
                "mqtt": clients[0].version if clients else None,
                "away_seconds": None if problem is None else round(problem[0], 1),
            },
            "worker": {
                "name": self.worker_name or None,
                "workers": self.worker.workers,
                "partitions": [pipeline.partition.number for pipeline in self.pool.pipelines],
                "partition_count": self.store.partitions,
            },
            "reload": {"refused": self.fleet.problem and pasteable(self.fleet.problem)},
            "inbox": {"pending": self.pool.pending, "oldest_seconds": round(self.pool.oldest_age(), 3)},
            "store": self._store_state(),
            "health": self.health(),
        }

    def register_metrics(self, metrics: Metrics) -> None:
        """Register the gauges."""
        metrics.watch_store(self.store)
        metrics.watch_devices(self.views)
        for name, text, value in (
            ("peel_inbox_messages", "Messages received and not yet acknowledged.", lambda: self.pool.pending),
            ("peel_lag_seconds", "Age of the oldest message that waits to be stored.", self.pool.oldest_age),
            ("peel_receipt_lag_seconds", "Age of the oldest receipt that waits to be sent.", self.pool.receipt_age),
            ("peel_broker_connected", "Whether reports can arrive.", lambda: self._broker_problem() is None),
            ("peel_store_failing", "Whether commits fail.", lambda: self.pool.store_problem() is not None),
            (
                "peel_dead_letters",
                "Messages that could not be processed, in files beside the store.",
                lambda: len(self._dead_letters),
            ),
            ("peel_partitions", "Partitions of the fleet that this process serves.", lambda: len(self.pool.pipelines)),
            ("peel_workers", "Processes that serve the fleet.", lambda: self.worker.workers),
            ("peel_devices", "Registered devices.", lambda: len(self.fleet.snapshot.devices)),
            ("peel_revoked_devices", "Revoked devices.", lambda: len(self.fleet.snapshot.revoked)),
            (
                "peel_fleet_refused",
                "Whether the current fleet folder cannot be used.",
                lambda: self.fleet.problem is not None,
            ),
        ):
            metrics.watch(name, text, value)

    def _broker_problem(self) -> tuple[float, str] | None:
        """Return the longest time without a connection and its cause; None if all are connected."""
        return max((problem for client in self.clients() if (problem := client.problem())), default=None)

    def _store_state(self) -> StoreState:
        size, uptime = self.store.size_bytes(), time.monotonic() - self._began
        return {
            "bytes": size,
            "bytes_per_day": round((size - self._first_size) / uptime * 86400) if uptime >= _GROWTH_SECONDS else None,
            "bucket_seconds": self.store.bucket_seconds,
            "first_received": self._first_received(),
            "dead_letters": len(self._dead_letters),
        }

    def _first_received(self) -> str | None:
        """Return the time of the first report. It is cached once there is one."""
        if self._first is None:
            self._first = moment_or_none(self.store.first_received())
        return self._first
