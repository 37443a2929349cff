# SPDX-License-Identifier: MIT
"""The splitter of MQTT packets once more, slow and to be read: what `gateway/kernels/packets.c` must say of any bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Malformed", "QosTwo", "Rule", "Split", "TooLong", "split"]


class Malformed(Exception):  # noqa: N818 - the word for it
    """No MQTT."""


class QosTwo(Exception):  # noqa: N818 - the word for it
    """A message at QoS 2."""


class TooLong(Exception):  # noqa: N818 - the word for it
    """A packet beyond the limit."""


@dataclass(frozen=True)
class Rule:
    """The topics of reports, and the limits."""

    prefix: bytes
    suffix: bytes
    properties: bool
    longest_packet: int
    longest_topic: int
    most: int
    status: bytes = b""
    now: int = 0
    interval: int = 0
    """Between two statuses of a topic; 0 sets no limit."""
    slack: int = 0


@dataclass
class Split:
    """The parts of a stream."""

    used: int = 0
    reports: list[tuple[bytes, bytes, int]] = field(default_factory=list)
    """Topic, payload and packet identifier of each."""
    rest: bytes = b""
    limited: int = 0
    """Statuses that were dropped."""
    due: dict[bytes, int] = field(default_factory=dict)
    """When the next status of each topic is due."""
    passed: tuple[int, int] | None = None
    """Of the message beyond the limit that it ended at, and that can be passed over: bytes, and packet identifier or 0."""


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


def _is_topic(rule: Rule, suffix: bytes, topic: bytes) -> bool:
    long_enough = len(topic) >= len(rule.prefix) + len(suffix)
    return long_enough and topic.startswith(rule.prefix) and topic.endswith(suffix)


def _limited(rule: Rule, topic: bytes, due: dict[bytes, int]) -> bool:
    """Tell whether a status comes too soon; if not, note one more."""
    if not rule.interval or not _is_topic(rule, rule.status, topic):
        return False
    at = max(due.get(topic, 0), rule.now)
    if at - rule.now > rule.slack:
        return True
    due[topic] = at + rule.interval
    return False


def report(rule: Rule, qos: int, body: bytes, due: dict[bytes, int]) -> tuple[bytes, bytes, int] | bool:
    """Read the body of a PUBLISH: a report, or whether it is a status that is dropped."""
    if qos > 1:
        raise QosTwo if qos == 2 else Malformed
    length, body = int.from_bytes(body[:2], "big"), _after(2, body)
    topic, body = body[:length], _after(length, body)
    if not _is_topic(rule, rule.suffix, topic):
        return qos == 0 and _limited(rule, topic, due)
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
    """Split the whole packets at the beginning of a stream, up to a fault or to the report beyond the limit."""
    done = Split()
    try:
        while (packet := _packet(rule, stream[done.used :])) is not None:
            head, body = packet
            kind, qos = head[0] >> 4, head[0] >> 1 & 3
            if kind == 3 and len(done.reports) == rule.most:
                break
            found = kind == 3 and report(rule, qos, body, done.due)
            if found is True:
                done.limited += 1
            elif found is False:
                done.rest += head + body
            else:
                done.reports.append(found)
            done.used += len(head) + len(body)
    except TooLong as fault:
        try:
            done.passed = _passed(rule, stream[done.used :], fault)
        except (Malformed, TooLong) as final:
            return done, final
    except (Malformed, QosTwo) as fault:
        return done, fault
    return done, None


def _passed(rule: Rule, stream: bytes, fault: TooLong) -> tuple[int, int] | None:
    """Return how to skip a message beyond the limit, or None until its header is complete. If the broker knows the limit, raise."""
    kind, qos = stream[0] >> 4, stream[0] >> 1 & 3
    read = read_length(stream[1:])
    if rule.properties or kind != 3 or qos > 1 or read is None:
        raise fault
    length, body = read[0], stream[1 + read[1] :]
    if len(body) < 2:
        return None
    place = 2 + int.from_bytes(body[:2], "big")
    if qos and place + 2 > length:
        raise Malformed
    if qos and place + 2 > len(body):
        return None
    return 1 + read[1] + length, int.from_bytes(body[place : place + 2], "big") if qos else 0


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
