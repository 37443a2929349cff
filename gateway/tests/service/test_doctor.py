# SPDX-License-Identifier: MIT
"""`peel doctor`, on a healthy installation and with one fault at a time."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as paho
import pytest
from field import Field, MakeField
from paho.mqtt.enums import CallbackAPIVersion

from peel_gateway.settings import Settings
from peel_research.soak.clock import find_faketime
from peel_tools.boards.build_tools import require
from peel_tools.doctor import look_at_broker
from peel_tools.servers.broker import Broker, NatsBroker, find_mosquitto
from peel_tools.servers.gateway import GatewayProcess

USERS = {"gateway": "correct horse"}


def examined(gateway: GatewayProcess, *before: str) -> tuple[int, list[dict[str, Any]]]:
    done = subprocess.run(
        [*before, sys.executable, "-m", "peel_tools", "doctor", "--json"],
        env=gateway.environment(),
        cwd=gateway.log_path.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])["items"]


def said(items: list[dict[str, Any]], about: str, state: str) -> str:
    """Return the findings about a subject in this state. Every finding that is not good must name a remedy."""
    assert all(item["remedy"] for item in items if item["state"] != "good")
    return " | ".join(item["said"] for item in items if (item["about"], item["state"]) == (about, state))


def publish(field: Field, messages: list[tuple[str, bytes]]) -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.username_pw_set("gateway", USERS["gateway"])
    client.connect("127.0.0.1", field.broker.port)
    client.loop_start()
    for each in [client.publish(topic, payload, qos=1) for topic, payload in messages]:
        each.wait_for_publish(30)
    client.disconnect()
    client.loop_stop()


@pytest.fixture
def well(make_field: MakeField) -> tuple[Field, GatewayProcess]:
    """A gateway that runs, with a login."""
    field = make_field(users=USERS, persistent=True)
    gateway = field.new_gateway(mqtt_user="gateway", mqtt_password=USERS["gateway"]).start()
    return field, gateway


def test_all_is_well_and_stays_as_it_was(well: tuple[Field, GatewayProcess]) -> None:
    field, gateway = well
    before = sorted(path.name for path in field.fleet.folder.rglob("*"))
    code, items = examined(gateway)
    assert code == 0
    assert not [item for item in items if item["state"] == "bad"]
    assert "nobody gets in without a login" in said(items, "acl", "good")
    assert "keeps 1200 messages" in said(items, "memory", "good")
    assert "runs, and is well" in said(items, "gateway", "good")
    assert "sound" in said(items, "database", "good")
    assert sorted(path.name for path in field.fleet.folder.rglob("*")) == before
    assert gateway.summary()["broker"]["connected"], "it was not ousted"
    table = gateway.peel("doctor").stdout
    assert table.splitlines()[0].split() == ["about", "state", "what"]


def test_a_wrong_password_and_a_broker_that_is_away(well: tuple[Field, GatewayProcess]) -> None:
    field, gateway = well
    wrong = field.new_gateway("wrong", mqtt_user="gateway", mqtt_password="guess")
    code, items = examined(wrong)
    assert code == 1
    assert "Not authorized" in said(items, "broker", "bad")
    field.broker.kill()
    code, items = examined(gateway)
    assert code == 1
    assert "refused" in said(items, "broker", "bad")


class ForgetfulBroker(Broker):
    """mosquitto as it comes: it keeps a thousand messages, here a hundred, and lets everybody in."""

    def _mosquitto_lines(self) -> list[str]:
        return [line.replace("max_queued_messages 0", "max_queued_messages 100") for line in super()._mosquitto_lines()]


def test_a_broker_that_forgets_and_lets_everybody_in(tmp_path: Path, rng: np.random.Generator) -> None:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    (tmp_path / "broker").mkdir()
    field = Field(tmp_path, ForgetfulBroker(folder=tmp_path / "broker", embedded=False), rng)
    field.broker.start()
    try:
        code, items = examined(field.new_gateway())
        assert code == 0, "none of this keeps a gateway from running"
        assert "of 1200 messages" in said(items, "memory", "warn")
        assert "strangers get in and may hear reports" in said(items, "acl", "warn")
        assert "does not answer" in said(items, "gateway", "warn")
        assert "not there yet" in said(items, "database", "warn")
    finally:
        field.close()


def test_a_broker_without_mqtt_5(tmp_path: Path) -> None:
    with NatsBroker(folder=tmp_path / "nats") as broker:
        settings = Settings(mqtt_host=broker.host, mqtt_port=broker.port)
        found = [asdict(finding) for finding in look_at_broker(settings, "field")]
        assert "connected, by MQTT 3.1.1: it does not speak 5" in said(found, "broker", "good")
        assert "may hear reports and statuses" in said(found, "acl", "good")
        assert "whether it may publish cannot be seen" in said(found, "acl", "good")
        assert "strangers get in and may hear reports" in said(found, "acl", "warn")
        assert "keeps 1200 messages" in said(found, "memory", "good")
        (insisting,) = look_at_broker(replace(settings, mqtt_protocol="5"), "field")
        assert (insisting.state, "mqtt.protocol" in insisting.remedy) == ("bad", True)


def test_keys_modes_clock_and_database(well: tuple[Field, GatewayProcess]) -> None:
    field, gateway = well
    publish(field, field.reports(5))
    field.wait_accepted(gateway, 5)
    assert gateway.stop() == 0
    gateway.store_path.chmod(0o644)
    require("faketime")
    code, items = examined(gateway, "env", f"LD_PRELOAD={find_faketime()}", "FAKETIME=-2h")
    assert code == 1
    assert "behind the last report" in said(items, "clock", "bad")
    assert "others can read it" in said(items, "modes", "warn")
    (field.fleet.folder / "master.key").chmod(0o644)
    code, items = examined(gateway)
    assert code == 1
    assert "others can read it" in said(items, "fleet", "bad")
    (field.fleet.folder / "master.key").chmod(0o600)
    gateway.store_path.write_bytes(b"not a database at all" * 1000)
    code, items = examined(gateway)
    assert code == 1
    assert said(items, "database", "bad")


def test_a_wrong_setting(field: Field, tmp_path: Path) -> None:
    gateway = field.new_gateway(mqtt_port=0)
    code, items = examined(gateway)
    assert code == 1
    assert "MQTT_PORT: must be between" in said(items, "settings", "bad")
