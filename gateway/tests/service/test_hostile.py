# SPDX-License-Identifier: MIT
"""Hostile messages are survived, and exposures are published."""

from __future__ import annotations

import json
import threading

import paho.mqtt.client as paho
import pytest
from field import Field
from paho.mqtt.enums import CallbackAPIVersion

from peel_gateway.model.messages import LONGEST_TOPIC
from peel_gateway.notifiers.alarm import MANY

LONG_TOPIC = "peel/v1/field/00/" + "x" * 60_000 + "/report"


def test_a_long_topic_is_stored_short_however_many_pieces_it_brings(field: Field) -> None:
    """One message of a thousand frames of nobody, under a topic of sixty thousand bytes."""
    gateway = field.new_gateway().start()
    empty = gateway.store_path.stat().st_size
    frame = bytearray(field.reports(1)[0][1])
    pieces = b"".join(
        bytes(frame[:6]) + (0x7000_0000 + i).to_bytes(4, "little") + bytes(frame[10:]) for i in range(1000)
    )
    field.publish([(LONG_TOPIC, pieces)])
    gateway.wait_for(lambda: gateway.summary()["totals"]["verdicts"]["device"] == 1000)
    sent = field.reports(100)
    field.publish(sent)
    field.wait_accepted(gateway, 100)
    assert gateway.stop() == 0
    with gateway.store() as store:
        assert {len(exposure.topic) for exposure in store.exposures(limit=1000)} == {LONGEST_TOPIC}
    assert gateway.store_path.stat().st_size - empty < 3_000_000


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_a_message_that_is_too_long_holds_nobody_up(field: Field, protocol: str) -> None:
    """MQTT 3.1.1 cannot tell a broker what is too long, and the broker sends what is not acknowledged with every connection again."""
    gateway = field.new_gateway(mqtt_protocol=protocol, mqtt_packet_bytes=65_536).start()
    long = bytes(300_000)
    field.publish([(field.topic(3), long), (field.topic(3).replace("report", "status"), long), (LONG_TOPIC, long)])
    sent = field.reports(200)
    field.publish(sent)
    field.wait_accepted(gateway, 200, seconds=20)
    assert gateway.connections() == 2
    assert gateway.stop() == 0
    field.audit(gateway, sent)


def test_a_pardon_beside_the_running_gateway(field: Field) -> None:
    """Another process takes an exposure back; the service follows, and says so wherever it is asked."""
    gateway = field.new_gateway().start()
    field.publish(field.reports(40, devices=[3, 4]))
    field.wait_accepted(gateway, 40)
    field.publish(field.reports(1, devices=[3], odds=(5, 1)))
    gateway.wait_for(lambda: gateway.summary()["totals"]["exposed_devices"] == 1)
    done = gateway.command("pardon", "3", "--reason", "test profile", "--who", "ada", "--restore", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["restored"] == 20
    field.publish(field.reports(10, devices=[3]))
    field.wait_accepted(gateway, 50)
    totals = gateway.summary()["totals"]
    assert (totals["exposed_devices"], totals["withdrawn_past"], totals["pardons"]) == (0, 0, 1)
    (entry,) = gateway.get("/api/audit")["items"]
    assert (entry["device"], entry["who"], entry["reason"]) == ("00000003", "ada", "test profile")
    assert gateway.get("/api/audit?device=4") == {"items": [], "next": None, "fleet": []}
    assert "peel_pardons_total 1.0" in gateway.fetch("/metrics")
    assert gateway.get("/api/estimates")["items"][0]["n"] == 50
    assert gateway.stop() == 0
    assert gateway.command("recount").returncode == 0


def test_an_exposure_is_told_in_the_log_as_a_metric_and_over_mqtt(field: Field) -> None:
    received: dict[str, list[dict[str, object]]] = {"exposure": [], "alarm": []}
    subscribed = threading.Event()
    client = paho.Client(CallbackAPIVersion.VERSION2)

    def subscribe(*_: object) -> None:
        client.subscribe("peel/v1/field/gateway/main/+", qos=1)

    client.on_connect = subscribe
    client.on_subscribe = lambda *_: subscribed.set()
    client.on_message = lambda _, __, message: received.get(message.topic.rsplit("/")[-1], []).append(
        json.loads(message.payload)
    )
    client.connect("127.0.0.1", field.broker.port)
    client.loop_start()
    try:
        assert subscribed.wait(30)
        gateway = field.new_gateway().start()
        field.publish(field.reports(1, devices=[3], odds=(5, 1)))
        gateway.wait_for(lambda: len(received["exposure"]) == 1)
        (told,) = received["exposure"]
        assert (told["device"], told["cause"], told["withdrawn"]) == ("00000003", "rule", True)
        assert "odds" in str(told["evidence"])
        assert not received["alarm"]
        assert 'peel_device_exposures_total{cause="rule"} 1.0' in gateway.fetch("/metrics")
        assert "device exposed" in gateway.log_tail(200)
        assert "00000003" in gateway.log_tail(200)
        for device in range(4, 4 + MANY):
            field.publish(field.reports(1, devices=[device], odds=(5, 1)))
        gateway.wait_for(lambda: len(received["alarm"]) == 1)
        assert "many devices exposed" in gateway.log_tail(200)
        (alarm,) = received["alarm"]
        assert "looks like an accident" in str(alarm["advice"])
        assert "peel gateway pardon --cause rule --since 2" in str(alarm["advice"])
        assert gateway.stop() == 0
    finally:
        client.loop_stop()
        client.disconnect()
