# SPDX-License-Identifier: MIT
"""A layer between the socket and paho that takes the reports out of the byte stream.

A C function (`gateway/kernels/packets.h`) splits the stream into packets. Reports are collected as arrays, without a Python object for
each, and acknowledged in one write. paho reads all other packets from this layer as if it were the socket.
"""

from __future__ import annotations

import secrets
import ssl
import time
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_gateway._kernels import ffi, lib
from peel_gateway.logs import Log
from peel_gateway.model.messages import LONGEST_TOPIC, MessageBatch

__all__ = ["ReportStream", "Reports", "StreamError"]

READ_BYTES = 262_144
"""Bytes that are read before they are split."""
_MOST_UNSENT = 1_048_576
"""Unsent bytes above which reading stops. A broker that reads leaves fewer: acknowledging one window takes at most 262,144 bytes."""
_STATUS_BURST = 10
"""Statuses that a topic may send in a burst. An honest device sends one when it connects and one per hour."""
_STATUS_MICROSECONDS = 1_000_000
"""Mean interval between the statuses of one topic. Processing a status costs 65 us."""
_PACES = 65_536
"""Size of the table of rates. In a larger fleet topics collide in it, and the limit is less strict."""
_GOODBYE_SECONDS = 1.0
_PUBACK = np.array([0x40, 0x02, 0, 0], np.uint8)
_FAULTS = {
    lib.PEEL_PACKETS_MALFORMED: "the broker sent bytes that are not MQTT",
    lib.PEEL_PACKETS_TOO_LONG: "the broker sent a packet longer than mqtt.packet_bytes",
    lib.PEEL_PACKETS_QOS_2: "the broker sent a message at QoS 2, but the gateway subscribes at QoS 0 and 1 only",
}

_log = Log("stream")

Reports = tuple[MessageBatch, npt.NDArray[np.uint16]]
"""Reports that were received together, and their packet identifiers: 0 for a report that needs no acknowledgement."""


class StreamError(Exception):
    """The stream violates the protocol and cannot be read further."""


class ReportStream:
    """A connected socket that filters out the reports. paho uses it as a socket that carries only the other packets.

    Parameters
    ----------
    sock : socket or SSLSocket
        Connected; is made non-blocking.
    topic : tuple of str
        Prefix and suffix of the topics of reports.
    status : str
        Suffix of the topics of statuses, with the same prefix. Their rate per topic is limited.
    properties : bool
        Whether packets have properties, as in MQTT 5.
    longest_packet : int
        Bytes. A longer packet ends the stream. With MQTT 3.1.1 the broker cannot know the limit, so a longer message is
        acknowledged and skipped instead.
    """

    def __init__(
        self, sock: Any, *, topic: tuple[str, str], status: str, properties: bool, longest_packet: int
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._topic = tuple(ffi.from_buffer(part.encode()) for part in (*topic, status))
        self._rule = ffi.new("peel_packets_rule *")
        self._rule.prefix, self._rule.suffix, self._rule.status = self._topic
        self._rule.prefix_bytes, self._rule.suffix_bytes, self._rule.status_bytes = map(len, self._topic)
        self._paces = ffi.new("peel_packets_pace[]", _PACES)
        self._rule.paces, self._rule.pace_count = self._paces, _PACES
        self._rule.seed = secrets.randbits(64)
        self._rule.interval = _STATUS_MICROSECONDS
        self._rule.slack = (_STATUS_BURST - 1) * _STATUS_MICROSECONDS
        self._rule.properties = properties
        self._rule.longest_packet = longest_packet
        self._rule.longest_topic = LONGEST_TOPIC
        self._incoming = bytearray()
        self._rest = bytearray()
        self._outgoing = bytearray()
        self._closed = False
        self._full = False
        self._passing = 0
        self.limited = 0
        """Statuses that the rate limit has dropped."""

    # ---- for Connection ----

    def receive(self, most: int) -> Reports | None:
        """Return at most `most` reports, from bytes read earlier or from the socket; None if there are none yet.

        Raises StreamError, and OSError like a socket.
        """
        before = len(self._incoming)
        if not self._full:
            self._read()
        return self._split(most) if self._full or len(self._incoming) > before else None

    def _read(self) -> None:
        """Read available bytes: one call, or under TLS one call per record, because brokers put each packet into a record."""
        left = READ_BYTES
        while left > 0 and not self._closed:
            try:
                data = self._sock.recv(left)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            self._closed = not data
            left -= len(data)
            self._incoming += data[self._pass_over(len(data)) :]
            if not isinstance(self._sock, ssl.SSLSocket):
                return

    def _pass_over(self, there: int) -> int:
        """Return how many of the next `there` bytes belong to a message that is skipped."""
        gone = min(self._passing, there)
        self._passing -= gone
        return gone

    @property
    def has_rest(self) -> bool:
        """Whether paho has something to read: a packet that is not a report, or the end of the stream."""
        return bool(self._rest) or self._closed

    @property
    def buffered(self) -> bool:
        """Whether bytes are available that polling the socket would not show."""
        return self._full or (isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0)

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait to be sent."""
        return bool(self._outgoing)

    @property
    def congested(self) -> bool:
        """Whether so many bytes wait to be sent that reading should stop, because each report read adds an acknowledgement."""
        return len(self._outgoing) > _MOST_UNSENT

    def acknowledge(self, identifiers: npt.NDArray[np.uint16]) -> None:
        """Queue acknowledgements, which the next `flush` sends in one write."""
        due = identifiers[identifiers != 0]
        packets = np.tile(_PUBACK, (len(due), 1))
        packets[:, 2], packets[:, 3] = due >> 8, due & 0xFF
        self._outgoing += packets.tobytes()

    def flush(self) -> None:
        """Send as many bytes as the socket accepts."""
        while self._outgoing:
            try:
                sent = self._sock.send(self._outgoing)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            del self._outgoing[:sent]

    def drop(self) -> None:
        """Close the socket and discard unsent bytes."""
        self._outgoing.clear()
        self._sock.close()

    def _split(self, most_reports: int) -> Reports | None:
        self._rule.most = most_reports
        self._rule.now = time.monotonic_ns() // 1000
        bytes_, most = len(self._incoming), len(self._incoming) // lib.PEEL_PACKETS_LEAST
        payloads, topics, rest = (np.empty(bytes_, np.uint8) for _ in range(3))
        payload_ends, topic_ends, identifiers = (
            np.empty(most, np.uint64),
            np.empty(most, np.uint64),
            np.empty(most, np.uint16),
        )
        parts = ffi.new("peel_packets_parts *")
        alive = {
            "payloads": ffi.from_buffer("uint8_t[]", payloads),
            "payload_ends": ffi.from_buffer("uint64_t[]", payload_ends),
            "topics": ffi.from_buffer("uint8_t[]", topics),
            "topic_ends": ffi.from_buffer("uint64_t[]", topic_ends),
            "identifiers": ffi.from_buffer("uint16_t[]", identifiers),
            "rest": ffi.from_buffer("uint8_t[]", rest),
        }
        for name, pointer in alive.items():
            setattr(parts, name, pointer)
        used = lib.peel_packets_split(parts, self._rule, ffi.from_buffer("uint8_t[]", self._incoming), bytes_)
        if used < 0:
            raise StreamError(_FAULTS[used])
        del self._incoming[:used]
        if parts.passed_bytes:
            self._leave_unread(int(parts.passed_bytes), int(parts.passed_identifier))
        self._full = bool(self._incoming) and (int(parts.reports) == most_reports or parts.passed_bytes > 0)
        self.limited += int(parts.limited)
        self._rest += rest[: parts.rest_bytes].tobytes()
        count = int(parts.reports)
        if not count:
            return None
        messages = MessageBatch(
            payloads[: int(payload_ends[count - 1])].tobytes(),
            payload_ends[:count].copy(),
            topics[: int(topic_ends[count - 1])].tobytes(),
            topic_ends[:count].copy(),
            np.full(count, round(time.time() * 1000), np.int64),
        )
        return messages, identifiers[:count].copy()

    def _leave_unread(self, size: int, identifier: int) -> None:
        """Skip a message that is too long, including bytes that have not arrived yet, and acknowledge it."""
        _log.warning("skipped a message longer than mqtt.packet_bytes", bytes=size)
        self.acknowledge(np.array([identifier], np.uint16))
        self._passing = size
        del self._incoming[: self._pass_over(len(self._incoming))]

    # ---- for paho, which uses this as its socket ----

    def recv(self, count: int) -> bytes:
        """Return the next bytes that are not reports."""
        if not self._rest:
            if self._closed:
                return b""
            raise BlockingIOError
        data = bytes(self._rest[:count])
        del self._rest[:count]
        return data

    def send(self, data: bytes) -> int:
        """Queue all bytes, so that paho's packets and acknowledgements are never interleaved."""
        self._outgoing += data
        return len(data)

    def fileno(self) -> int:
        return int(self._sock.fileno())

    def setblocking(self, flag: bool) -> None:
        """Do nothing: this never blocks."""

    def pending(self) -> int:
        return len(self._rest)

    def close(self) -> None:
        """Send the queued bytes, including DISCONNECT, and close."""
        if self._outgoing:
            with suppress(OSError):
                self._sock.settimeout(_GOODBYE_SECONDS)
                self._sock.sendall(self._outgoing)
        self.drop()
