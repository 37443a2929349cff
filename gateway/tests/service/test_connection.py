# SPDX-License-Identifier: MIT
"""Ways to a broker: TLS, passwords, MQTT 3.1.1, and brokers that refuse."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from field import Field, MakeField, locked_store
from helpers import make_certificates
from paho.mqtt.enums import CallbackAPIVersion

from peel_research.soak.weather import Weather
from peel_tools.network import Line, LineCutError, Relay, send
from peel_tools.servers.broker import AnyBroker, Broker


def publish_through(field: Field, broker: AnyBroker, messages: list[tuple[str, bytes]], **client_options: Any) -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2)
    if "ca" in client_options:
        client.tls_set(ca_certs=str(client_options["ca"]))
    if "user" in client_options:
        client.username_pw_set(client_options["user"], client_options["password"])
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    for sent in [client.publish(topic, payload, qos=1) for topic, payload in messages]:
        sent.wait_for_publish(20)
    client.disconnect()
    client.loop_stop()


def test_tls(make_field: MakeField, tmp_path: Path) -> None:
    tls = make_certificates(tmp_path)
    field = make_field(tls=tls)
    gateway = field.new_gateway(mqtt_tls="true", mqtt_ca=tls.ca).start()
    publish_through(field, field.broker, field.reports(300), ca=tls.ca)
    field.wait_accepted(gateway, 300)
    assert gateway.stop() == 0


def test_a_queue_through_a_small_window_under_tls(make_field: MakeField, tmp_path: Path) -> None:
    """More than the gateway reads at once waits in the broker: nothing is left behind where polling does not see it."""
    tls = make_certificates(tmp_path)
    field = make_field(tls=tls)
    gateway = field.new_gateway(mqtt_tls="true", mqtt_ca=tls.ca, mqtt_window=50, batch_messages=20).start()
    assert gateway.stop() == 0
    messages = field.reports(1000)
    publish_through(field, field.broker, messages, ca=tls.ca)
    gateway.start()
    field.wait_accepted(gateway, 1000)
    assert gateway.stop() == 0
    field.audit(gateway, messages)


def test_tls_refuses_a_broker_of_another_ca(make_field: MakeField, tmp_path: Path) -> None:
    tls = make_certificates(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    field = make_field(tls=tls)
    foreign_ca = make_certificates(other).ca
    gateway = field.new_gateway(mqtt_tls="true", mqtt_ca=foreign_ca, health_broker_seconds=0).start(until="answering")
    gateway.wait_for(lambda: any("CERTIFICATE_VERIFY_FAILED" in cause for cause in gateway.summary()["health"]))
    assert not gateway.summary()["broker"]["connected"]


def test_user_and_password(make_field: MakeField, tmp_path: Path) -> None:
    password = "correct horse"
    field = make_field(users={"gateway": password})
    secret = tmp_path / "password"
    secret.write_text(password + "\n")
    secret.chmod(0o600)
    gateway = field.new_gateway(mqtt_user="gateway", mqtt_password_file=secret).start()
    publish_through(field, field.broker, field.reports(50), user="gateway", password=password)
    field.wait_accepted(gateway, 50)
    gateway.stop()

    wrong = field.new_gateway(mqtt_user="gateway", mqtt_password="battery staple", health_broker_seconds=0)
    wrong.start(until="answering")
    wrong.wait_for(lambda: any("refused the connection" in cause for cause in wrong.summary()["health"]))
    wrong.stop()
    logged = wrong.log_path.read_text()
    assert password not in logged
    assert "battery staple" not in logged


def test_a_broker_that_takes_small_packets_only(make_field: MakeField, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = Broker._mosquitto_lines
    monkeypatch.setattr(Broker, "_mosquitto_lines", lambda broker: ["max_packet_size 200", *lines(broker)])
    gateway = make_field().new_gateway(health_broker_seconds=0).start(until="answering")
    gateway.wait_for(lambda: any("at most 200 bytes" in cause for cause in gateway.summary()["health"]))


class _OldBroker:
    """Stands before a broker and answers a CONNECT of MQTT 5 as one that never heard of it would."""

    def __init__(self, broker: AnyBroker, *, answer: bytes) -> None:
        self._broker = broker
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.refused = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        first = client.recv(4096)
        version = first[first.index(b"MQTT") + 4]
        if version == 5:
            self.refused += 1
            client.sendall(self._answer)
            client.close()
            return
        server = socket.create_connection((self._broker.host, self._broker.port))
        server.sendall(first)
        threading.Thread(target=_copy, args=(server, client), daemon=True).start()
        _copy(client, server)


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        end.close()


@pytest.fixture(params=[b"\x20\x02\x00\x01", b""], ids=["refuses", "hangs up"])
def old_broker(request: pytest.FixtureRequest, field: Field) -> Iterator[_OldBroker]:
    shim = _OldBroker(field.broker, answer=request.param)
    yield shim
    shim.close()


def test_a_broker_without_mqtt_5(field: Field, old_broker: _OldBroker) -> None:
    gateway = field.new_gateway(mqtt_port=old_broker.port).start()
    assert old_broker.refused >= 1
    assert gateway.summary()["broker"]["mqtt"] == "3.1.1"
    field.publish(field.reports(400))
    field.wait_accepted(gateway, 400)
    gateway.kill()
    field.publish(field.reports(100))
    gateway.start()
    field.wait_accepted(gateway, 500)
    assert gateway.stop() == 0


@pytest.mark.parametrize("answer", [None, b"\x20\x02\x00\x01"], ids=["5", "3.1.1"])
def test_a_line_that_hangs_up_says_nothing_about_the_version(field: Field, answer: bytes | None) -> None:
    """A load balancer without a broker behind it takes every call and hangs up; what was spoken before is spoken afterwards."""
    broker = field.broker if answer is None else _OldBroker(field.broker, answer=answer)
    with Weather(("127.0.0.1", broker.port)) as line:
        gateway = field.new_gateway(mqtt_port=line.endpoint[1]).start()
        spoken = gateway.summary()["broker"]["mqtt"]
        line.cut()
        gateway.wait_for(lambda: gateway.log_path.read_text().count("closed the connection after CONNECT") >= 3)
        line.heal()
        gateway.wait_for(lambda: gateway.summary()["broker"]["connected"])
        assert gateway.summary()["broker"]["mqtt"] == spoken
        tried = gateway.log_path.read_text().count("trying another version")
        assert tried == (0 if answer is None else 2)  # once for each connection
        assert gateway.stop() == 0


def test_mqtt_311_with_a_small_window_reads_no_more_than_fits(field: Field) -> None:
    """MQTT 3.1.1 has no receive maximum: the gateway stops reading, and TCP holds the broker back."""
    gateway = field.new_gateway(
        mqtt_protocol="3.1.1", mqtt_window=50, batch_messages=10, store_lock_seconds=0.1
    ).start()
    sent = field.reports(1500)
    with locked_store(gateway):
        field.publish(sent)
        gateway.wait_for(lambda: gateway.summary()["inbox"]["pending"] >= 50)
        assert {gateway.summary()["inbox"]["pending"] for _ in range(30)} == {50}
    field.wait_accepted(gateway, len(sent))
    assert gateway.stop() == 0
    field.audit(gateway, sent)


class _Interrupter(Relay[Line]):
    """A relay into whose lines somebody else can speak."""

    def line(self, near: socket.socket, far: socket.socket) -> Line:
        return Line(near, far)

    def say(self, data: bytes) -> None:
        """Send bytes to all connected clients, in the broker's name."""
        for line in self._lines:
            with contextlib.suppress(LineCutError):
                send(line.near, data)


NO_MQTT = {
    "a length of five bytes": b"\x32\xff\xff\xff\xff\x01",
    "a packet of 256 MB": b"\x32\xff\xff\xff\x7f",
    "a topic beyond its packet": b"\x32\x04\xff\xffab",
    "a packet of no known type": b"\x00\x00",
    "a packet that only we may send": b"\x10\x02ab",
    "an authentication that nobody asked for": b"\xf0\x02\x18\x00",
}


def test_a_broker_that_talks_nonsense_is_left_and_tried_again(field: Field) -> None:
    """Whatever it is, the link ends, the next one takes up where it was, and nothing is lost or counted twice."""
    with _Interrupter(field.endpoint) as broker:
        gateway = field.new_gateway(mqtt_port=broker.endpoint[1]).start()
        sent = []
        for nonsense in NO_MQTT.values():
            sent += field.reports(50)
            field.publish(sent[-50:])
            field.wait_accepted(gateway, len(sent))  # not within a packet
            before = gateway.connections()
            broker.say(nonsense)
            gateway.wait_for(lambda: gateway.connections() > before)  # noqa: B023 - waited for at once
        assert gateway.stop() == 0
        assert "Traceback" not in gateway.log_path.read_text()
        field.audit(gateway, sent)


def test_a_broker_that_sends_a_few_at_a_time_is_not_kept_waiting(make_field: MakeField) -> None:
    """mosquitto sends 20 at first, unless told otherwise: to linger with them is to wait for nothing."""
    field = make_field(inflight=20)
    gateway = field.new_gateway(mqtt_protocol="3.1.1", batch_seconds=40).start()
    started = time.monotonic()
    field.publish(field.reports(200))
    field.wait_accepted(gateway, 200)
    assert time.monotonic() - started < 40
    assert gateway.stop() == 0


def test_mqtt_5_only_does_not_fall_back(field: Field) -> None:
    shim = _OldBroker(field.broker, answer=b"\x20\x02\x00\x01")
    settings = {"mqtt_port": shim.port, "mqtt_protocol": "5", "health_broker_seconds": 0}
    gateway = field.new_gateway(**settings).start(until="answering")
    gateway.wait_for(lambda: any("Unsupported protocol version" in cause for cause in gateway.summary()["health"]))
    assert gateway.summary()["broker"]["mqtt"] == "5"
    shim.close()


def test_the_embedded_broker(make_field: MakeField) -> None:
    field = make_field(embedded=True)
    gateway = field.new_gateway(mqtt_protocol="3.1.1").start()
    field.publish(field.reports(200))
    field.wait_accepted(gateway, 200)
    assert gateway.stop() == 0


def test_a_backlog_that_takes_longer_than_an_answer_may_is_taken_all_the_same(field: Field) -> None:
    """A resumed session brings a window of messages before it answers; on a slow line, or a slow machine, that takes its time."""
    with Weather(field.endpoint) as line:
        gateway = field.new_gateway(mqtt_port=line.endpoint[1]).start()
        gateway.kill()
        sent = field.reports(5000)
        field.publish(sent)
        line.delay = (
            1.0  # per 64 KiB, so that a window takes longer than the five seconds in which a broker should answer
        )
        gateway.start(until="answering")
        gateway.wait_for(lambda: gateway.summary()["broker"]["connected"], 30)
        line.heal()
        field.wait_accepted(gateway, 5000)
        assert gateway.stop() == 0
    assert "did not answer" not in gateway.log_path.read_text()
    field.audit(gateway, sent)
