# SPDX-License-Identifier: MIT
"""The gateway publishes estimates and a summary, retained, and repeats Home Assistant's discovery when that starts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import paho.mqtt.client as paho
from field import Field
from helpers import wait_until
from paho.mqtt.enums import CallbackAPIVersion

from peel_tools.servers.gateway import GatewayProcess

BASE = "peel/v1/field/gateway/main"
QUICK = 0.5


class Subscriber:
    """Receives everything on a broker: the last message of each topic, and how many there were."""

    def __init__(self, port: int) -> None:
        self.last: dict[str, bytes] = {}
        self.times: dict[str, int] = {}
        self._lock = threading.Lock()
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        self.client.on_connect = lambda client, *_: client.subscribe("#", qos=1)
        self.client.on_message = self._take
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _take(self, _: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        with self._lock:
            self.last[message.topic] = bytes(message.payload)
            self.times[message.topic] = self.times.get(message.topic, 0) + 1

    def document(self, topic: str) -> Any:
        """Return the last message of a topic, parsed, or None."""
        payload = self.last.get(topic)
        return json.loads(payload) if payload else None

    def wait_publications(self, count: int) -> None:
        """Wait until the gateway has published this many further summaries."""
        goal = self.times.get(f"{BASE}/summary", 0) + count
        wait_until(lambda: self.times.get(f"{BASE}/summary", 0) >= goal)


@contextmanager
def listening(field: Field) -> Iterator[Subscriber]:
    subscriber = Subscriber(field.broker.port)
    try:
        yield subscriber
    finally:
        subscriber.client.disconnect()
        subscriber.client.loop_stop()


def test_estimates_and_summary_are_published_and_kept_by_the_broker(field: Field) -> None:
    field.fleet.tag([1, 2, 3], add=["roof"])
    gateway = field.new_gateway(publish_seconds=QUICK).start()
    field.publish(field.reports(400))
    field.wait_accepted(gateway, 400)
    with listening(field) as subscriber:
        wait_until(lambda: (subscriber.document(f"{BASE}/estimates/climate") or {}).get("n") == 400)
        (whole,) = gateway.get("/api/estimates?devices=no")["items"]
        told = subscriber.document(f"{BASE}/estimates/climate")
        assert (told["window"], told["window_seconds"]) == ("1h", 3600)
        assert time.time() - 3900 <= datetime.fromisoformat(told["since"]).timestamp() <= time.time() - 3500
        assert [row["name"] for row in told["estimates"]] == ["temperature", "soil"]
        for mine, theirs in zip(told["estimates"], whole["estimates"], strict=True):
            assert {key: mine[key] for key in ("value", "low", "high", "n", "unit")} == {
                key: theirs[key] for key in ("value", "low", "high", "n", "unit")
            }
        wait_until(lambda: (subscriber.document(f"{BASE}/estimates/climate/roof") or {}).get("n") == 60)
        roof = subscriber.document(f"{BASE}/estimates/climate/roof")
        assert "only 3 devices" in roof["note"]
        (temperature, _) = roof["estimates"]
        assert (roof["window"], temperature["too_few"], temperature["value"]) == ("30d", True, None)
        assert temperature["low"] < temperature["high"], "what is known is told all the same"
        field.publish(field.reports(1, devices=[7], odds=(5, 1)))
        wait_until(lambda: subscriber.document(f"{BASE}/summary")["states"]["exposed"] == 1)
        assert subscriber.document(f"{BASE}/summary")["refused"] == 1
        assert not [topic for topic in subscriber.last if topic.startswith("homeassistant/")], "nobody asked for it"
    metrics = gateway.fetch("/metrics")
    assert 'peel_estimate{name="temperature",profile="climate",tag="",unit="degC",window="1h"}' in metrics
    assert 'peel_estimate_reports{name="soil",profile="climate",tag="roof",unit="",window="30d"}' in metrics
    assert 'peel_estimate{name="soil",profile="climate",tag="roof"' not in metrics, "too few reports have no value"
    assert gateway.stop() == 0
    with listening(field) as subscriber:
        wait_until(lambda: subscriber.document(f"{BASE}/estimates/climate"))  # retained
        assert subscriber.document(f"{BASE}/status") == {"state": "offline"}


def test_a_quantile_with_too_few_reports_has_no_value(field: Field) -> None:
    ladder = '[[attribute]]\nkind = "ladder"\nname = "co2"\nlow = 400\nhigh = 2000\nrungs = [800, 1200, 1600]\n'
    few = field.reports_of("air", ladder, [32768, -32768, -32768], 30)
    gateway = field.new_gateway(publish_seconds=QUICK).start()
    field.publish(few)
    with listening(field) as subscriber:
        wait_until(lambda: (subscriber.document(f"{BASE}/estimates/air") or {}).get("n") == 30)
        (told,) = subscriber.document(f"{BASE}/estimates/air")["distributions"]
        (median,) = [each for each in told["quantiles"] if each["part"] == 0.5]
        assert median == {"part": 0.5, "value": None, "low": 400, "high": 2000, "n": 30, "too_few": True}
    assert gateway.stop() == 0


def test_a_tag_in_any_language_is_one_level_of_a_topic(field: Field) -> None:
    field.fleet.tag([1, 2], add=["Gewächshaus 2.1"])
    field.fleet.tag([2, 3], add=["北棟"])
    gateway = field.new_gateway(publish_seconds=QUICK).start()
    field.publish(field.reports(100))
    with listening(field) as subscriber:
        for level, tag in (("Gew%C3%A4chshaus%202%2E1", "Gewächshaus 2.1"), ("%E5%8C%97%E6%A3%9F", "北棟")):
            topic = f"{BASE}/estimates/climate/{level}"
            wait_until(lambda topic=topic: (subscriber.document(topic) or {}).get("n") == 10)  # type: ignore[misc]
            told = subscriber.document(topic)
            assert (told["tag"], told["members"]) == (tag, 2)
    assert gateway.stop() == 0


def test_a_tag_has_topics_only_where_it_has_devices(field: Field) -> None:
    """Of two profiles only one has tagged devices. A tag that is removed while the gateway is stopped leaves nothing behind."""
    air = '[[attribute]]\nkind = "mean"\nname = "co2"\nlow = 400\nhigh = 2000\n'
    spoken = field.reports_of("air", air, [0], 20)
    field.fleet.tag([1, 2], add=["roof"])
    field.fleet.tag([3], add=["cellar"])
    gateway = field.new_gateway(publish_seconds=QUICK, publish_homeassistant=True).start()
    field.publish([*field.reports(100), *spoken])
    left = [f"{BASE}/estimates/climate/roof", "homeassistant/sensor/peel_field_main/climate-roof-temperature/config"]
    with listening(field) as subscriber:
        wait_until(lambda: all(subscriber.last.get(topic) for topic in left), str(sorted(subscriber.last)))
        wait_until(lambda: subscriber.last.get(f"{BASE}/estimates/air"))
        subscriber.wait_publications(2)
        tagged = [topic for topic in subscriber.last if "roof" in topic or "cellar" in topic]
        assert tagged and not [topic for topic in tagged if "air" in topic.split("/")[-1] or "/air" in topic]
        assert {item["profile"] for item in gateway.get("/api/estimates?tags=yes")["items"]} == {"climate"}
    assert gateway.stop() == 0
    field.fleet.tag([1, 2], remove=["roof"])
    gateway.start()
    with listening(field) as subscriber:
        wait_until(lambda: subscriber.last.get(f"{BASE}/estimates/climate/cellar"))
        gateway.wait_for(lambda: not any(subscriber.last.get(topic) for topic in left), 60, "the removal of the topics")
    assert gateway.stop() == 0
    with listening(field) as subscriber:
        wait_until(lambda: subscriber.last.get(f"{BASE}/estimates/climate/cellar"))
        assert not [topic for topic in subscriber.last if "roof" in topic]


def test_nothing_is_published_where_nobody_wants_it(field: Field) -> None:
    gateway = field.new_gateway(publish_seconds=0).start()
    field.publish(field.reports(20))
    field.wait_accepted(gateway, 20)
    assert gateway.stop() == 0
    with listening(field) as subscriber:
        wait_until(lambda: subscriber.document(f"{BASE}/status"))
        time.sleep(0.5)
        assert not [topic for topic in subscriber.last if "estimates" in topic or "summary" in topic]


def alert(name: str, condition: str, **other: str) -> str:
    """Return an alert on the temperature. Devices of a field always report 20 degC."""
    keys = {"name": name, "profile": "climate", "figure": "temperature", "window": "1h", **other}
    return "\n".join([*(f'{key} = "{text}"' for key, text in keys.items()), condition])


def test_an_alert_fires_once_and_a_restarted_gateway_knows_it(field: Field) -> None:
    field.write_alerts(alert("warm", "above = 0"), alert("icy", "below = 0"), alert("moved", "changed = 1"))
    gateway = field.new_gateway(publish_seconds=QUICK, publish_homeassistant=True).start()
    with listening(field) as subscriber:
        wait_until(lambda: (subscriber.document(f"{BASE}/alert/warm") or {}).get("state") == "inactive")
        assert f"{BASE}/alert" not in subscriber.last, "nothing is known, so nothing fires"
        field.publish(field.reports(1000))
        wait_until(lambda: (subscriber.document(f"{BASE}/alert/warm") or {}).get("state") == "active")
        wait_until(lambda: f"{BASE}/alert" in subscriber.last)
        told = subscriber.document(f"{BASE}/alert")
        assert (told["alert"], told["state"], told["condition"], told["threshold"]) == ("warm", "active", "above", 0)
        assert 0 < told["low"] < told["value"] < told["high"] and told["unit"] == "degC"
        assert subscriber.document(f"{BASE}/alert/icy")["state"] == "inactive"
        assert subscriber.document(f"{BASE}/alert/moved")["value"] is None, "the hour before has no report"
        shown = configs(subscriber)["homeassistant/binary_sensor/peel_field_main/alert-warm/config"]
        assert (shown["device_class"], shown["state_topic"]) == ("problem", f"{BASE}/alert/warm")
        gateway.wait_for(lambda: 'peel_alert_active{alert="warm"} 1.0' in gateway.fetch("/metrics"))
        assert 'peel_alert_active{alert="icy"} 0.0' in gateway.fetch("/metrics")
        assert gateway.stop() == 0
        field.write_alerts(alert("warm", "above = 0"), alert("moved", "changed = 1"))
        gateway.start()
        gateway.wait_for(lambda: 'peel_alert_active{alert="warm"} 1.0' in gateway.fetch("/metrics"))
        subscriber.wait_publications(3)
        assert subscriber.times[f"{BASE}/alert"] == 1, "not again after the restart"
        assert subscriber.document(f"{BASE}/alert/warm")["since"] == told["since"]
        wait_until(lambda: subscriber.last[f"{BASE}/alert/icy"] == b"")
        wait_until(
            lambda: subscriber.last["homeassistant/binary_sensor/peel_field_main/alert-icy/config"] == b""
        )  # it has left the settings
    assert gateway.stop() == 0


def test_a_gateway_with_an_alert_on_something_unknown_does_not_start(field: Field) -> None:
    field.write_alerts(alert("warm", "above = 0", figure="rain"))
    gateway = field.new_gateway().start(until="started")
    assert gateway.wait_end() == 2
    assert "alert 'warm': figure: no attribute or category is called 'rain'" in gateway.log_tail()


def configs(subscriber: Subscriber) -> dict[str, Any]:
    return {
        topic: json.loads(text)
        for topic, text in subscriber.last.items()
        if topic.startswith("homeassistant/") and topic.endswith("/config") and text
    }


def test_home_assistant_is_told_at_start_at_its_birth_and_after_a_broker_without_memory(field: Field) -> None:
    field.fleet.tag([1, 2, 3], add=["roof"])
    gateway = field.new_gateway(publish_seconds=QUICK, publish_homeassistant=True).start()
    field.publish(field.reports(40))
    with listening(field) as subscriber:
        topic = "homeassistant/sensor/peel_field_main/climate-temperature/config"
        wait_until(lambda: topic in subscriber.last and any("roof" in name for name in subscriber.last))
        told = configs(subscriber)
        assert len(told) == 2 * 2 + 5 + 1, "two attributes of the fleet and of the tag, five counts, one event"
        assert told[topic]["state_topic"] == f"{BASE}/estimates/climate"
        assert told[topic]["object_id"] == "peel_field_main_climate_temperature"
        assert (told[topic]["device_class"], told[topic]["unit_of_measurement"]) == ("temperature", "°C")
        subscriber.wait_publications(3)  # the start and the connection may both have caused an announcement
        times = subscriber.times[topic]
        subscriber.wait_publications(3)
        assert subscriber.times[topic] == times, "not at every publication"
        subscriber.client.publish("homeassistant/status", b"offline")
        subscriber.wait_publications(2)
        assert subscriber.times[topic] == times
        subscriber.client.publish("homeassistant/status", b"online")
        wait_until(lambda: subscriber.times[topic] == times + 1)
        field.fleet.tag([1, 2, 3], remove=["roof"])
        roof = "homeassistant/sensor/peel_field_main/climate-roof-temperature/config"
        wait_until(lambda: subscriber.last[roof] == b"")
        wait_until(lambda: subscriber.last[f"{BASE}/estimates/climate/roof"] == b"")
    field.broker.kill()
    for path in field.broker.folder.glob("*.db"):
        path.unlink()
    field.broker.start()
    with listening(field) as subscriber:
        wait_until(lambda: topic in subscriber.last)
    assert gateway.stop() == 0


def test_what_pretends_to_be_home_assistant_gets_no_more_than_that(field: Field) -> None:
    gateway = field.new_gateway(publish_seconds=QUICK, publish_homeassistant=True).start()
    sent = field.reports(20)
    field.publish([("homeassistant/status", b"\xff" * 1000)] * 50 + [("homeassistant/status", b"online")] * 500 + sent)
    field.wait_accepted(gateway, 20)
    assert _statuses(gateway) == 0, "that is no device's"
    assert gateway.stop() == 0
    field.audit(gateway, sent)


def _statuses(gateway: GatewayProcess) -> float:
    lines = [line for line in gateway.fetch("/metrics").splitlines() if line.startswith("peel_device_statuses_total")]
    return sum(float(line.split()[-1]) for line in lines)
