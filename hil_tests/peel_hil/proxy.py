# SPDX-License-Identifier: MIT
"""A proxy between a device and its broker that reads MQTT and meddles with it.

Whoever sits on the line can do what this does: it has no key. Each message with reports is handed to a `Meddler`, which delivers,
alters, repeats, delays or cuts, through the `Line` that it is given.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from peel_hil.duts import Endpoint
from peel_hil.mqtt_packets import PUBACK, Publish, Splitter, acknowledged, kind

__all__ = ["Line", "LineCutError", "Meddler", "Proxy"]

_ACK_SECONDS = 20.0
_FIRST_OWN_ID = 0x8000  # a device numbers its packets from 1 in each session and never gets here

Meddler = Callable[["Line", Publish], None]


class LineCutError(Exception):
    """The connection is gone; nothing more can be sent over it."""


class Line:
    """One connection through the proxy, as a meddler may use it."""

    def __init__(self, device: socket.socket, broker: socket.socket) -> None:
        self._device = device
        self._broker = broker
        self._own_id = _FIRST_OWN_ID
        self._awaited: dict[int, threading.Event] = {}

    def deliver(self, message: Publish) -> None:
        """Send a device's message and wait until the broker has it; the acknowledgement is kept from the device."""
        event = self._awaited[message.packet_id] = threading.Event()
        self._send(self._broker, message.packet())
        if not event.wait(_ACK_SECONDS):
            raise LineCutError(f"the broker did not acknowledge packet {message.packet_id}")

    def inject(self, topic: bytes, payload: bytes) -> None:
        """Send a message of our own and wait until the broker has it; the device hears nothing of it."""
        self._own_id += 1
        self.deliver(Publish(topic, self._own_id, payload))

    def acknowledge(self, message: Publish) -> None:
        """Tell the device that its message has arrived."""
        self._send(self._device, bytes([PUBACK << 4, 2]) + message.packet_id.to_bytes(2, "big"))

    def send_half(self, message: Publish) -> None:
        """Send the first half of a packet."""
        packet = message.packet()
        self._send(self._broker, packet[: len(packet) // 2])

    def cut(self) -> None:
        """Break both connections."""
        for end in (self._device, self._broker):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        raise LineCutError

    def _send(self, end: socket.socket, data: bytes) -> None:
        try:
            end.sendall(data)
        except OSError as error:
            raise LineCutError from error

    def carry_to_device(self) -> None:
        """Pass on what the broker sends, but for the acknowledgements that are ours, until the connection ends."""
        splitter = Splitter()
        while data := _receive(self._broker):
            for packet in splitter.feed(data):
                event = self._awaited.pop(acknowledged(packet), None) if kind(packet) == PUBACK else None
                if event:
                    event.set()
                else:
                    self._send(self._device, packet)

    def carry_to_broker(self, meddler: Meddler) -> None:
        """Pass on what the device sends, its reports by way of the meddler, until the connection ends."""
        splitter = Splitter()
        while data := _receive(self._device):
            for packet in splitter.feed(data):
                message = Publish.parse(packet)
                if message is not None and message.topic.endswith(b"/report"):
                    meddler(self, message)
                else:
                    self._send(self._broker, packet)

    def close(self) -> None:
        """End the connection on both sides."""
        with suppress(LineCutError):
            self.cut()


class Proxy:
    """Listens on a free loopback port and connects every caller to the broker."""

    def __init__(self, broker: Endpoint, meddler: Meddler) -> None:
        self._broker = broker
        self._meddler = meddler
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lines: list[Line] = []
        self.errors: list[BaseException] = []
        """What went wrong in the meddler itself; a test looks here."""

    @property
    def endpoint(self) -> Endpoint:
        """Where to connect to."""
        host, port = self._listener.getsockname()[:2]
        return host, port

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for line in self._lines:
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                device, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                broker = socket.create_connection(self._broker)
            except OSError:
                device.close()
                continue
            for end in (device, broker):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line = Line(device, broker)
            self._lines.append(line)
            threading.Thread(target=self._run, args=(line, line.carry_to_device), daemon=True).start()
            threading.Thread(
                target=self._run, args=(line, lambda line=line: line.carry_to_broker(self._meddler)), daemon=True
            ).start()

    def _run(self, line: Line, carry: Callable[[], None]) -> None:
        try:
            carry()
        except LineCutError:
            pass
        except BaseException as error:
            self.errors.append(error)
        finally:
            line.close()


def _receive(end: socket.socket) -> bytes:
    try:
        return end.recv(65536)
    except OSError:
        return b""
