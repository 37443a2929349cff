# SPDX-License-Identifier: MIT
"""The broker of our own: starts, keeps its port, keeps sessions when told to."""

from __future__ import annotations

import os
import socket
import sys

import pytest

import peel_tools.broker as broker_module
from peel_tools.broker import Broker, BrokerError, find_mosquitto


def reachable(broker: Broker) -> bool:
    try:
        socket.create_connection((broker.host, broker.port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("embedded", [False, True], ids=["mosquitto", "amqtt"])
def test_start_stop_kill(embedded: bool) -> None:
    if not embedded and find_mosquitto() is None and not os.environ.get("CI"):
        pytest.skip("mosquitto is not installed")
    with Broker(embedded=embedded) as broker:
        port, folder = broker.port, broker.folder
        assert reachable(broker)
        broker.stop()
        assert broker.pid is None
        assert not reachable(broker)
        broker.start()
        assert (broker.port, reachable(broker)) == (port, True)
        broker.kill()
        assert broker.pid is None
    assert not folder.exists()


def test_a_broker_that_cannot_start_says_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = Broker(port=taken.getsockname()[1])
        with pytest.raises(BrokerError, match="Address already in use"):
            broker.start()
        broker.close()


def test_what_the_embedded_one_cannot_do_is_refused() -> None:
    with pytest.raises(BrokerError, match="need mosquitto"):
        Broker(embedded=True, persistent=True)


@pytest.fixture
def no_mosquitto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_module, "find_mosquitto", lambda: None)


@pytest.mark.usefixtures("no_mosquitto")
def test_without_mosquitto_the_embedded_one_takes_its_place() -> None:
    with Broker() as broker:
        assert (broker.name, broker.embedded, reachable(broker)) == ("amqtt", True, True)
    with pytest.raises(BrokerError, match=r"mosquitto is not installed. On Debian, as root: apt-get install mosquitto"):
        Broker(embedded=False)


@pytest.mark.usefixtures("no_mosquitto")
def test_without_any_broker_both_ways_out_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [])
    with pytest.raises(BrokerError, match=r"apt-get install mosquitto. Or: pip install 'peel-telemetry\[broker\]'"):
        Broker()
