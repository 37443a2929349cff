# SPDX-License-Identifier: MIT
"""The pool of pipelines that run in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from peel_gateway.engine.engine import Engine
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_gateway.model.partition import Partition
from peel_gateway.mqtt.client import MqttClient
from peel_gateway.service.pipeline import Pipeline, ready_context
from peel_gateway.settings import Settings
from peel_gateway.storage.store import Store, StoreLost

__all__ = ["Build", "PipelinePool", "SingleWorker", "Worker", "open_engine"]

MayConnect = Callable[[], bool]
Build = Callable[[Partition, Engine, MayConnect, Callable[[], None]], Pipeline]
"""Makes a pipeline from a partition, its engine, `may_connect` and a callback for its end."""


def open_engine(
    settings: Settings,
    store: Store,
    snapshot: FleetSnapshot,
    partition: Partition = Partition(),  # noqa: B008 - immutable
) -> Engine:
    """Return an engine on a partition's store, loaded with its devices; FleetError if a profile cannot be decoded."""
    engine = Engine(
        store,
        residual_limit=settings.screen_residual_limit,
        alpha=settings.screen_alpha,
        accept_unsealed=settings.screen_accept_unsealed,
        withdraw_faulty=settings.screen_withdraw_faulty,
        number_allowance=settings.screen_number_allowance,
        cache_bytes=settings.screen_memory_bytes,
    )
    engine.adopt(ready_context(engine, snapshot, partition))
    return engine


class PipelinePool:
    """Opens and closes pipelines, one per partition, and loads the fleet into them.

    Parameters
    ----------
    build : callable
        Makes a pipeline.
    on_failure : callable
        Called when a pipeline has ended with an error that a retry cannot fix. Losing a lease is not a failure: the worker notices it
        too and abandons the pipeline.
    """

    def __init__(
        self,
        settings: Settings,
        snapshot: FleetSnapshot,
        build: Build,
        *,
        on_failure: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._snapshot = snapshot
        self._build = build
        self._on_failure = on_failure
        self._changing = threading.Lock()
        self._pipelines: dict[Partition, Pipeline] = {}  # replaced, never changed, so that readers need no lock
        self.failure: BaseException | None = None
        """The error that ended a pipeline and that a retry cannot fix."""
        self.drained = True
        """Whether all closed pipelines ended in time, so that their stores may be closed."""
        self.abandoned = 0
        """Messages that closed pipelines had received and could not store."""
        self._batches_before = 0

    @property
    def pipelines(self) -> tuple[Pipeline, ...]:
        """Running pipelines, in the order of their partitions."""
        running = self._pipelines
        return tuple(running[partition] for partition in sorted(running, key=lambda partition: partition.number))

    @property
    def clients(self) -> tuple[MqttClient, ...]:
        return tuple(pipeline.client for pipeline in self.pipelines)

    @property
    def is_leader(self) -> bool:
        """Whether this process does what only one process per fleet does: it has the first partition."""
        return any(partition.first for partition in self._pipelines)

    @property
    def generation(self) -> int:
        """Number of batches stored."""
        return self._batches_before + sum(pipeline.ingest.generation for pipeline in self.pipelines)

    @property
    def pending(self) -> int:
        """Messages received and not acknowledged."""
        return sum(pipeline.inbox.pending for pipeline in self.pipelines)

    def oldest_age(self) -> float:
        """Return the seconds that the oldest pending message has waited."""
        return max((pipeline.inbox.oldest_age() for pipeline in self.pipelines), default=0.0)

    def receipt_age(self) -> float:
        """Return the seconds that the oldest receipt has waited to be sent."""
        return max((client.receipt_age() for client in self.clients), default=0.0)

    def store_problem(self) -> tuple[float, str] | None:
        """Return the seconds for which the store has been failing and the cause; None while it works."""
        found = [problem for pipeline in self.pipelines if (problem := pipeline.ingest.problem()) is not None]
        return max(found, default=None)

    def open(self, partition: Partition, store: Store, *, may_connect: MayConnect = lambda: True) -> None:
        """Start a partition's pipeline on its store; FleetError if the fleet cannot be used. `close` leaves the store open."""
        with self._changing:
            engine = open_engine(self._settings, store, self._snapshot, partition)
            pipeline = self._build(partition, engine, may_connect, lambda: self._ended(partition))
            self._pipelines = {**self._pipelines, partition: pipeline}
        pipeline.start()

    def close(self, partition: Partition) -> bool:
        """Store and acknowledge what a pipeline has received, then end it; False if that took too long."""
        pipeline = self._pipelines[partition]
        ended = pipeline.stop()
        self.drained &= ended
        self.abandoned += pipeline.ingest.abandoned
        self._remove(pipeline)
        return ended

    def abandon(self, partition: Partition) -> bool:
        """End the pipeline of a lost partition without storing anything; False if that took too long."""
        pipeline = self._pipelines[partition]
        ended = pipeline.abandon()
        self._remove(pipeline)
        return ended

    def load(self, snapshot: FleetSnapshot) -> None:
        """Load a new fleet snapshot into all pipelines; FleetError, and no change, if one of them cannot use it."""
        with self._changing:
            pipelines = self.pipelines
            contexts = [ready_context(pipeline.engine, snapshot, pipeline.partition) for pipeline in pipelines]
            self._snapshot = snapshot
            for pipeline, context in zip(pipelines, contexts, strict=True):
                pipeline.adopt(context)

    def _remove(self, pipeline: Pipeline) -> None:
        with self._changing:
            self._batches_before += pipeline.ingest.generation
            self._pipelines = {
                partition: other for partition, other in self._pipelines.items() if other is not pipeline
            }

    def _ended(self, partition: Partition) -> None:
        pipeline = self._pipelines.get(partition)
        failure = pipeline.ingest.failure if pipeline else None
        if failure is not None and not isinstance(failure, StoreLost):
            self.failure = failure
            self._on_failure()


class Worker(Protocol):
    """Decides which pipelines of a pool run in this process."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    @property
    def workers(self) -> int:
        """Number of processes that serve the fleet, including this one."""

    def problem(self) -> tuple[float, str] | None:
        """Return the seconds since leases could last be renewed and the cause; None while they can."""


class SingleWorker:
    """Serves the whole fleet: the only process that writes to an SQLite file."""

    workers = 1

    def __init__(self, pool: PipelinePool, store: Store) -> None:
        self._pool = pool
        self._store = store

    def start(self) -> None:
        self._pool.open(Partition(), self._store)

    def stop(self) -> None:
        self._pool.close(Partition())

    def problem(self) -> tuple[float, str] | None:
        return None
