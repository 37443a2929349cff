# SPDX-License-Identifier: MIT
"""The attacker's MQTT parser loses and invents nothing, however the stream is split."""

from __future__ import annotations

import random

import pytest

from peel_tools.network import PUBACK, Publish, Splitter, acknowledged, kind

CONNECT = bytes([0x10, 2, 0, 0])
ACK = bytes([PUBACK << 4, 2, 0x12, 0x34])
LONG = Publish(b"peel/v1/lab/01/00000001/report", 7, bytes(300))
HUGE = Publish(b"t", 0xFFFF, bytes(20_000))
PACKETS = [CONNECT, LONG.packet(), ACK, Publish(b"t", 1, b"").packet(), HUGE.packet(), ACK]


@pytest.mark.parametrize("seed", range(20))
def test_packets_come_out_whole(seed: int) -> None:
    chance = random.Random(seed)
    stream, splitter, found = b"".join(PACKETS), Splitter(), []
    while stream:
        size = chance.choice((1, 2, 3, 100, 5000))
        found += list(splitter.feed(stream[:size]))
        stream = stream[size:]
    assert found == PACKETS


def test_incomplete_packet_waits() -> None:
    splitter = Splitter()
    assert list(splitter.feed(LONG.packet()[:-1])) == []
    assert list(splitter.feed(LONG.packet()[-1:])) == [LONG.packet()]


@pytest.mark.parametrize("message", [LONG, HUGE, Publish(b"t", 1, b"")])
def test_publish_is_read_as_written(message: Publish) -> None:
    assert Publish.parse(message.packet()) == message


def test_other_packets_are_no_publish() -> None:
    assert Publish.parse(CONNECT) is None
    assert Publish.parse(bytes([0x30, 3, 0, 1, ord("t")])) is None  # QoS 0: nobody acknowledges it
    assert kind(ACK) == PUBACK
    assert acknowledged(ACK) == 0x1234
