# SPDX-License-Identifier: MIT
"""A TCP relay on loopback, and the MQTT 3.1.1 packets that pass through it."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Generic, Self, TypeVar

__all__ = [
    "PUBACK",
    "PUBLISH",
    "Endpoint",
    "Line",
    "LineCutError",
    "Publish",
    "Relay",
    "Splitter",
    "acknowledged",
    "kind",
    "receive",
    "send",
]

_CONNECT_SECONDS = 10.0

Endpoint = tuple[str, int]


class LineCutError(Exception):
    """The connection is closed."""


def receive(end: socket.socket) -> bytes:
    """Return some received bytes, empty if the connection is closed."""
    try:
        return end.recv(65536)
    except OSError:
        return b""


def send(end: socket.socket, data: bytes) -> None:
    """Send all data. Raise LineCutError if the connection is closed."""
    try:
        end.sendall(data)
    except OSError as error:
        raise LineCutError from error


class Line:
    """One connection between a client (`near`) and the target (`far`). One thread per direction forwards the bytes unchanged."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near = near
        self.far = far

    def carry_to_far(self) -> None:
        """Forward the client's bytes until the connection closes."""
        while data := receive(self.near):
            send(self.far, data)

    def carry_to_near(self) -> None:
        """Forward the target's bytes until the connection closes."""
        while data := receive(self.far):
            send(self.near, data)

    def close(self) -> None:
        """Close both sides of the connection, which also ends blocking reads."""
        for end in (self.near, self.far):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


_Line = TypeVar("_Line", bound=Line)


class Relay(ABC, Generic[_Line]):
    """Forwards connections while its `with` block runs. Subclasses decide what happens on a line."""

    def __init__(self, target: Endpoint) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lines: list[_Line] = []
        self._closed = False
        self.errors: list[BaseException] = []
        """Exceptions in a line's own code, for tests."""

    @abstractmethod
    def line(self, near: socket.socket, far: socket.socket) -> _Line:
        """Return the line for a new connection."""

    @property
    def endpoint(self) -> Endpoint:
        """The address to connect to."""
        host, port = self._listener.getsockname()[:2]
        return host, port

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()

    def target(self) -> Endpoint:
        """Return the target of the next connection. Raise OSError if the target is down."""
        return self._target

    def admits(self) -> bool:
        """Return whether new connections are accepted now."""
        return True

    def hang_up(self) -> None:
        """Close every connection."""
        for line in list(self._lines):
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError as error:
                if self._closed:
                    return
                self.errors.append(error)  # the next connection may succeed
                continue
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, suppress(OSError):  # the target is down, or the client has left
            if not self.admits():
                return
            with socket.create_connection(self.target(), timeout=_CONNECT_SECONDS) as far:
                far.settimeout(None)
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._carry(self.line(near, far))

    def _carry(self, line: _Line) -> None:
        """Forward both directions until both are closed."""
        self._lines.append(line)
        if not self.admits():
            line.close()  # cut while it was being connected
        back = threading.Thread(target=self._run, args=(line, line.carry_to_near), daemon=True)
        back.start()
        self._run(line, line.carry_to_far)
        back.join()
        self._lines.remove(line)

    def _run(self, line: _Line, carry: Callable[[], None]) -> None:
        try:
            carry()
        except LineCutError:
            pass
        except BaseException as error:
            self.errors.append(error)
        finally:
            line.close()


PUBLISH = 3
PUBACK = 4

_QOS_1 = 0x02


class Splitter:
    """Cuts a byte stream into packets."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes and yield the packets that are now complete."""
        self._buffer += data
        while (size := _packet_size(self._buffer)) is not None and len(self._buffer) >= size:
            packet, self._buffer = self._buffer[:size], self._buffer[size:]
            yield packet


def _packet_size(data: bytes) -> int | None:
    """Return the size of the first packet, or None while its length field is incomplete."""
    length = 0
    for position in range(1, min(len(data), 5)):
        length |= (data[position] & 0x7F) << 7 * (position - 1)
        if not data[position] & 0x80:
            return 1 + position + length
    return None


def kind(packet: bytes) -> int:
    """Return the packet's type."""
    return packet[0] >> 4


def acknowledged(puback: bytes) -> int:
    """Return the packet id that a PUBACK acknowledges."""
    return int.from_bytes(puback[2:4], "big")


@dataclass(frozen=True)
class Publish:
    """A PUBLISH at QoS 1."""

    topic: bytes
    packet_id: int
    payload: bytes

    @classmethod
    def parse(cls, packet: bytes) -> Publish | None:
        """Return the fields of a packet, or None if it is not a PUBLISH at QoS 1."""
        if kind(packet) != PUBLISH or not packet[0] & _QOS_1:
            return None
        start = 1
        while packet[start] & 0x80:
            start += 1
        body = packet[start + 1 :]
        end = 2 + int.from_bytes(body[:2], "big")
        return cls(body[2:end], int.from_bytes(body[end : end + 2], "big"), body[end + 2 :])

    def packet(self) -> bytes:
        """Return the packet, without the retain flag."""
        body = len(self.topic).to_bytes(2, "big") + self.topic + self.packet_id.to_bytes(2, "big") + self.payload
        return bytes([PUBLISH << 4 | _QOS_1]) + _length(len(body)) + body


def _length(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | 0x80 if value else low)
        if not value:
            return bytes(out)
