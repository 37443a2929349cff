# SPDX-License-Identifier: MIT
"""A subscriber that records everything published on a broker, in order."""

from __future__ import annotations

import queue
import threading
import time
from types import TracebackType
from typing import Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from peel_core.frame import split
from peel_hil.duts import Endpoint

__all__ = ["Listener", "Tap"]

_CONNECT_SECONDS = 10.0

_POLL_SECONDS = 0.02


class Listener:
    """Listens between `__enter__` and `__exit__`, with a clean session: it gets retained messages and those published meanwhile."""

    def __init__(self, broker: Endpoint, topics: str = "peel/v1/#") -> None:
        self.messages: list[tuple[str, bytes]] = []
        """All received messages: topics and payloads."""
        self._unread: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self._broker = broker
        self._listening = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
        self._client.on_connect = lambda client, *rest: client.subscribe(topics, 1)
        self._client.on_subscribe = lambda *rest: self._listening.set()
        self._client.on_message = lambda client, data, message: self.record(message.topic, bytes(message.payload))

    def __enter__(self) -> Self:
        self._client.connect(*self._broker)
        self._client.loop_start()
        if not self._listening.wait(_CONNECT_SECONDS):
            raise TimeoutError(f"no subscription on the broker at {self._broker} within {_CONNECT_SECONDS:g} s")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def record(self, topic: str, payload: bytes) -> None:
        """Keep one message. Called in the client's thread."""
        self.messages.append((topic, payload))
        self._unread.put((topic, payload))

    def next(self, timeout: float = 10.0) -> tuple[str, bytes]:
        """Return the next message that was not returned yet."""
        try:
            return self._unread.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"no message within {timeout:g} s; so far there were {len(self.messages)}") from None

    def wait(self, count: int, timeout: float = 20.0) -> list[tuple[str, bytes]]:
        """Return all messages so far, once there are this many."""
        deadline = time.monotonic() + timeout
        while len(self.messages) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.messages)} of {count} messages within {timeout:g} s")
            time.sleep(_POLL_SECONDS)
        return self.messages


class Tap(Listener):
    """Listens to the devices of a fleet and collects their frames, all of one width."""

    def __init__(self, broker: Endpoint, width: int) -> None:
        super().__init__(broker)
        self._width = width
        self.frames: list[bytes] = []

    def record(self, topic: str, payload: bytes) -> None:
        super().record(topic, payload)
        if topic.endswith("/report"):
            self.frames += split(payload, self._width)

    def statuses(self, device: str) -> list[bytes]:
        """Return the statuses of a device, including its will, oldest first."""
        return [payload for topic, payload in self.messages if topic.endswith(f"/{device}/status")]
