# SPDX-License-Identifier: MIT
"""A proxy between a device and its broker that reads and alters MQTT.

It has no key, so any attacker on the network can do the same. Each message with reports goes to a `Meddler`, which delivers, alters,
repeats, delays or cuts it through a `MeddledLine`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from peel_tools.network import (
    PUBACK,
    Endpoint,
    Line,
    LineCutError,
    Publish,
    Relay,
    Splitter,
    acknowledged,
    kind,
    receive,
    send,
)

__all__ = ["MeddledLine", "Meddler", "Proxy"]

_ACK_SECONDS = 20.0
_FIRST_OWN_ID = 0x8000  # a device numbers its packets from 1 in each session and does not get here

Meddler = Callable[["MeddledLine", Publish], None]


class MeddledLine(Line):
    """One connection through the proxy, for a meddler. The device is near, the broker far."""

    def __init__(self, device: socket.socket, broker: socket.socket, meddler: Meddler) -> None:
        super().__init__(device, broker)
        self._meddler = meddler
        self._own_id = _FIRST_OWN_ID
        self._awaited: dict[int, threading.Event] = {}

    def deliver(self, message: Publish) -> None:
        """Send a device's message and wait for the broker's acknowledgement, which is not forwarded to the device."""
        event = self._awaited[message.packet_id] = threading.Event()
        send(self.far, message.packet())
        if not event.wait(_ACK_SECONDS):
            raise LineCutError(f"the broker did not acknowledge packet {message.packet_id}")

    def inject(self, topic: bytes, payload: bytes) -> None:
        """Send a message of our own and wait for the broker's acknowledgement. The device notices nothing."""
        self._own_id += 1
        self.deliver(Publish(topic, self._own_id, payload))

    def acknowledge(self, message: Publish) -> None:
        """Acknowledge the device's message."""
        send(self.near, bytes([PUBACK << 4, 2]) + message.packet_id.to_bytes(2, "big"))

    def send_half(self, message: Publish) -> None:
        """Send the first half of a packet."""
        packet = message.packet()
        send(self.far, packet[: len(packet) // 2])

    def cut(self) -> None:
        """Break both connections."""
        self.close()
        raise LineCutError

    def carry_to_near(self) -> None:
        """Forward the broker's packets, except acknowledgements of our own messages."""
        splitter = Splitter()
        while data := receive(self.far):
            for packet in splitter.feed(data):
                event = self._awaited.pop(acknowledged(packet), None) if kind(packet) == PUBACK else None
                if event:
                    event.set()
                else:
                    send(self.near, packet)

    def carry_to_far(self) -> None:
        """Forward the device's packets, reports through the meddler."""
        splitter = Splitter()
        while data := receive(self.near):
            for packet in splitter.feed(data):
                message = Publish.parse(packet)
                if message is not None and message.topic.endswith(b"/report"):
                    self._meddler(self, message)
                else:
                    send(self.far, packet)


class Proxy(Relay[MeddledLine]):
    """Connects every caller to the broker through a meddler."""

    def __init__(self, broker: Endpoint, meddler: Meddler) -> None:
        super().__init__(broker)
        self._meddler = meddler

    def line(self, near: socket.socket, far: socket.socket) -> MeddledLine:
        """Handle one connection."""
        return MeddledLine(near, far, self._meddler)
