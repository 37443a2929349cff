"""MQTT for many simulated devices: a few connections, QoS 1, nothing forgotten until it is acknowledged."""

from __future__ import annotations

import os
import ssl
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from peel_core import Secret
from peel_tools.simulation.truth import Outgoing

__all__ = ["BrokerAddress", "Publisher", "PublisherError"]

_CONNECT_SECONDS = 15.0
_KEEPALIVE_SECONDS = 30
_LONGEST_BACKOFF_SECONDS = 2


class PublisherError(Exception):
    """The broker cannot be reached, or refuses us; the message says which one and why."""


@dataclass(frozen=True, kw_only=True)
class BrokerAddress:
    """Where the broker is and how to enter."""

    host: str
    port: int
    tls: bool = False
    ca: Path | None = None
    user: str = ""
    password: Secret | None = None

    @classmethod
    def parse(cls, text: str, *, ca: Path | None = None, user: str = "", password: Secret | None = None) -> Self:
        """Read `host`, `host:port`, `mqtt://host:port` or `mqtts://host:port`."""
        parts = urlsplit(text if "://" in text else f"mqtt://{text}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname or port == -1 or parts.path.strip("/"):
            raise PublisherError(f"broker {text!r}: write host:port, mqtt://host:port or mqtts://host:port")
        if parts.username or parts.password:
            raise PublisherError(
                "broker: no user or password in the address, where others can see it; use the options for it"
            )
        tls = parts.scheme == "mqtts"
        return cls(
            host=parts.hostname, port=port or (8883 if tls else 1883), tls=tls, ca=ca, user=user, password=password
        )

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class _Connection:
    """One MQTT client. Its own thread notes acknowledgements; only the publisher's caller reads them."""

    def __init__(self, address: BrokerAddress, name: str, window: int) -> None:
        # MQTT 3.1.1 has no receive maximum: any broker takes the whole window.
        self._client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTProtocolVersion.MQTTv311, clean_session=True
        )
        self._client.max_inflight_messages_set(window)
        self._client.reconnect_delay_set(1, _LONGEST_BACKOFF_SECONDS)
        if address.tls:
            self._client.tls_set_context(ssl.create_default_context(cafile=address.ca))
        if address.user:
            password = address.password.reveal().decode() if address.password else None
            self._client.username_pw_set(address.user, password)
        self._client.on_publish = self._on_publish
        self._client.on_connect = self._on_connect
        self._address = address
        self._acknowledged: deque[int] = deque()
        self._sent: dict[int, int] = {}
        self._connected = threading.Event()
        self.refusal = ""

    def start(self) -> None:
        try:
            self._client.connect(self._address.host, self._address.port, _KEEPALIVE_SECONDS)
        except (OSError, ValueError) as error:
            raise PublisherError(f"broker {self._address}: {error}") from None
        self._client.loop_start()

    def wait(self, deadline: float) -> None:
        while not self._connected.wait(0.02):
            if self.refusal or time.monotonic() > deadline:
                raise PublisherError(f"broker {self._address}: {self.refusal or 'does not answer'}")

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def publish(self, message: Outgoing) -> None:
        """Send, or keep for when the broker is back."""
        info = self._client.publish(message.topic, message.payload, qos=1)
        self._sent[info.mid] = message.id

    @property
    def outstanding(self) -> int:
        return len(self._sent) - len(self._acknowledged)

    def acknowledged(self) -> list[int]:
        return [self._sent.pop(self._acknowledged.popleft()) for _ in range(len(self._acknowledged))]

    def _on_publish(self, client: mqtt.Client, userdata: Any, mid: int, reason: Any, properties: Any) -> None:
        self._acknowledged.append(mid)

    def _on_connect(self, client: mqtt.Client, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        if reason.is_failure:
            self.refusal = f"refused: {reason}"
        else:
            self._connected.set()


class Publisher:
    """Sends messages at QoS 1 over connections that devices share, each device always over the same one and so in order.

    While the broker is away messages wait, and those not acknowledged are sent again when it is back. All methods are for one thread.

    Parameters
    ----------
    window : int
        Most messages of a connection that are not acknowledged.
    """

    def __init__(self, address: BrokerAddress, *, connections: int, window: int = 2000) -> None:
        run = os.urandom(4).hex()
        self._window = window
        self._connections = [_Connection(address, f"peel-simulation-{run}-{i}", window) for i in range(connections)]

    def start(self) -> None:
        """Connect; PublisherError when the broker is not there."""
        deadline = time.monotonic() + _CONNECT_SECONDS
        try:
            for connection in self._connections:
                connection.start()
            for connection in self._connections:
                connection.wait(deadline)
        except PublisherError:
            self.stop()
            raise

    def stop(self) -> None:
        """Disconnect. What is not acknowledged by now is left to the next run."""
        for connection in self._connections:
            connection.stop()

    @property
    def outstanding(self) -> int:
        """Messages not acknowledged yet."""
        return sum(connection.outstanding for connection in self._connections)

    def has_room(self) -> bool:
        """Whether another batch may be published."""
        return all(connection.outstanding < self._window for connection in self._connections)

    def publish(self, messages: Sequence[Outgoing]) -> None:
        """Send messages, or keep them until the broker is back."""
        for message in messages:
            self._connections[message.device % len(self._connections)].publish(message)

    def acknowledged(self) -> list[int]:
        """Return the ids of messages acknowledged since the last call."""
        return [id_ for connection in self._connections for id_ in connection.acknowledged()]
