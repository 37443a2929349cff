# SPDX-License-Identifier: MIT
"""MQTT for many simulated devices over a few connections, at QoS 1."""

from __future__ import annotations

import os
import select
import ssl
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from peel_core import Secret
from peel_gateway.exits import Exit
from peel_tools.simulation.truth import Outgoing

__all__ = ["BrokerAddress", "Publisher", "PublisherError"]

_CONNECT_SECONDS = 15.0
_KEEPALIVE_SECONDS = 60
_RETRY_SECONDS = 1.0
_CARE_SECONDS = 0.1
_ANSWER_SECONDS = 10.0
"""Seconds without an acknowledgement after which a device reconnects and resends."""


class PublisherError(Exception):
    """The broker cannot be reached or refuses the connection. The message names it and the reason."""

    exit_code = Exit.MISSING


@dataclass(frozen=True, kw_only=True)
class BrokerAddress:
    """A broker's address and login."""

    host: str
    port: int
    tls: bool = False
    ca: Path | None = None
    user: str = ""
    password: Secret | None = None

    @classmethod
    def parse(cls, text: str, *, ca: Path | None = None, user: str = "", password: Secret | None = None) -> Self:
        """Parse `host`, `host:port`, `mqtt://host:port` or `mqtts://host:port`."""
        parts = urlsplit(text if "://" in text else f"mqtt://{text}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname or port == -1 or parts.path.strip("/"):
            raise PublisherError(f"broker {text!r}: write host:port, mqtt://host:port or mqtts://host:port")
        if parts.username or parts.password:
            raise PublisherError(
                "broker: the address must not contain a user or password, which others could see. Use --user and --password-file"
            )
        tls = parts.scheme == "mqtts"
        return cls(
            host=parts.hostname, port=port or (8883 if tls else 1883), tls=tls, ca=ca, user=user, password=password
        )

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class _Connection:
    """One MQTT client without a thread, because threads of many clients would only wait for each other."""

    def __init__(self, address: BrokerAddress, name: str, window: int, receipts: str = "") -> None:
        # MQTT 3.1.1 has no receive maximum, so any broker takes the whole window.
        self._client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=name, protocol=MQTTProtocolVersion.MQTTv311, clean_session=True
        )
        self._client.max_inflight_messages_set(window)
        if address.tls:
            self._client.tls_set_context(ssl.create_default_context(cafile=address.ca))
        if address.user:
            password = address.password.reveal().decode() if address.password else None
            self._client.username_pw_set(address.user, password)
        self._client.on_publish = self._on_publish
        self._client.on_connect = self._on_connect
        self._client.on_message = lambda client, data, message: self.received.append(
            (message.topic, bytes(message.payload))
        )
        self._address = address
        self._receipts = receipts
        self.received: list[tuple[str, bytes]] = []
        self._sent: dict[int, int] = {}
        self._acknowledged: list[int] = []
        self._retry_at = 0.0
        self._heard_at = 0.0
        self.refusal = ""

    def connect(self) -> None:
        try:
            self._client.connect(self._address.host, self._address.port, _KEEPALIVE_SECONDS)
        except (OSError, ValueError) as error:
            cause = getattr(error, "strerror", None) or error
            raise PublisherError(
                f"broker {self._address}: {cause}. Start a broker there, or name another with --broker"
            ) from None

    def disconnect(self) -> None:
        self._client.disconnect()

    @property
    def connected(self) -> bool:
        return self._client.is_connected()

    @property
    def socket(self) -> Any:
        """The socket of paho's connection, or None."""
        return self._client.socket()

    @property
    def wants_to_write(self) -> bool:
        return self._client.want_write()

    @property
    def outstanding(self) -> int:
        return len(self._sent)

    def publish(self, message: Outgoing) -> None:
        """Send a message, or keep it until the broker is back."""
        if not self._sent:
            self._heard_at = time.monotonic()
        info = self._client.publish(message.topic, message.payload, qos=1)
        self._sent[info.mid] = message.id

    def take_acknowledged(self) -> list[int]:
        taken, self._acknowledged = self._acknowledged, []
        return taken

    def read(self) -> None:
        self._client.loop_read()

    def write(self) -> None:
        self._client.loop_write()

    def look_after(self, now: float) -> None:
        """Send pings. Reconnect if the link is closed or nothing is acknowledged; paho then resends the outstanding messages."""
        waiting = bool(self._sent) and now - self._heard_at > _ANSWER_SECONDS
        if self.socket is not None and not waiting:
            self._client.loop_misc()
        elif now >= self._retry_at:
            self._retry_at = now + _RETRY_SECONDS
            self._heard_at = now
            with suppress(OSError):  # not back yet
                self._client.reconnect()

    def _on_publish(self, client: mqtt.Client, userdata: Any, mid: int, reason: Any, properties: Any) -> None:
        self._acknowledged.append(self._sent.pop(mid))
        self._heard_at = time.monotonic()

    def _on_connect(self, client: mqtt.Client, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        self.refusal = f"refused: {reason}" if reason.is_failure else ""
        if self._receipts and not self.refusal:
            client.subscribe(self._receipts)


class Publisher:
    """Sends messages at QoS 1 over shared connections. A device always uses the same one, so its messages stay in order.

    While the broker is down messages wait, and unacknowledged ones are resent when it is back. All methods are for one thread, which has to
    call `pump` often.

    Parameters
    ----------
    window : int
        The most unacknowledged messages of a connection.
    receipts : str
        A topic filter for receipts, to which the first connection subscribes.
    """

    def __init__(self, address: BrokerAddress, *, connections: int, window: int = 2000, receipts: str = "") -> None:
        run = os.urandom(4).hex()
        self._address = address
        self._window = window
        self._connections = [
            _Connection(address, f"peel-simulation-{run}-{i}", window, "" if i else receipts)
            for i in range(connections)
        ]
        self._looked_after = 0.0

    def start(self) -> None:
        """Connect. Raise PublisherError if the broker cannot be reached."""
        deadline = time.monotonic() + _CONNECT_SECONDS
        try:
            for connection in self._connections:
                connection.connect()
            while not all(connection.connected for connection in self._connections):
                self.pump(0.05)
                refusal = next((each.refusal for each in self._connections if each.refusal), "")
                if refusal or time.monotonic() > deadline:
                    raise PublisherError(
                        f"broker {self._address}: {refusal or 'no answer'}. Check --broker, --user and --password-file"
                    )
        except PublisherError:
            self.stop()
            raise

    def stop(self) -> None:
        """Disconnect. Unacknowledged messages are left to the next run."""
        for connection in self._connections:
            connection.disconnect()

    @property
    def outstanding(self) -> int:
        """The number of unacknowledged messages."""
        return sum(connection.outstanding for connection in self._connections)

    def has_room(self) -> bool:
        """Return whether another batch may be published."""
        return all(connection.outstanding < self._window for connection in self._connections)

    def publish(self, messages: Sequence[Outgoing]) -> None:
        """Send messages, or keep them until the broker is back."""
        for message in messages:
            self._connections[message.device % len(self._connections)].publish(message)

    def take_receipts(self) -> list[tuple[str, bytes]]:
        """Return the topics and payloads of receipts since the last call."""
        first = self._connections[0]
        taken, first.received = first.received, []
        return taken

    def pump(self, seconds: float) -> list[int]:
        """Process network traffic for at most this long. Return the ids of messages acknowledged since the last call."""
        links = {connection.socket: connection for connection in self._connections if connection.socket is not None}
        if links:
            eager = [link for link, connection in links.items() if connection.wants_to_write]
            readable, writable, _ = select.select(list(links), eager, [], seconds)
            for link in readable:
                links[link].read()
            for link in writable:
                links[link].write()
        else:
            time.sleep(seconds)
        now = time.monotonic()
        if now - self._looked_after >= _CARE_SECONDS:
            self._looked_after = now
            for connection in self._connections:
                connection.look_after(now)
        return [id_ for connection in self._connections for id_ in connection.take_acknowledged()]
