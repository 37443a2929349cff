# SPDX-License-Identifier: MIT
"""A pipeline: receives one partition of the fleet's reports from the broker and stores them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Keyring
from peel_gateway.engine.engine import Engine
from peel_gateway.fleet.folder import FleetError
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_gateway.logs import Log
from peel_gateway.metrics import Metrics
from peel_gateway.model.partition import Partition
from peel_gateway.mqtt.client import MqttClient
from peel_gateway.mqtt.connection import report_session
from peel_gateway.mqtt.inbox import Inbox
from peel_gateway.mqtt.ingest import Ingest
from peel_gateway.mqtt.receipts import Receipts
from peel_gateway.notifiers.alarm import Alarm
from peel_gateway.screening.decode_context import DecodeContext, DeviceSource
from peel_gateway.settings import Settings
from peel_gateway.storage.store import StoreError

__all__ = ["DRAIN_SECONDS", "Pipeline", "ready_context", "registry_of"]

Ints = npt.NDArray[np.int64]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Part:
    """A fleet with the keys of one partition, so that a worker's memory grows with its part of the fleet."""

    fleet: DeviceSource
    keyring: Keyring
    revoked: frozenset[int]

    def enrolled_at(self, devices: Ints) -> Floats:
        return self.fleet.enrolled_at(devices)

    def issued_at(self, devices: Ints) -> tuple[Ints, Floats]:
        return self.fleet.issued_at(devices)


def registry_of(fleet: DeviceSource, partition: Partition) -> DeviceSource:
    """Return the part of a fleet that belongs to a partition."""
    if partition.whole:
        return fleet
    keyring = fleet.keyring.only(partition.has(fleet.keyring.device_ids))
    return _Part(
        fleet, keyring, frozenset(device for device in fleet.revoked if device % partition.of == partition.number)
    )


DRAIN_SECONDS = 30.0

_log = Log("pipeline")


def ready_context(engine: Engine, snapshot: FleetSnapshot, partition: Partition) -> DecodeContext:
    """Return a partition's devices and matrices for the engine; FleetError if a profile cannot be decoded."""
    try:
        return engine.ready(registry_of(snapshot, partition))
    except np.linalg.LinAlgError as error:
        raise FleetError(
            f"a profile's projection cannot be inverted ({error}). Make its seed with `peel profile`."
        ) from None


class Pipeline:
    """The client, inbox, engine, ingest thread and receipts of a partition. `start`, then `stop` or `abandon`; the store stays open.

    Parameters
    ----------
    engine : Engine
        Uses the partition's store and devices.
    may_connect : callable
        Whether it may take the session over, because this process holds the lease.
    on_end : callable
        Called on the ingest thread when that ends, for any reason.
    """

    def __init__(
        self,
        settings: Settings,
        fleet: str,
        partition: Partition,
        engine: Engine,
        metrics: Metrics,
        *,
        alarm: Alarm,
        on_end: Callable[[], None],
        may_connect: Callable[[], bool] = lambda: True,
    ) -> None:
        self.partition = partition
        self.engine = engine
        self._settings = settings
        self.inbox = Inbox(limit_messages=settings.mqtt_window, limit_bytes=settings.mqtt_window_bytes)
        self.client = MqttClient(
            settings,
            fleet,
            report_session(settings, fleet, partition),
            self.inbox,
            metrics,
            may_connect=may_connect,
        )
        self.ingest = Ingest(
            settings,
            engine,
            self.inbox,
            self.client,
            metrics,
            alarm=alarm,
            receipts=Receipts(engine, fleet, self.client.publish_receipts, pause=settings.mqtt_receipt_seconds),
            on_end=on_end,
        )

    def start(self) -> None:
        self.ingest.start()
        self.client.start()

    def stop(self) -> bool:
        """Stop reading, store and acknowledge received messages, disconnect; False if that took too long."""
        self.client.pause()
        drained = self.ingest.stop(DRAIN_SECONDS)
        self.client.stop()
        return drained

    def abandon(self) -> bool:
        """End without storing or acknowledging anything: the partition is lost. False if that took too long."""
        self.client.abort()
        return self.ingest.abandon(DRAIN_SECONDS)

    def adopt(self, context: DecodeContext) -> None:
        """Load these devices into the engine soon, between two batches."""
        self.ingest.defer(lambda: self.engine.adopt(context))

    def prune(self) -> None:
        """Delete rows past the retention time soon, between two batches."""
        self.ingest.defer(self._prune)

    def _prune(self) -> None:
        days, fine = self._settings.store_retention_days, self._settings.store_fine_days
        try:
            dropped = self.engine.prune(days * 86400 or None, fine * 86400 or None)
        except StoreError as error:
            _log.warning("retention postponed", cause=error)
            return
        if dropped is None:
            _log.warning("retention postponed", cause="the clock is behind, or was set less than a day ago")
        elif dropped:
            _log.info("retention", dropped_rows=dropped)
