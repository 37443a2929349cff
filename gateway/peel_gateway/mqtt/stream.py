# SPDX-License-Identifier: MIT
"""The bytes of a connection, between the socket and the MQTT client.

A report does not become an object of its own: what the socket brings is split (`gateway/kernels/packets.h`), reports are gathered as
`Mail` and acknowledged in one write, and every other packet goes on to the client, which takes this for its socket.
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
from peel_gateway.model.mail import Mail
from peel_gateway.model.message import LONGEST_TOPIC

__all__ = ["ReportStream", "Reports", "StreamError"]

READ_BYTES = 262_144
"""What is read before it is split."""
_MOST_UNSENT = 1_048_576
"""Bytes that wait for a broker that does not read. An honest one leaves less: acknowledgements of one window are 262,144 bytes at most."""
_STATUS_BURST = 10
"""Statuses that one topic may have at once; an honest device sends one when it connects and one per hour."""
_STATUS_MICROSECONDS = 1_000_000
"""Between two statuses of one topic, in the long run. Reading one costs 65 us."""
_PACES = 65_536
"""Topics whose rate of statuses is remembered; in a larger fleet some share a place, and are limited less strictly."""
_GOODBYE_SECONDS = 1.0
_PUBACK = np.array([0x40, 0x02, 0, 0], np.uint8)
_FAULTS = {
    lib.PEEL_PACKETS_MALFORMED: "the broker sent what is no MQTT",
    lib.PEEL_PACKETS_TOO_LONG: "the broker sent a packet beyond mqtt.packet_bytes",
    lib.PEEL_PACKETS_QOS_2: "the broker sent a message at QoS 2, but the gateway subscribes at QoS 0 and 1 only",
}

_log = Log("stream")

Reports = tuple[Mail, npt.NDArray[np.uint16]]
"""Reports that were received together, and their packet identifiers: 0 for a report that needs no acknowledgement."""


class StreamError(Exception):
    """The stream cannot be followed any further; the message says why."""


class ReportStream:
    """A connected socket that keeps the reports to itself. To the client it is a socket without them.

    Parameters
    ----------
    sock : socket or SSLSocket
        Does not block.
    topic : tuple of str
        How topics of reports begin and end.
    status : str
        How topics of statuses end; they begin as those of reports do. Their rate per topic is limited.
    properties : bool
        Whether packets have properties: MQTT 5.
    longest_packet : int
        Bytes; a longer one ends the stream. A longer message is acknowledged unread, where the broker cannot know the limit: MQTT 3.1.1.
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
        """Statuses that were dropped because their topic has too many."""

    # ---- for the owner ----

    def receive(self, most: int) -> Reports | None:
        """At most so many reports: of what was read before and was too much then, or of what is there to be read.

        None where there are none. Raises StreamError, and OSError like a socket.
        """
        before = len(self._incoming)
        if not self._full:
            self._read()
        return self._split(most) if self._full or len(self._incoming) > before else None

    def _read(self) -> None:
        """Read what is there: once, or under TLS record by record, since brokers make one of each packet."""
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
        """How many of the bytes that are there belong to a message that is passed over."""
        gone = min(self._passing, there)
        self._passing -= gone
        return gone

    @property
    def has_rest(self) -> bool:
        """Whether the client has something to read: a packet that is no report, or the end of the stream."""
        return bool(self._rest) or self._closed

    @property
    def buffered(self) -> bool:
        """Whether there are bytes that polling would not show."""
        return self._full or (isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0)

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait to be sent."""
        return bool(self._outgoing)

    @property
    def congested(self) -> bool:
        """Whether the broker takes so little that nothing more should be read: what is read is acknowledged."""
        return len(self._outgoing) > _MOST_UNSENT

    def acknowledge(self, identifiers: npt.NDArray[np.uint16]) -> None:
        """Have reports acknowledged by the next `flush`, in one piece."""
        due = identifiers[identifiers != 0]
        packets = np.tile(_PUBACK, (len(due), 1))
        packets[:, 2], packets[:, 3] = due >> 8, due & 0xFF
        self._outgoing += packets.tobytes()

    def flush(self) -> None:
        """Send as much as the socket takes."""
        while self._outgoing:
            try:
                sent = self._sock.send(self._outgoing)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            del self._outgoing[:sent]

    def drop(self) -> None:
        """Close without a word."""
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
        mail = Mail(
            payloads[: int(payload_ends[count - 1])].tobytes(),
            payload_ends[:count].copy(),
            topics[: int(topic_ends[count - 1])].tobytes(),
            topic_ends[:count].copy(),
            np.full(count, round(time.time() * 1000), np.int64),
        )
        return mail, identifiers[:count].copy()

    def _leave_unread(self, size: int, identifier: int) -> None:
        """Pass over a message that is too long, what of it has come and what is yet to come, and have it acknowledged."""
        _log.warning("a message beyond mqtt.packet_bytes is passed over", bytes=size)
        self.acknowledge(np.array([identifier], np.uint16))
        self._passing = size
        del self._incoming[: self._pass_over(len(self._incoming))]

    # ---- for the client, which takes this for its socket ----

    def recv(self, count: int) -> bytes:
        """The next bytes that are not reports."""
        if not self._rest:
            if self._closed:
                return b""
            raise BlockingIOError
        data = bytes(self._rest[:count])
        del self._rest[:count]
        return data

    def send(self, data: bytes) -> int:
        """Take all of it: packets of the client and acknowledgements never mix."""
        self._outgoing += data
        return len(data)

    def fileno(self) -> int:
        return int(self._sock.fileno())

    def setblocking(self, flag: bool) -> None:
        """It never blocks."""

    def pending(self) -> int:
        return len(self._rest)

    def close(self) -> None:
        """Send what is still to be sent, the client's goodbye at last, and close."""
        if self._outgoing:
            with suppress(OSError):
                self._sock.settimeout(_GOODBYE_SECONDS)
                self._sock.sendall(self._outgoing)
        self.drop()
