# SPDX-License-Identifier: MIT
"""TLS to a real broker: the right CA is accepted, a wrong one refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from host_board import HostBoard, config
from peel_device.errors import BoardError
from peel_device.link import Link
from peel_device.outbox import Outbox
from peel_tools.servers.broker import Broker
from power_cut import MemoryFiles


def drained(port: int, ca: Path) -> tuple[int, Link]:
    settings = config(mqtt={"host": "127.0.0.1", "port": port, "tls": True, "ca": str(ca)[-64:]})
    settings.mqtt.ca = str(ca)
    outbox = Outbox(MemoryFiles(), "out", 10)
    outbox.start()
    outbox.put(1, b"frame")
    board = HostBoard()
    link = Link(settings, board, board.clock, os.urandom)
    return link.drain(outbox, {"state": "online"}), link


def test_the_right_ca_gets_through(tls_broker: Broker, certificates: Path) -> None:
    sent, link = drained(tls_broker.port, certificates / "ca.der")
    assert (sent, link.faults) == (1, 0)
    link.stop()


def test_another_ca_is_a_fault_and_nothing_is_sent(tls_broker: Broker, certificates: Path) -> None:
    sent, link = drained(tls_broker.port, certificates / "other.der")
    assert (sent, link.faults, link.up) == (0, 1, False)


def test_a_missing_ca_file_names_the_key(tls_broker: Broker, certificates: Path) -> None:
    with pytest.raises(BoardError, match=r"mqtt\.ca: .*absent\.der is not on the device"):
        drained(tls_broker.port, certificates / "absent.der")
