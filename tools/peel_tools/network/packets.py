# SPDX-License-Identifier: MIT
"""MQTT 3.1.1 packets cut from a byte stream, and the fields of PUBLISH and PUBACK."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["PUBACK", "PUBLISH", "Publish", "Splitter", "acknowledged", "kind"]

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
