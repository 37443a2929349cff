# SPDX-License-Identifier: MIT
"""The splitter of MQTT packets against its reference: the same verdict and the same bytes for any stream, hostile ones above all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import packets_reference as reference
import pytest
from packets_reference import Malformed, QosTwo, Rule, Split, TooLong

from peel_gateway._kernels import ffi, lib

FAULTS = {
    lib.PEEL_PACKETS_MALFORMED: Malformed,
    lib.PEEL_PACKETS_TOO_LONG: TooLong,
    lib.PEEL_PACKETS_QOS_2: QosTwo,
}
PACES = 4096
"""Enough that the few topics of a test have a place each."""
CANARY = 0xA5


def by_kernel(rule: Rule, stream: bytes) -> tuple[Split, type[Exception] | None]:
    """Split by the kernel, with buffers of the documented sizes; check that nothing is written behind them."""
    prefix, suffix = ffi.from_buffer(rule.prefix), ffi.from_buffer(rule.suffix)
    c_rule = ffi.new("peel_packets_rule *")
    c_rule.prefix, c_rule.prefix_bytes, c_rule.suffix, c_rule.suffix_bytes = prefix, len(prefix), suffix, len(suffix)
    c_rule.properties, c_rule.longest_packet = rule.properties, rule.longest_packet
    c_rule.longest_topic, c_rule.most = rule.longest_topic, rule.most
    status, paces = ffi.from_buffer(rule.status), ffi.new("peel_packets_pace[]", PACES)
    c_rule.status, c_rule.status_bytes, c_rule.paces, c_rule.seed = status, len(status), paces, 1
    c_rule.pace_count, c_rule.now = PACES if rule.interval else 0, rule.now
    c_rule.interval, c_rule.slack = rule.interval, rule.slack
    most = len(stream) // lib.PEEL_PACKETS_LEAST
    room = {"payloads": len(stream), "topics": len(stream), "rest": len(stream)}
    room |= {"payload_ends": 8 * most, "topic_ends": 8 * most, "identifiers": 2 * most}
    buffers = {name: np.full(size + 16, CANARY, np.uint8) for name, size in room.items()}
    parts = ffi.new("peel_packets_parts *")
    for name, buffer in buffers.items():
        setattr(parts, name, ffi.cast(ffi.typeof(getattr(parts, name)), ffi.from_buffer(buffer)))
    used = lib.peel_packets_split(parts, c_rule, ffi.from_buffer(stream), len(stream))
    for name, buffer in buffers.items():
        assert (buffer[room[name] :] == CANARY).all(), name
    count = int(parts.reports)
    topics, payloads = (_pieces(buffers, name, count) for name in ("topic", "payload"))
    identifiers = buffers["identifiers"][: 2 * count].view(np.uint16).tolist()
    done = Split(used, list(zip(topics, payloads, identifiers, strict=True)), _bytes(buffers["rest"], parts.rest_bytes))
    done.limited = int(parts.limited)
    done.passed = (int(parts.passed_bytes), int(parts.passed_identifier)) if parts.passed_bytes else None
    return done, FAULTS.get(used)


def _bytes(buffer: np.ndarray, count: int) -> bytes:
    return buffer[:count].tobytes()


def _pieces(buffers: dict[str, np.ndarray], name: str, count: int) -> list[bytes]:
    ends = buffers[f"{name}_ends"][: 8 * count].view(np.uint64).tolist()
    return [buffers[f"{name}s"][begin:end].tobytes() for begin, end in itertools.pairwise([0, *ends])]


def compare(rule: Rule, stream: bytes) -> type[Exception] | None:
    """Hold kernel and reference together; return the fault that both found."""
    expected, fault = reference.split(rule, stream)
    found, kind = by_kernel(rule, stream)
    assert kind is (None if fault is None else type(fault)), stream.hex()
    assert (found.reports, found.rest) == (expected.reports, expected.rest), stream.hex()
    assert found.limited == expected.limited, stream.hex()
    if fault is None:
        assert (found.used, found.passed) == (expected.used, expected.passed), stream.hex()
    return kind


RULE = Rule(b"a/", b"/r", properties=True, longest_packet=300, longest_topic=6, most=1000)


def publish(
    rng: np.random.Generator, rule: Rule, topic: bytes, *, qos: int, payload: bytes, padded: bool = False
) -> bytes:
    """A PUBLISH; its length in more bytes than it needs where `padded`, which MQTT forbids and nobody can prevent."""
    body = len(topic).to_bytes(2, "big") + topic + (int(rng.integers(1, 65536)).to_bytes(2, "big") if qos else b"")
    body += (b"\x03abc" if rng.random() < 0.3 else b"\x00") if rule.properties else b""
    body += payload
    length = bytes([len(body) & 0x7F | 0x80, len(body) >> 7]) if padded or len(body) > 127 else bytes([len(body)])
    return bytes([0x30 | qos << 1]) + length + body


def packets(rng: np.random.Generator, rule: Rule) -> Iterator[bytes]:
    """Well-formed ones of several kinds."""
    for _ in range(int(rng.integers(1, 6))):
        topic = (b"a/x/r", b"a//r", b"a/r", b"", b"a/long/topic/r", b"a/x/s", b"a/y/s")[int(rng.integers(7))]
        payload, qos = rng.bytes(int(rng.integers(0, 150))), int(rng.choice([0, 1, 2], p=[0.55, 0.4, 0.05]))
        yield publish(rng, rule, topic, qos=qos, payload=payload, padded=rng.random() < 0.1)
        if rng.random() < 0.5:
            yield bytes([int(rng.integers(256)), 3]) + rng.bytes(3)


def mutations(rng: np.random.Generator, stream: bytes) -> Iterator[bytes]:
    """The stream, and the same cut, with bytes changed, taken out, put in, and one after the other of two parts of it."""
    yield stream
    yield stream[: int(rng.integers(len(stream) + 1))]
    for _ in range(6):
        changed = bytearray(stream)
        for _ in range(int(rng.integers(1, 4))):
            changed[int(rng.integers(len(changed)))] = int(rng.choice([0, 1, 2, 0x30, 0x32, 0x7F, 0x80, 0xFF]))
        yield bytes(changed)
    at, other = rng.integers(0, len(stream), 2).tolist()
    yield stream[:at] + stream[at + 1 :]
    yield stream[:at] + rng.bytes(1) + stream[at:]
    yield stream[at:] + stream[:other]


@pytest.mark.slow
def test_any_stream_is_split_as_the_reference_splits_it(rng: np.random.Generator) -> None:
    faults = []
    for _ in range(1000):
        rule = Rule(
            prefix=(b"", b"a/")[int(rng.integers(2))],
            suffix=(b"", b"/r")[int(rng.integers(2))],
            properties=bool(rng.integers(2)),
            longest_packet=int(rng.choice([0, 20, 140, 300, 2**28])),
            longest_topic=int(rng.choice([0, 4, 200])),
            most=int(rng.choice([0, 1, 3, 1000])),
            status=(b"", b"/s")[int(rng.integers(2))],
            now=int(rng.choice([0, 1000])),
            interval=int(rng.choice([0, 10, 2**40])),
            slack=int(rng.choice([0, 10, 2**40])),
        )
        faults += [compare(rule, changed) for changed in mutations(rng, b"".join(packets(rng, rule)))]
    assert {None, Malformed, QosTwo, TooLong} == set(faults)
    assert faults.count(None) > 200 < faults.count(Malformed)


@pytest.mark.slow
@pytest.mark.parametrize("properties", [False, True])
def test_every_short_stream_of_telling_bytes(properties: bool) -> None:
    """All of up to six bytes out of those at which something is decided; every topic is a report's."""
    rule = Rule(b"", b"", properties, longest_packet=3, longest_topic=1, most=1)
    faults = set()
    for length in range(7):
        for stream in itertools.product(b"\x00\x01\x02\x30\x32\x80", repeat=length):
            faults.add(compare(rule, bytes(stream)))
    assert faults == {None, Malformed, TooLong}
