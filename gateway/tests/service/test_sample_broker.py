# SPDX-License-Identifier: MIT
"""The sample configuration of mosquitto, with only paths and port changed: TLS, logins, ACL."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path

import numpy as np
import paho.mqtt.client as paho
import pytest
from field import Field
from helpers import make_certificates
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from peel_core.topics import device_topic
from peel_gateway.fleet.bundle import load_template, write_bundles
from peel_gateway.fleet.folder import FleetError
from peel_tools.servers.broker import Broker, find_mosquitto
from peel_tools.servers.gateway import GatewayProcess

DEPLOY = Path(__file__).parents[2] / "deploy"


class SampleBroker(Broker):
    """mosquitto with Debian's own configuration, which includes the sample."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder=folder, embedded=False)
        self._etc = folder

    def _mosquitto_lines(self) -> list[str]:
        text = (DEPLOY / "mosquitto.conf").read_text(encoding="utf-8")
        text = text.replace("/etc/mosquitto/certs", str(self._etc)).replace("/etc/mosquitto", str(self._etc))
        (self._etc / "conf.d").mkdir(exist_ok=True)
        (self._etc / "conf.d" / "peel.conf").write_text(
            text.replace("listener 8883", f"listener {self.port} {self.host}")
        )
        debian = [
            f"pid_file {self._etc}/mosquitto.pid",
            "persistence true",
            f"persistence_location {self._etc}/",
            f"log_dest file {self._etc}/mosquitto.log",
            f"include_dir {self._etc}/conf.d",
        ]
        return [f"user {getuser()}", *debian]

    def reload(self) -> None:
        """Do what `systemctl reload mosquitto` does."""
        assert self.pid is not None
        os.kill(self.pid, signal.SIGHUP)


@pytest.fixture
def guarded(tmp_path: Path, rng: np.random.Generator) -> Iterator[Field]:
    """A field whose devices have logins of their own."""
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    etc = tmp_path / "etc"
    etc.mkdir()
    make_certificates(etc)
    field = Field(tmp_path, SampleBroker(etc), rng)
    template = tmp_path / "template.json"
    template.write_text(json.dumps({"mqtt": {"login": "own"}}))
    write_bundles(field.fleet, field.fleet.devices()[:3], load_template(template))
    acl = (DEPLOY / "mosquitto.acl").read_text(encoding="utf-8").replace("FLEET", field.fleet.name)
    (etc / "peel.acl").write_text(acl)
    write_passwords(field)
    (etc / "peel.acl").chmod(0o600)
    try:
        field.broker.start()
        yield field
    finally:
        field.close()


def logins(field: Field, *options: str) -> str:
    command = [sys.executable, "-m", "peel_tools", "fleet", "logins", str(field.fleet.folder), *options]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def write_passwords(field: Field) -> None:
    """Do what the head of mosquitto.conf says about `peel.passwords`."""
    path = field.broker.folder / "peel.passwords"
    path.write_text(logins(field))
    path.chmod(0o600)


def start_gateway(field: Field, name: str = "gateway") -> GatewayProcess:
    """Start a gateway with the settings that the head of mosquitto.conf names."""
    password = field.broker.folder / "gateway.password"
    password.touch(0o600)
    password.write_text(logins(field, "--gateway"))
    ca = field.broker.folder / "ca.pem"
    return field.new_gateway(
        name, mqtt_tls="true", mqtt_ca=ca, mqtt_user="gateway", mqtt_password_file=password
    ).start()


@contextmanager
def logged_in(field: Field, user: str, password: str) -> Iterator[paho.Client]:
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.username_pw_set(user, password)
    client.tls_set(ca_certs=str(field.broker.folder / "ca.pem"), tls_version=ssl.PROTOCOL_TLS_CLIENT)
    answered = threading.Event()
    refused: list[str] = []

    def on_connect(_: paho.Client, __: object, ___: object, reason: ReasonCode, ____: object) -> None:
        if reason.is_failure:
            refused.append(str(reason))
        answered.set()

    client.on_connect = on_connect
    client.connect("127.0.0.1", field.broker.port)
    client.loop_start()
    try:
        assert answered.wait(30)
        if refused:
            raise PermissionError(refused[0])
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def login(field: Field, device: int) -> tuple[str, str]:
    """As the device's bundle has it."""
    bundle = json.loads((field.fleet.folder / "bundles" / f"{device:08x}.json").read_text())
    return bundle["mqtt"]["user"], bundle["mqtt"]["password"]


def say(client: paho.Client, topic: str, payload: bytes) -> str:
    """Publish, and return the broker's answer."""
    answers: list[str] = []
    done = threading.Event()

    def on_publish(_: paho.Client, __: object, ___: int, reason: ReasonCode, ____: object) -> None:
        answers.append(str(reason))
        done.set()

    client.on_publish = on_publish
    client.publish(topic, payload, qos=1)
    assert done.wait(30)
    return answers[0]


def may_hear(client: paho.Client, topic: str) -> bool:
    done = threading.Event()
    answers: list[bool] = []

    def on_subscribe(_: paho.Client, __: object, ___: int, reasons: list[ReasonCode], ____: object) -> None:
        answers.append(not reasons[0].is_failure)
        done.set()

    client.on_subscribe = on_subscribe
    client.subscribe(topic, qos=1)
    assert done.wait(30)
    return answers[0]


def test_a_device_reaches_the_gateway_and_nothing_else(guarded: Field) -> None:
    field = guarded
    gateway = start_gateway(field)
    mine, other = field.reports(1, devices=[1]), field.reports(1, devices=[2])
    received: list[str] = []
    with logged_in(field, *login(field, 1)) as device:
        device.on_message = lambda _, __, message: received.append(message.topic)
        assert may_hear(device, device_topic("field", 1, "receipt"))
        may_hear(device, "#")  # mosquitto grants it, and then passes on what the ACL allows
        assert say(device, *mine[0]) == "Success"
        assert say(device, device_topic("field", 1, "status"), b'{"state": "online"}') == "Success"
        gateway.wait_for(lambda: gateway.get("/api/devices?limit=1")["items"][0]["claims"])
        for topic, payload in (
            (other[0][0], other[0][1]),  # another device's report, though it has got hold of it
            (device_topic("field", 2, "status"), b'{"state": "stopped"}'),
            (device_topic("field", 1, "receipt"), b"forged"),
            ("peel/v1/field/gateway/main/status", b'{"state": "offline"}'),
            ("homeassistant/status", b"online"),
        ):
            with logged_in(field, *login(field, 1)) as again:  # mosquitto 2.0.11 hangs up after a refusal
                assert say(again, topic, payload) == "Not authorized"
        field.wait_accepted(gateway, 1)
        with logged_in(field, *login(field, 2)) as second:
            assert say(second, *other[0]) == "Success"
        field.wait_accepted(gateway, 2)
    assert {topic for topic in received if not topic.endswith("/00000001/receipt")} == set()
    assert gateway.stop() == 0


def test_strangers_and_revoked_devices_are_refused(guarded: Field) -> None:
    user, password = login(guarded, 1)
    for given in ((user, "guess"), ("gateway", password), ("00000099", password), ("", "")):
        with pytest.raises(PermissionError, match=r"Not authorized|Bad user"), logged_in(guarded, *given):
            pass
    guarded.fleet.revoke([1])
    lines = logins(guarded)
    assert "00000001:" not in lines
    assert "00000002:" in lines
    assert password not in lines


def test_writing_the_passwords_again_locks_out_the_stolen_board_and_not_the_gateway(guarded: Field) -> None:
    """The sequence of mosquitto.conf after `peel fleet revoke`."""
    field = guarded
    gateway = start_gateway(field)
    stolen = login(field, 1)
    field.fleet.revoke([1])
    write_passwords(field)
    assert isinstance(field.broker, SampleBroker)
    field.broker.reload()

    def refused() -> bool:
        try:
            with logged_in(field, *stolen):
                return False
        except PermissionError:
            return True

    gateway.wait_for(refused)
    gateway.kill()
    gateway.start()  # until it is connected: it has to log in again
    with logged_in(field, *login(field, 2)) as device:
        assert say(device, *field.reports(1, devices=[2])[0]) == "Success"
    field.wait_accepted(gateway, 1)
    assert gateway.stop() == 0


@pytest.mark.parametrize(
    "mqtt", [{"login": "shared"}, {"login": "own", "user": "x"}, {"login": "own", "password": "x"}]
)
def test_a_login_in_a_template_is_checked(tmp_path: Path, mqtt: dict[str, str]) -> None:
    path = tmp_path / "template.json"
    path.write_text(json.dumps({"mqtt": mqtt}))
    path.chmod(0o600)
    with pytest.raises(FleetError, match=r"mqtt\.login"):
        load_template(path)
