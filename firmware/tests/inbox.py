# SPDX-License-Identifier: MIT
"""A subscriber that keeps what a device publishes."""

from __future__ import annotations

import json
import queue
from types import TracebackType
from typing import Any, Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from peel_core.frame import frame_bytes, split
from peel_tools.broker import Broker

WIDTH = 48  # of the profile in host_board.bundle
FRAME_BYTES = frame_bytes(WIDTH)


class Inbox:
    """Subscribes to the lab fleet on a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._messages: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self._ready: queue.Queue[None] = queue.Queue()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
        self._client.on_message = lambda client, data, message: self._messages.put(
            (message.topic, bytes(message.payload))
        )
        self._client.on_connect = lambda client, *rest: client.subscribe("peel/v1/lab/#", 1)
        self._client.on_subscribe = lambda *rest: self._ready.put(None)

    def __enter__(self) -> Self:
        self._client.connect(self._broker.host, self._broker.port)
        self._client.loop_start()
        self._ready.get(timeout=10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def next(self, timeout: float = 10) -> tuple[str, bytes]:
        """The next message: the last part of its topic, and its payload."""
        topic, payload = self._messages.get(timeout=timeout)
        return topic.rsplit("/", 1)[1], payload

    def status(self, timeout: float = 10) -> dict[str, Any]:
        """The next status, past reports and cleared ones."""
        while True:
            kind, payload = self.next(timeout)
            if kind == "status" and payload:
                found: dict[str, Any] = json.loads(payload)
                return found

    def frames(self, count: int, timeout: float = 10) -> list[bytes]:
        """The next `count` frames, past statuses, split from their messages."""
        found: list[bytes] = []
        while len(found) < count:
            kind, payload = self.next(timeout)
            if kind == "report":
                found += split(payload, WIDTH)
        return found
