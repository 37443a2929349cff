# SPDX-License-Identifier: MIT
"""The splitter of MQTT packets once more, slow and to be read: what `gateway/kernels/packets.c` must say of any bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Malformed", "Rule", "Split", "TooLong", "split"]


class Malformed(Exception):  # noqa: N818 - the word for it
    """No MQTT."""


class TooLong(Exception):  # noqa: N818 - the word for it
    """A packet beyond the limit."""


@dataclass(frozen=True)
class Rule:
    """Which packets are reports, and what is too much."""

    prefix: bytes
    suffix: bytes
    properties: bool
    longest_packet: int
    longest_topic: int
    most: int


@dataclass
class Split:
    """What a stream was split into."""

    used: int = 0
    reports: list[tuple[bytes, bytes, int]] = field(default_factory=list)
    """Topic, payload and packet identifier of each."""
    rest: bytes = b""


def read_length(data: bytes) -> tuple[int, int] | None:
    """A variable byte integer and how many bytes it has (MQTT 5, section 1.5.5); None if it is not all there."""
    value = 0
    for place, byte in enumerate(data[:4]):
        value += (byte & 0x7F) * 128**place
        if byte < 0x80:
            return value, place + 1
    if len(data) >= 4:
        raise Malformed
    return None


def report(rule: Rule, qos: int, body: bytes) -> tuple[bytes, bytes, int] | None:
    """The body of a PUBLISH, if it is a report."""
    length, body = int.from_bytes(body[:2], "big"), _after(2, body)
    topic, body = body[:length], _after(length, body)
    long_enough = len(topic) >= len(rule.prefix) + len(rule.suffix)
    if not (long_enough and topic.startswith(rule.prefix) and topic.endswith(rule.suffix)):
        return None
    identifier = 0
    if qos:
        identifier, body = int.from_bytes(body[:2], "big"), _after(2, body)
        if identifier == 0:
            raise Malformed
    if rule.properties:
        read = read_length(body)
        if read is None:
            raise Malformed
        body = _after(read[0], _after(read[1], body))
    return topic[: rule.longest_topic], body, identifier


def _after(count: int, data: bytes) -> bytes:
    if count > len(data):
        raise Malformed
    return data[count:]


def split(rule: Rule, stream: bytes) -> tuple[Split, Exception | None]:
    """What whole packets at the beginning of a stream are split into, up to a fault or the report that would be one too many."""
    done = Split()
    try:
        while (packet := _packet(rule, stream[done.used :])) is not None:
            head, body = packet
            kind, qos = head[0] >> 4, head[0] >> 1 & 3
            if kind == 3 and len(done.reports) == rule.most:
                break
            found = report(rule, qos, body) if kind == 3 and qos < 2 else None
            if found is None:
                done.rest += head + body
            else:
                done.reports.append(found)
            done.used += len(head) + len(body)
    except (Malformed, TooLong) as fault:
        return done, fault
    return done, None


def _packet(rule: Rule, stream: bytes) -> tuple[bytes, bytes] | None:
    """Head and body of the packet that the stream begins with, if it is all there."""
    read = read_length(stream[1:])
    if read is None:
        return None
    length, size = read
    if length > rule.longest_packet:
        raise TooLong
    head, body = stream[: 1 + size], stream[1 + size : 1 + size + length]
    return (head, body) if len(body) == length else None
