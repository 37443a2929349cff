# SPDX-License-Identifier: MIT
"""A second listener on the broker: every frame and every status of a fleet, in the order in which the broker passes them on."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from peel_core.frame import split
from peel_hil.duts import Endpoint

__all__ = ["Tap"]

_CONNECT_SECONDS = 10.0


class Tap:
    """Listens between `__enter__` and `__exit__`; with a clean session, so it hears what is published meanwhile, and retained statuses."""

    def __init__(self, broker: Endpoint, width: int) -> None:
        self._broker = broker
        self._width = width
        self._listening = threading.Event()
        self._statuses: list[tuple[str, bytes]] = []
        self.frames: list[bytes] = []
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
        self._client.on_connect = lambda client, *rest: client.subscribe("peel/v1/#", 1)
        self._client.on_subscribe = lambda *rest: self._listening.set()
        self._client.on_message = self._keep

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

    def statuses(self, device: str) -> list[bytes]:
        """What a device has said of itself, or its will for it, oldest first."""
        return [payload for topic, payload in self._statuses if topic.endswith(f"/{device}/status")]

    def _keep(self, client: paho.Client, data: Any, message: paho.MQTTMessage) -> None:
        payload = bytes(message.payload)
        if message.topic.endswith("/report"):
            self.frames += split(payload, self._width)
        else:
            self._statuses.append((message.topic, payload))
