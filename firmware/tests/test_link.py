# SPDX-License-Identifier: MIT
"""The link with a real broker: QoS 1, birth, will, batches, back-off, and no frame lost."""

from __future__ import annotations

import os
import select
import socket
import time

import pytest
from inbox import Inbox

from host_board import HostBoard, PacedBoard, config
from peel_device import link as link_module
from peel_device.config import Mqtt, Wifi
from peel_device.interfaces import Wire
from peel_device.link import Link
from peel_device.mqtt import PACKET_IDS
from peel_device.outbox import Outbox
from peel_device.tcp import SocketWire
from peel_tools.servers import free_port
from peel_tools.servers.broker import Broker
from power_cut import MemoryFiles

BIRTH = {"state": "online", "dropped": 0}


def make_link(port: int, board: HostBoard | None = None) -> Link:
    board = board or HostBoard()
    return Link(config(mqtt__port=port), board, board.clock, os.urandom)


def filled(count: int, limit: int = 100) -> Outbox:
    outbox = Outbox(MemoryFiles(), "out", limit, confirmed_by_broker=True)
    outbox.start()
    for number in range(1, count + 1):
        outbox.put(number, frame(number))
    return outbox


def frame(number: int) -> bytes:
    return number.to_bytes(2, "big") * 19


def test_frames_arrive_in_order_in_batches_after_the_birth(broker: Broker, inbox: Inbox) -> None:
    outbox = filled(20)
    link = make_link(broker.port)
    assert link.drain(outbox, BIRTH) == 20
    assert len(outbox) == 0
    assert inbox.status() == BIRTH
    sizes: list[int] = []
    frames: list[bytes] = []
    while len(frames) < 20:
        kind, payload = inbox.next()
        assert kind == "report"
        sizes.append(len(payload) // 38)
        frames += [payload[at : at + 38] for at in range(0, len(payload), 38)]
    assert sizes == [8, 8, 4]
    assert frames == [frame(number) for number in range(1, 21)]


def test_the_will_tells_of_a_lost_device(broker: Broker, inbox: Inbox) -> None:
    board = HostBoard()
    link = make_link(broker.port, board)
    link.drain(filled(1), BIRTH)
    assert inbox.status()["state"] == "online"
    assert link._transport is not None
    link._transport.abort()
    assert inbox.status() == {"state": "offline"}


def test_sleep_says_goodbye(broker: Broker, inbox: Inbox) -> None:
    link = make_link(broker.port)
    link.drain(filled(1), BIRTH)
    link.stop()
    assert not link.up
    assert [inbox.status()["state"], inbox.status()] == ["online", {**BIRTH, "state": "offline", "asleep": True}]


def test_without_a_broker_nothing_is_lost_and_attempts_back_off() -> None:
    outbox = filled(3)
    link = make_link(free_port())
    assert link.drain(outbox, BIRTH) == 0
    assert len(outbox) == 3
    assert 0 < link.retry_in() <= link_module.BACKOFF_FIRST_MS
    faults = link.faults
    assert link.drain(outbox, BIRTH) == 0
    assert link.faults == faults, "no attempt before its time"


def test_frames_that_cannot_be_read_do_not_hold_the_link_up(broker: Broker, inbox: Inbox) -> None:
    files = UnreadableFiles()
    outbox = Outbox(files, "out", 100, confirmed_by_broker=True)
    outbox.start()
    for number in range(1, 12):
        outbox.put(number, frame(number))
    files.below = 10
    link = make_link(broker.port)
    assert link.drain(outbox, BIRTH) == 2
    assert (len(outbox), link.faults) == (9, 0)
    files.below = 0
    assert link.drain(outbox, BIRTH) == 9
    assert inbox.frames(11) == [frame(number) for number in (10, 11, *range(1, 10))]


class UnreadableFiles(MemoryFiles):
    """Files on which frames below a number cannot be read."""

    below = 0

    def read(self, path: str) -> bytes | None:
        name = path.rpartition("/")[2]
        if len(name) == 12 and int(name, 16) < self.below:
            raise OSError(5, "cannot be read")
        return super().read(path)


def test_a_broker_that_never_acknowledges_costs_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "TIMEOUT_MS", 200)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        outbox, board = filled(1), PacedBoard()
        assert make_link(silent.getsockname()[1], board).drain(outbox, BIRTH) == 0
        assert board.paces.at == 200
        assert len(outbox) == 1


@pytest.mark.parametrize("answer", [b"\x00" * 64, b"\x20\x02\x00\x05", b"\x20\x02\x00\x00" + b"\x30" + b"\xff" * 60])
def test_a_hostile_broker_harms_nobody(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "TIMEOUT_MS", 300)
    with socket.create_server(("127.0.0.1", 0)) as server:
        link, outbox = make_link(server.getsockname()[1]), filled(1)
        server.setblocking(False)

        class AnsweringBoard(HostBoard):
            def dial(self, transport: str, mqtt: Mqtt, wifi: Wifi | None) -> Wire:
                wire = super().dial(transport, mqtt, wifi)
                server.setblocking(True)
                connection, _ = server.accept()
                connection.sendall(answer)
                self.kept = connection
                return wire

        link._board = AnsweringBoard()
        assert link.drain(outbox, BIRTH) == 0
        assert len(outbox) == 1
        assert link.faults == 1


def test_after_an_outage_the_same_bytes_arrive(broker: Broker, inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "BACKOFF_FIRST_MS", 2)
    outbox = filled(4)
    link = make_link(broker.port)
    link.drain(outbox, BIRTH)
    assert inbox.frames(4) == [frame(number) for number in range(1, 5)]
    assert link._transport is not None
    link._transport._wire.close()
    outbox.put(5, frame(5))
    deadline = time.monotonic() + 10
    while len(outbox) and time.monotonic() < deadline:
        link.drain(outbox, BIRTH)
        time.sleep(0.01)
    assert inbox.frames(1) == [frame(5)]
    assert link.faults >= 1


def test_packet_ids_start_over_before_they_run_out(broker: Broker, inbox: Inbox) -> None:
    link = make_link(broker.port)
    outbox = filled(1)
    link.drain(outbox, BIRTH)
    assert link._client is not None
    link._client.pid = PACKET_IDS - 1
    for number in range(2, 5):
        outbox.put(number, frame(number))
        assert link.drain(outbox, BIRTH) == 1
    assert inbox.frames(4) == [frame(number) for number in range(1, 5)]


def test_an_idle_session_is_kept_alive_and_a_dead_one_noticed(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    board = PacedBoard()
    link = make_link(broker.port, board)
    link.drain(filled(1), BIRTH)
    assert link._client is not None
    assert link._transport is not None
    ping, wire = link._client.ping, link._transport._wire
    assert isinstance(wire, SocketWire)
    pings = 0

    def ping_and_wait() -> None:
        nonlocal pings
        pings += 1
        ping()
        assert link._transport is not None
        link._transport._flush()
        assert select.select([wire._sock], [], [], 10)[0], "no answer"

    monkeypatch.setattr(link._client, "ping", ping_and_wait)
    idle(link, board, 5 * link_module.KEEPALIVE_S)
    assert link.up
    assert pings == 9, "every 31 seconds"
    monkeypatch.setattr(link._client, "ping", lambda: None)
    idle(link, board, link_module.KEEPALIVE_S + 1)
    assert not link.up


def idle(link: Link, board: PacedBoard, seconds: int) -> None:
    """Advance the device's clock by so many seconds, but not the broker's."""
    for _ in range(seconds):
        board.paces.at += 1000
        link.tend()
