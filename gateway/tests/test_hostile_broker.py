# SPDX-License-Identifier: MIT
"""Brokers that break MQTT's rules: the connection ends with a cause, without a traceback and without unbounded memory."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from peel_core.topics import device_topic
from peel_gateway.metrics import Metrics
from peel_gateway.mqtt.client import MqttClient
from peel_gateway.mqtt.connection import Session
from peel_gateway.mqtt.inbox import Inbox
from peel_gateway.settings import Settings

SECONDS = 60.0
CONNACK, PINGRESP = b"\x20\x03\0\0\0", b"\xd0\0"
REPORTS = Session(
    client_id="g", report_filters=("peel/v1/lab/+/+/report",), other_filters=(), status_topic=None, persistent=True
)
STATUSES = Session(
    client_id="s", report_filters=(), other_filters=("peel/v1/lab/+/+/status",), status_topic=None, persistent=False
)

Script = Callable[[socket.socket, bytes], None]
"""Plays the broker after CONNECT and SUBSCRIBE; gets the SUBSCRIBE's packet identifier."""


def publish(topic: str, payload: bytes, *, qos: int, identifier: int = 1) -> bytes:
    body = len(topic).to_bytes(2, "big") + topic.encode() + (identifier.to_bytes(2, "big") if qos else b"")
    body += b"\0" + payload
    return bytes([0x30 | qos << 1, len(body)]) + body


def suback(identifier: bytes, codes: bytes) -> bytes:
    return bytes([0x90, 3 + len(codes)]) + identifier + b"\0" + codes


@contextmanager
def hostile_broker(script: Script, connack: bytes = CONNACK) -> Iterator[int]:
    """Serve each connection by a script; yields the port."""

    def serve(line: socket.socket) -> None:
        with line, suppress(OSError):
            line.recv(4096)
            line.sendall(connack)
            subscribe = line.recv(4096)
            script(line, subscribe[2:4])

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@contextmanager
def connected_to(port: int, session: Session = REPORTS) -> Iterator[tuple[MqttClient, Inbox]]:
    settings = Settings(mqtt_port=port, mqtt_protocol="5", mqtt_keepalive_seconds=1, mqtt_backoff_seconds=0.2)
    inbox = Inbox(limit_messages=16_384, limit_bytes=2**26)
    client = MqttClient(settings, "lab", session, inbox, Metrics())
    client.start()
    try:
        yield client, inbox
    finally:
        client.abort()


def wait_for_cause(client: MqttClient, words: str) -> None:
    deadline, problem = time.monotonic() + SECONDS, None
    while time.monotonic() < deadline:
        problem = client.problem()
        if problem is not None and words in problem[1]:
            return
        time.sleep(0.02)
    raise AssertionError(f"no cause with {words!r} within {SECONDS:g} s; the last one: {problem}")


def idle(line: socket.socket) -> None:
    while line.recv(4096):
        pass


@pytest.mark.parametrize(
    ("codes", "words"),
    [
        (b"", "answered 1 subscriptions with 0 codes"),
        (b"\x01\x01\x01", "answered 1 subscriptions with 3 codes"),
        (b"\x77", "Protocol error"),
        (b"\x87", "refused the subscription"),
    ],
)
def test_an_answer_to_the_subscription_that_fits_nothing(
    codes: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    def script(line: socket.socket, identifier: bytes) -> None:
        line.sendall(suback(identifier, codes))
        idle(line)

    with hostile_broker(script) as port, connected_to(port) as (client, _):
        wait_for_cause(client, words)
    assert not any(record.exc_info for record in caplog.records)


def test_an_answer_to_connect_that_fits_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with (
        hostile_broker(lambda line, _: idle(line), b"\x20\x06\0\0\x03\x99\1\2") as port,
        connected_to(port) as (client, _),
    ):
        wait_for_cause(client, "protocol error")
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize("topic", [device_topic("lab", 1, "report"), device_topic("lab", 1, "status"), "any"])
def test_a_message_at_qos_2_ends_the_connection(topic: str) -> None:
    """A client that takes such messages must remember each of them until the broker releases it."""

    def script(line: socket.socket, identifier: bytes) -> None:
        line.sendall(suback(identifier, b"\1") + publish(topic, b"x", qos=2))
        idle(line)

    with hostile_broker(script) as port, connected_to(port) as (client, inbox):
        wait_for_cause(client, "QoS 2")
        assert inbox.pending == 0


def test_a_connection_for_statuses_takes_no_reports() -> None:
    def script(line: socket.socket, identifier: bytes) -> None:
        line.sendall(suback(identifier, b"\0") + publish(device_topic("lab", 1, "report"), b"x", qos=1))
        idle(line)

    with hostile_broker(script) as port, connected_to(port, STATUSES) as (client, inbox):
        wait_for_cause(client, "not subscribed")
        assert inbox.pending == 0


@pytest.mark.slow
def test_a_broker_that_never_reads_is_left() -> None:
    """It sends reports and answers pings that it has not read; the acknowledgements must not pile up."""
    topic = device_topic("lab", 1, "report")
    chunk = b"".join(publish(topic, b"x", qos=1, identifier=number) for number in range(1, 5000)) + PINGRESP
    over = threading.Event()

    def script(line: socket.socket, identifier: bytes) -> None:
        line.sendall(suback(identifier, b"\1"))
        while not over.is_set():
            line.sendall(chunk)

    with hostile_broker(script) as port, connected_to(port) as (client, inbox):

        def acknowledge() -> None:
            while not over.is_set():
                batch = inbox.take(8192, 2**26, linger=0, patience=0.05)
                inbox.release(batch)
                client.acknowledge(batch)

        taking = threading.Thread(target=acknowledge)
        taking.start()
        try:
            wait_for_cause(client, "Keep alive timeout")
        finally:
            over.set()
            taking.join()


def test_a_broker_that_acknowledges_nothing_is_left() -> None:
    def script(line: socket.socket, identifier: bytes) -> None:
        line.sendall(suback(identifier, b"\0"))
        idle(line)

    with hostile_broker(script) as port, connected_to(port, STATUSES) as (client, _):
        for number in range(10_001):
            client.publish_retained(f"topic/{number}", "text")
        wait_for_cause(client, "has not acknowledged")
