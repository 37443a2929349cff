# SPDX-License-Identifier: MIT
"""The test broker starts, keeps its port, and keeps sessions if told to."""

from __future__ import annotations

import queue
import socket
import sys
import threading
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt import publish
from paho.mqtt.enums import CallbackAPIVersion

import peel_tools.servers.broker as broker_module
from peel_tools.servers import free_port
from peel_tools.servers.broker import Broker, BrokerError, find_mosquitto


def reachable(broker: Broker) -> bool:
    try:
        socket.create_connection((broker.host, broker.port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("embedded", [False, True], ids=["mosquitto", "amqtt"])
def test_start_stop_kill(embedded: bool) -> None:
    if not embedded and find_mosquitto() is None:
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


def test_a_port_is_given_once_and_no_outgoing_connection_can_take_it() -> None:
    given = [free_port() for _ in range(500)]
    assert len(set(given)) == 500
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(given) < first_outgoing


class Subscriber:
    """One client with a session that outlives its connections."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.known: queue.Queue[bool] = queue.Queue()
        """Whether the broker remembered the session, once per connection."""
        self.received: queue.Queue[bytes] = queue.Queue()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id="subscriber", clean_session=False)
        self._client.on_connect = lambda client, data, flags, *_: self.known.put(flags.session_present)
        self._client.on_message = lambda client, data, message: self.received.put(bytes(message.payload))

    def connect(self) -> bool:
        self._client.connect(self._broker.host, self._broker.port)
        self._client.loop_start()
        return self.known.get(timeout=10)

    def subscribe(self, topic: str) -> None:
        done = threading.Event()
        self._client.on_subscribe = lambda *_: done.set()
        self._client.subscribe(topic, qos=1)
        assert done.wait(10)

    def disconnect(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


@pytest.mark.parametrize("persistent", [True, False])
def test_sessions_outlive_a_restart_when_told_to(persistent: bool) -> None:
    with Broker(embedded=False, persistent=persistent) as broker:
        subscriber = Subscriber(broker)
        assert not subscriber.connect()
        subscriber.subscribe("topic")
        subscriber.disconnect()
        publish.single("topic", b"while away", qos=1, hostname=broker.host, port=broker.port)
        broker.stop()
        broker.start()
        assert subscriber.connect() == persistent
        if persistent:
            assert subscriber.received.get(timeout=10) == b"while away"
        subscriber.disconnect()


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
