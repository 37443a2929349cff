# SPDX-License-Identifier: MIT
"""Status messages of devices, from a real broker to the API."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from field import Field
from paho.mqtt.enums import CallbackAPIVersion

from peel_core.topics import device_topic
from peel_tools.servers.gateway import GatewayProcess

BIRTH = {
    "state": "online",
    "firmware": "9.8.7",
    "skipped": 4,
    "dropped": 2,
    "left": 77,
    "entropy": 384,
    "refused": ["trng"],
}


def say(field: Field, device: int, **said: object) -> None:
    """Publish a device's status, retained, as its firmware does."""
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", field.broker.port)
    client.loop_start()
    sent = client.publish(device_topic("field", device, "status"), json.dumps(said), qos=1, retain=True)
    sent.wait_for_publish(30)
    client.disconnect()
    client.loop_stop()


def row(gateway: GatewayProcess, device: int) -> Any:
    return gateway.get("/api/devices")["items"][device - 1]


def status_count(gateway: GatewayProcess, result: str) -> float:
    (line,) = [
        line for line in gateway.fetch("/metrics").splitlines() if f'statuses_total{{result="{result}"}}' in line
    ]
    return float(line.split()[1])


def test_what_a_device_says_is_shown_as_its_own_word(field: Field) -> None:
    gateway = field.new_gateway().start()
    assert (row(gateway, 3)["state"], row(gateway, 3)["claims"]) == ("new", None)
    say(field, 3, **BIRTH)
    gateway.wait_for(lambda: row(gateway, 3)["claims"])
    told = row(gateway, 3)
    assert told["state"] == "active"
    assert told["last_heard"] is not None
    assert told["last_received"] is None, "it has not reported"
    assert {key: told["claims"][key] for key in BIRTH} == BIRTH
    gateway.wait_for(lambda: 'peel_device_claims{count="skipped"} 4.0' in gateway.fetch("/metrics"))
    assert 'peel_device_states{state="new"} 19.0' in gateway.fetch("/metrics")
    assert gateway.stop() == 0
    (listed,) = [each for each in _fleet_list(gateway) if each["device"] == "00000003"]
    assert (listed["claims"]["firmware"], listed["claims"]["refused"]) == ("9.8.7", ["trng"])
    table = gateway.peel("fleet", "list", str(field.fleet.folder)).stdout
    assert "9.8.7" in table
    assert "trng" in table


def test_a_sensor_that_fails_from_the_start_is_named_in_every_list(field: Field) -> None:
    gateway = field.new_gateway().start()
    say(field, 3, **BIRTH, failing="soil: it gave nan")
    gateway.wait_for(lambda: row(gateway, 3)["state"] == "sensor failing")
    assert gateway.summary()["devices"]["states"]["sensor failing"] == 1
    gateway.wait_for(lambda: 'peel_device_states{state="sensor failing"} 1.0' in gateway.fetch("/metrics"))
    assert gateway.stop() == 0
    for table in (
        gateway.peel("fleet", "list", str(field.fleet.folder)).stdout,
        gateway.command("devices", "--state", "sensor failing").stdout,
    ):
        assert "sensor failing" in table and "soil: it gave nan" in table
    gateway.start()
    say(field, 3, **BIRTH, failing="")
    gateway.wait_for(lambda: row(gateway, 3)["state"] == "active")


def _fleet_list(gateway: GatewayProcess) -> Any:
    done = gateway.peel("fleet", "list", gateway.environment()["PEEL_GATEWAY_FLEET_FOLDER"], "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["items"]


def test_states_are_told_apart(field: Field) -> None:
    gateway = field.new_gateway(health_silent_seconds=2.0).start()
    field.publish(field.reports(2, devices=[1, 2]))
    field.publish(field.reports(1, devices=[4], odds=(5, 1)))
    say(field, 2, **BIRTH | {"interval_ms": 3_600_000})
    say(field, 5, **BIRTH | {"state": "stopped", "entropy": 0})
    say(field, 6, **BIRTH | {"left": 0})
    field.fleet.revoke([7])
    states = {1: "silent", 2: "active", 3: "new", 4: "exposed", 5: "stopped", 6: "exhausted", 7: "revoked"}
    gateway.wait_for(lambda: {device: row(gateway, device)["state"] for device in states} == states)
    assert [each["device"] for each in gateway.get("/api/devices?state=silent")["items"]] == ["00000001"]
    field.publish(field.reports(1, devices=[1]))
    gateway.wait_for(lambda: row(gateway, 1)["state"] == "active")


def test_what_the_broker_kept_is_heard_after_a_start_but_not_as_news(field: Field) -> None:
    say(field, 3, **BIRTH)
    gateway = field.new_gateway().start()
    gateway.wait_for(lambda: row(gateway, 3)["claims"])
    told = row(gateway, 3)
    assert (told["state"], told["last_heard"], told["claims"]["heard"]) == ("new", None, None)


def test_a_claim_moves_no_verdict_and_no_number(field: Field) -> None:
    gateway = field.new_gateway().start()
    sent = field.reports(40)
    field.publish(sent[:20])
    for device in range(1, 21):
        say(field, device, state="stopped", left=0, entropy=0, skipped=2**40)
    field.publish(sent[20:])
    field.wait_accepted(gateway, 40)
    assert gateway.stop() == 0
    field.audit(gateway, sent)


def test_hostile_statuses_are_counted_and_cost_no_report(field: Field) -> None:
    gateway = field.new_gateway().start()
    before = _resident(gateway)
    flood = [(device_topic("field", 0x10000 + i, "status"), b'{"state": "online"}') for i in range(5000)]
    flood += [(device_topic("field", 1, "status"), b"[" * 2000)] * 200
    flood += [("peel/v1/field/00/00000001/status", b'{"state": "online"}')] * 200  # not its lane
    flood += [(device_topic("field", 1, "status"), bytes(900_000))] * 20
    sent = field.reports(200)
    field.publish([*flood, *sent])
    field.wait_accepted(gateway, 200)
    gateway.wait_for(lambda: status_count(gateway, "malformed") + status_count(gateway, "limited") == 420)
    assert status_count(gateway, "malformed") >= 20  # of two topics
    assert status_count(gateway, "limited") > 300
    assert status_count(gateway, "unregistered") == 5000
    assert status_count(gateway, "taken") == 0
    assert row(gateway, 1)["claims"] is None
    assert _resident(gateway) - before < 40_000_000
    assert gateway.stop() == 0
    field.audit(gateway, sent)


def _resident(gateway: GatewayProcess) -> int:
    with Path(f"/proc/{gateway.pid}/statm").open() as file:
        return int(file.read().split()[1]) * 4096
