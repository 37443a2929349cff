# SPDX-License-Identifier: MIT
"""Alerts on estimates: read from the settings, fired and cleared by intervals, remembered by retained messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab import MakeLab
from watched import DEVICES, STEP, Watched, climate

from peel_gateway.notifiers.alerts import Alerts, AlertState, check_alerts, next_state
from peel_gateway.notifiers.homeassistant import Discovery
from peel_gateway.settings import Settings, SettingsError, load_settings
from peel_gateway.settings.alerts import Alert

HOT = Alert(name="hot", profile="climate", figure="temperature", condition="above", threshold=26, window="1h")
COLD = Alert(name="cold", profile="climate", figure="temperature", condition="below", threshold=10, window="1h")
MOVED = Alert(name="moved", profile="climate", figure="temperature", condition="changed", threshold=2, window="1h")
TABLE = '[[alert]]\nname = "hot"\nprofile = "climate"\nfigure = "temperature"\nabove = 26\nwindow = "1h"\n'
BASE = "peel/v1/field/gateway/main"


def read(folder: Path, text: str) -> Settings:
    path = folder / "gateway.toml"
    path.write_text(text)
    return load_settings(path, {})


def test_alerts_are_read_from_the_settings_file(tmp_path: Path) -> None:
    other = TABLE.replace("hot", "moved").replace("above = 26", "changed = 2.5") + 'tag = "roof"\n'
    settings = read(tmp_path, "[publish]\nseconds = 5\n" + TABLE + other)
    hot, moved = settings.alerts
    assert hot == HOT and hot.seconds == 3600
    assert (moved.name, moved.condition, moved.threshold, moved.tag) == ("moved", "changed", 2.5, "roof")
    assert hot.claim("°C") == "temperature of climate is above 26 °C"
    assert moved.claim() == "temperature of climate (roof) changed by more than 2.5"
    assert read(tmp_path, "").alerts == ()


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("above = 26", "above = 26\nbelow = 3", "alert 'hot': below: cannot be combined with above. Write two alerts."),
        ("above = 26", "", "alert 'hot': has no condition. Set one of above, below, changed."),
        ("above = 26", 'above = "26"', "alert 'hot': above: must be a number, not '26'"),
        ("above = 26", "above = nan", "alert 'hot': above: must be a number, not nan"),
        ("above = 26", "above = true", "alert 'hot': above: must be a number, not True"),
        ("above = 26", "changed = -1", "alert 'hot': changed: must be 0 or more, not -1"),
        ("above = 26", "over = 26", "alert 'hot': over: unknown key; known: name, profile"),
        ('window = "1h"', 'window = "1 hour"', "alert 'hot': window: must be a number from 1 to 9999 and a unit"),
        ('window = "1h"', "window = 3600", "alert 'hot': window: must be text, not 3600"),
        ('window = "1h"', "", "alert 'hot': window: is missing"),
        ('name = "hot"', 'name = "a/b"', "alert 'a/b': name: cannot be part of a topic"),
        ('name = "hot"', "name = 5", "alert number 1: name: must be text, not 5"),
        ('name = "hot"\n', "", "alert number 1: name: is missing"),
        ("[[alert]]", "[alert]", "alert: must be tables, each written [[alert]]"),
        ("[[alert]]", f"{TABLE}[[alert]]", "alert.name: two alerts are called 'hot'"),
        ("[[alert]]", "[publish]\nseconds = 0\n[[alert]]", "publish.seconds is 0"),
        ("[[alert]]", "[[alerts]]", "[alerts]: unknown section; did you mean alert?"),
    ],
)
def test_errors_name_the_alert_and_the_key(tmp_path: Path, before: str, after: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, TABLE.replace(before, after, 1))
    assert said in str(caught.value)


CHECKED = [
    ({"profile": "sky"}, "alert 'hot': profile: 'sky' is not in this fleet; the profiles are: climate"),
    ({"figure": "rain"}, "alert 'hot': figure: no attribute or category is called 'rain'"),
    ({"window": "60s"}, "alert 'hot': window: 60s is shorter than a time bucket. Give at least 300 s."),
    ({"threshold": 50}, "alert 'hot': above: 50 can never be passed. Give a number between -10 and 50."),
    ({"threshold": -11}, "alert 'hot': above: -11 can never be passed"),
    ({"condition": "below", "threshold": -10}, "alert 'hot': below: -10 can never be passed"),
    ({"condition": "changed", "threshold": 60}, "changed: 60 can never be passed. Give a number between 0 and 60."),
]


@pytest.mark.parametrize(("other", "said"), CHECKED)
def test_alerts_that_can_never_fire_are_refused(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], said: str
) -> None:
    watched = Watched(make_lab(climate(4.0), devices=4), monkeypatch)
    check_alerts([HOT, COLD, MOVED], watched.views, watched.lab.store.bucket_seconds)
    with pytest.raises(SettingsError) as caught:
        check_alerts([Alert(**{**vars(HOT), **other})], watched.views, watched.lab.store.bucket_seconds)
    assert said in str(caught.value)


ACTIVE = AlertState(True, 100.0, 5000.0)
QUIET = AlertState(False, 100.0)


@pytest.mark.parametrize(
    ("alert", "before", "bounds", "after"),
    [
        (HOT, None, (26.1, 30), (True, 6000)),
        (HOT, QUIET, (26.1, 30), (True, 6000)),
        (HOT, QUIET, (26, 30), (False, 100)),
        (HOT, QUIET, (10, 50), (False, 100)),
        (HOT, None, None, (False, 6000)),
        (HOT, ACTIVE, (26.1, 30), (True, 100)),
        (HOT, ACTIVE, (25, 30), (True, 100)),
        (HOT, ACTIVE, None, (True, 100)),
        (HOT, ACTIVE, (20, 25.9), (False, 6000)),
        (COLD, QUIET, (5, 9.9), (True, 6000)),
        (COLD, QUIET, (5, 10), (False, 100)),
        (COLD, ACTIVE, (9, 12), (True, 100)),
        (COLD, ACTIVE, (10.1, 12), (False, 6000)),
        (MOVED, QUIET, (2.1, 4), (True, 6000)),
        (MOVED, QUIET, (-4, -2.1), (True, 6000)),
        (MOVED, QUIET, (0.5, 4), (False, 100)),
        (MOVED, ACTIVE, (0.5, 4), (True, 100)),
        (MOVED, ACTIVE, (-4, 4), (True, 100)),
        (MOVED, ACTIVE, (-1.9, 1.9), (False, 6000)),
    ],
)
def test_an_alert_changes_only_when_the_whole_interval_says_so(
    alert: Alert, before: AlertState | None, bounds: tuple[float, float] | None, after: tuple[bool, float]
) -> None:
    found = next_state(alert, before, bounds, 6000.0)
    assert (found.active, found.since) == after


def test_an_alert_that_nothing_supports_for_a_window_is_over() -> None:
    state: AlertState = next_state(HOT, None, (27, 30), 0.0)
    state = next_state(HOT, state, (25, 30), 3000.0)
    assert state.active
    state = next_state(HOT, state, (27, 30), 3500.0)
    assert next_state(HOT, state, (25, 30), 7000.0).active, "it was certain 3500 s ago"
    over = next_state(HOT, state, (25, 30), 7100.0)
    assert over == AlertState(False, 7100.0, 3500.0)


def test_a_value_at_the_threshold_does_not_flap() -> None:
    """A month of windows of an hour, evaluated every minute, of a true value that is the threshold itself."""
    noise = np.random.default_rng(5).normal(size=30 * 24 * 60 + 59)
    centre = HOT.threshold + np.convolve(noise, np.ones(60), "valid") / 60**0.5 / 1.96
    state, active = AlertState(False, 0.0), []
    for minute, value in enumerate(centre.tolist()):
        state = next_state(HOT, state, (value - 1, value + 1), 60.0 * minute)
        active.append(state.active)
    certain = centre - 1 > HOT.threshold
    assert 0.02 < certain.mean() < 0.03, "as a 95% interval has it"
    assert np.diff(active).sum() < 0.4 * np.diff(certain).sum()


class Broker:
    """Keeps retained messages and events as a broker does, and gives them back to new gateways."""

    def __init__(self) -> None:
        self.retained: dict[str, str] = {}
        self.events: list[Mapping[str, object]] = []

    def retain(self, topic: str, text: str) -> None:
        self.retained[topic] = text

    def publish(self, about: str, document: Mapping[str, object]) -> None:
        assert about == "alert"
        self.events.append(document)

    def connect(self, views: Any, *alerts: Alert, leader: bool = True) -> Alerts:
        """Return the alerts of a gateway that has read the retained messages."""
        found = Alerts(alerts, views, BASE, self.retain, self.publish, is_leader=lambda: leader)
        found.on_connect()
        for topic, text in self.retained.items():
            assert found.on_message(topic, text.encode())
        return found

    def state(self, name: str) -> Any:
        return json.loads(self.retained[f"{BASE}/alert/{name}"])


@pytest.fixture
def watched(make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched(make_lab(climate(4.0), devices=DEVICES), monkeypatch, tags=True)
    found.lab.now = found.lab.now // STEP * STEP
    monkeypatch.setattr("peel_gateway.notifiers.alerts._READ_BACK_SECONDS", 0.0)
    return found


def test_alerts_follow_the_estimates_and_survive_restarts(watched: Watched) -> None:
    broker = Broker()
    rules = (HOT, COLD, MOVED)
    alerts = broker.connect(watched.views, *rules)
    watched.report(20, seconds=3600)
    alerts.evaluate()
    assert broker.events == [] and alerts.active == {"hot": False, "cold": False, "moved": False}
    assert broker.state("hot")["sentence"].startswith("not certain: temperature of climate is above 26 degC; ")
    watched.report(45, seconds=3600)
    alerts.evaluate()
    assert [(event["alert"], event["state"]) for event in broker.events] == [("hot", "active"), ("moved", "active")]
    said = broker.state("hot")
    assert said["low"] > 26 and said["n"] == 12 * DEVICES and said["value"] > said["low"]
    assert said["sentence"].startswith("temperature of climate is above 26 degC; 4")
    alerts.evaluate()
    again = broker.connect(watched.views, *rules)
    again.evaluate()
    assert len(broker.events) == 2, "a restart fires nothing twice"
    assert broker.state("hot")["since"] == said["since"]
    watched.report(15, seconds=3600)
    again.evaluate()
    assert broker.events[2]["alert"] == "hot" and broker.events[2]["state"] == "inactive"
    watched.lab.now += 3 * 3600
    again.evaluate()
    assert again.active == {"hot": False, "cold": False, "moved": False}, (
        "without reports nothing is certain for a window"
    )
    assert broker.state("moved")["value"] is None and "no report" in broker.state("moved")["sentence"]


def test_a_changed_condition_is_a_new_alert(watched: Watched) -> None:
    broker = Broker()
    watched.report(45, seconds=3600)
    broker.connect(watched.views, HOT).evaluate()
    broker.connect(watched.views, Alert(**{**vars(HOT), "threshold": 30.0})).evaluate()
    assert [event["threshold"] for event in broker.events] == [26, 30]


def test_an_alert_on_a_tag(watched: Watched) -> None:
    broker = Broker()
    watched.report(45, seconds=3600)
    roof, none = (Alert(**{**vars(HOT), "name": name, "tag": name}) for name in ("roof", "cellar"))
    alerts = broker.connect(watched.views, roof, none)
    alerts.evaluate()
    alerts.evaluate()
    assert alerts.active == {"roof": True}, "no device is in the other tag: it cannot be evaluated"
    assert broker.state("roof")["n"] == 12 * 5


def test_alerts_are_listed_with_state_value_and_interval(watched: Watched) -> None:
    broker = Broker()
    cellar = Alert(**{**vars(HOT), "name": "cellar", "tag": "cellar"})
    alerts = broker.connect(watched.views, COLD, cellar, HOT)
    assert {each["state"] for each in alerts.listed()} == {"unknown"}
    assert alerts.listed()[0]["sentence"].endswith("the first evaluation is pending")
    watched.report(45, seconds=3600)
    alerts.evaluate()
    hot, cellar_row, cold = alerts.listed()
    assert [(each["alert"], each["state"]) for each in (hot, cellar_row, cold)] == [
        *(("hot", "active"), ("cellar", "unknown"), ("cold", "inactive"))
    ]
    assert {**broker.state("hot"), "problem": None} == hot
    assert 26 == hot["threshold"] < (hot["low"] or 0) < (hot["value"] or 0) < (hot["high"] or 0)
    assert "no device has 'cellar'" in (cellar_row["problem"] or "")
    follower = broker.connect(watched.views, HOT, leader=False)
    assert follower.listed() == [hot], "a worker that does not evaluate lists what the retained message says"


def test_states_are_awaited_before_the_first_evaluation(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peel_gateway.notifiers.alerts._READ_BACK_SECONDS", 60.0)
    broker = Broker()
    watched.report(45, seconds=3600)
    alerts = broker.connect(watched.views, HOT)
    alerts.evaluate()
    assert broker.retained == {} and alerts.active == {}
    state = {**{key: vars(HOT)[key] for key in ("profile", "tag", "figure", "condition", "threshold", "window")}}
    state |= {"state": "active", "since": "2020-01-01T00:00:00Z", "held": "2999-01-01T00:00:00Z"}
    alerts.on_message(f"{BASE}/alert/hot", json.dumps(state).encode())
    alerts.evaluate()
    assert alerts.active == {"hot": True} and broker.events == []
    assert broker.state("hot")["held"] < "2999", "a time in the future would keep it active for ever"


def test_a_worker_that_does_not_lead_follows_and_takes_over(watched: Watched) -> None:
    broker = Broker()
    leader = broker.connect(watched.views, HOT)
    other = broker.connect(watched.views, HOT, leader=False)
    watched.report(20, seconds=3600)
    leader.evaluate()
    other.on_message(f"{BASE}/alert/hot", broker.retained[f"{BASE}/alert/hot"].encode())
    watched.report(45, seconds=3600)
    leader.evaluate()
    other.on_message(f"{BASE}/alert/hot", broker.retained[f"{BASE}/alert/hot"].encode())
    leader.rest()
    other.evaluate()
    assert len(broker.events) == 1 and (leader.active, other.active) == ({}, {"hot": True})


def test_alerts_that_left_the_settings_leave_the_broker(watched: Watched) -> None:
    broker = Broker()
    broker.connect(watched.views, HOT, COLD).evaluate()
    after = broker.connect(watched.views, COLD)
    assert after.evaluate() == {"hot"}
    assert broker.retained[f"{BASE}/alert/hot"] == ""
    assert after.evaluate() == set()


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xff", b"5", b"[]", b"{}", b"[" * 100_000, b'{"state":"active"}', b'{"a":' + b"9" * 5000],
    ids=lambda payload: repr(payload[:12]),
)
def test_no_message_on_an_alerts_topic_ends_the_connection(watched: Watched, payload: bytes) -> None:
    broker = Broker()
    alerts = broker.connect(watched.views, HOT)
    assert alerts.on_message(f"{BASE}/alert/hot", payload)
    assert not alerts.on_message(f"{BASE}/alarm", payload)
    for number in range(2000):
        alerts.on_message(f"{BASE}/alert/{number}", payload)
    assert len(alerts.evaluate()) <= 1000
    assert alerts.active == {"hot": False} and broker.events == []


@pytest.mark.parametrize("moment", ["yesterday", 5, None, "9999-99-99", "-5"])
def test_a_state_with_a_bad_time_is_not_taken_over(watched: Watched, moment: object) -> None:
    broker = Broker()
    broker.connect(watched.views, HOT).evaluate()
    broker.retain(f"{BASE}/alert/hot", json.dumps({**broker.state("hot"), "state": "active", "since": moment}))
    again = broker.connect(watched.views, HOT)
    again.evaluate()
    assert again.active == {"hot": False} and broker.events == []


def test_home_assistant_gets_a_problem_for_each_alert() -> None:
    discovery = Discovery(Settings(), "field", BASE, "1")
    found = discovery.configs([], [HOT, Alert(**{**vars(HOT), "name": "Too.hot"})])
    topic = "homeassistant/binary_sensor/peel_field_main/alert-hot/config"
    config = json.loads(found[topic])
    assert topic == discovery.alert_topic("hot")
    assert (config["device_class"], config["state_topic"]) == ("problem", f"{BASE}/alert/hot")
    assert (config["payload_on"], config["payload_off"]) == ("active", "inactive")
    assert len([each for each in found if "/binary_sensor/" in each]) == 2
