# SPDX-License-Identifier: MIT
"""The bundle is checked key by key, errors name the key, and no message shows a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from host_board import CATEGORY_PROFILE, ROOM_PROFILE, ROOM_SENSORS, bundle, config
from peel_device.config import load
from peel_device.errors import ConfigError
from peel_device.kinds import CHOICE, HASHED, SIGN

EXAMPLE = Path(__file__).parent.parent / "config.example.json"
TOPICS = EXAMPLE.parents[1] / "spec" / "vectors" / "topics.json"


def test_the_example_is_valid() -> None:
    example = load(EXAMPLE.read_bytes())
    assert example.profile.readings == ["temperature", "soil", "door"]
    assert example.profile.questions == 8
    assert example.interval_ms == 1_020_000
    assert example.mqtt.tls


@pytest.mark.parametrize("case", json.loads(TOPICS.read_text(encoding="utf-8"))["cases"])
def test_topics_are_those_of_the_specification(case: dict[str, Any]) -> None:
    made = config(fleet=case["fleet"], device="%08x" % case["device"])
    assert made.topic + case["about"] == case["topic"]


MODE = {"mode": {"kind": "trace", "values": [0]}}


def test_one_profile_has_attributes_of_every_kind() -> None:
    made = config(profile=ROOM_PROFILE, sensors=ROOM_SENSORS).profile
    assert made.readings == ["temperature", "co2", "door", "error"]
    assert (made.questions, made.columns) == (8, 12)
    assert made.blocks == [
        (SIGN, 1, 3, 1, 0, 8, 3),
        (SIGN, 2, 3, 1, 0, 8, 3),
        (CHOICE, 1, 1, 3, 0, 8, 3),
        (HASHED, 1, 1, 3, 5000, 8, 3),
    ]


def attribute(kind: str, **more: Any) -> dict[str, Any]:
    return {"name": "mode", "kind": kind, "weight": 1, "keep": 8, "change": 3, **more}


def test_edges_make_categories_of_a_number() -> None:
    made = config(profile=CATEGORY_PROFILE, sensors={"mode": {"kind": "adc", "pin": 26, "edges": [0.3, 0.6]}})
    assert made.sensors["mode"]["edges"] == [0.3, 0.6]


def test_hashed_categories_may_have_names() -> None:
    named = attribute("hashed", domain=4, symbols=3, categories=["a", "b", "c", "d"])
    made = config(profile=CATEGORY_PROFILE | {"attributes": [named]}, sensors=MODE)
    readings = [0]
    made.profile.attributes[0].answer(readings, "c", None)
    assert readings == [2]


AT = "profile.attributes[0]"
NUMBER = {"unit": "", "low": 0, "high": 1}


@pytest.mark.parametrize(
    ("attributes", "key"),
    [
        ([attribute("median")], f"{AT}.kind"),
        ([{"name": "mode"}], f"{AT}.kind"),
        (["mode"], AT),
        ([], "profile.attributes"),
        ([attribute("hashed", domain=1, symbols=3)], f"{AT}.domain"),
        ([attribute("hashed", domain=65536, symbols=3)], f"{AT}.domain"),
        ([attribute("hashed", domain=9, symbols=1)], f"{AT}.symbols"),
        ([attribute("hashed", domain=4, symbols=3, categories=["a", "b", "c"])], f"{AT}.categories"),
        ([attribute("category", categories=["a"])], f"{AT}.categories"),
        ([attribute("category", categories=["a", 2])], f"{AT}.categories[1]"),
        ([attribute("category", categories=["a", "b"], domain=2)], f"{AT}.domain"),
        ([attribute("mean", unit="", low=1, high=1)], f"{AT}.low"),
        ([attribute("mean", unit="", low=1)], f"{AT}.high"),
        ([attribute("mean", categories=["a", "b"], **NUMBER)], f"{AT}.categories"),
        ([attribute("above", unit="", thresholds=[])], f"{AT}.thresholds"),
        ([attribute("ladder", unit="", thresholds=[1, "2"])], f"{AT}.thresholds[1]"),
        ([attribute("mean", **NUMBER) | {"weight": 0}], f"{AT}.weight"),
        ([attribute("mean", **NUMBER) | {"weight": 17}], f"{AT}.weight"),
        ([attribute("mean", **NUMBER) | {"keep": 256}], f"{AT}.keep"),
        ([attribute("mean", **NUMBER) | {"keep": 3}], f"{AT}.change"),
        ([attribute("mean", **NUMBER) | {"change": 0}], f"{AT}.change"),
        (
            [attribute("mean", **NUMBER), attribute("above", unit="", thresholds=[0.5]) | {"change": 2}],
            "profile.attributes[1].keep",
        ),
        ([attribute("mean", **NUMBER)] * 2, "profile.attributes[1].name"),
        ([attribute("mean", **NUMBER), attribute("category", categories=["a", "b"])], "profile.attributes[1].kind"),
        ([attribute("ladder", unit="", thresholds=list(range(49)))], "profile.width"),
        (
            [attribute("mean", **NUMBER) | {"name": str(n), "weight": 1 + n % 2} for n in range(33)],
            "profile.attributes",
        ),
    ],
)
def test_an_attribute_must_fit_its_kind(attributes: list[Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(profile=CATEGORY_PROFILE | {"attributes": attributes}, sensors=MODE)
    assert caught.value.key == key


def test_one_reading_needs_one_sensor() -> None:
    attributes = [attribute("mean", **NUMBER), attribute("above", unit="", thresholds=[0.5])]
    made = config(profile=CATEGORY_PROFILE | {"attributes": attributes}, sensors=MODE)
    assert list(made.sensors) == ["mode"]


VERIFIED: dict[str, Any] = {"profile__audits": 8, "profile__offline": 3600, "profile__bucket": 300}
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"peel": 2}, "peel"),
    ({"fleet": "Lab"}, "fleet"),
    ({"fleet": "lab/evil"}, "fleet"),
    ({"device": "2a"}, "device"),
    ({"device": "0000002A"}, "device"),
    ({"device": "00000000"}, "device"),
    ({"seal_key": "00"}, "seal_key"),
    ({"index_key": None}, "index_key"),
    ({"receipt_key": "00" * 15}, "receipt_key"),
    ({"coin_key": "00" * 15}, "coin_key"),
    ({"coin_key": None}, "coin_key"),
    ({"profile__audits": 8}, "profile.offline"),
    ({"profile__offline": 3600}, "profile.offline"),
    ({"profile__bucket": 300}, "profile.bucket"),
    ({"profile__audits": 8, "profile__offline": 3600}, "profile.bucket"),
    ({**VERIFIED, "profile__audits": 12}, "profile.audits"),
    ({**VERIFIED, "profile__offline": 0}, "profile.offline"),
    ({**VERIFIED, "profile__bucket": 0}, "profile.bucket"),
    ({**VERIFIED, "profile__bucket": 86401}, "profile.bucket"),
    ({**VERIFIED, "confirm": "broker"}, "confirm"),
    ({"seed": "zz" * 32}, "seed"),
    ({"first_number": 0}, "first_number"),
    ({"first_number": 10, "last_number": 9}, "last_number"),
    ({"last_number": 1 << 48}, "last_number"),
    ({"interval_s": "60"}, "interval_s"),
    ({"interval_s": -1}, "interval_s"),
    ({"interval_s": float("nan")}, "interval_s"),
    ({"sleep": "nap"}, "sleep"),
    ({"board": "toaster"}, "board"),
    ({"transport": "pigeon"}, "transport"),
    ({"outbox": 0}, "outbox"),
    ({"colour": "red"}, "colour"),
    ({"profile__mechanism": "harmony"}, "profile.mechanism"),
    ({"profile__id": 7}, "profile.id"),
    ({"profile__epsilon_q20": 0}, "profile.epsilon_q20"),
    ({"profile__epsilon_q20": True}, "profile.epsilon_q20"),
    ({"profile__width": 1025}, "profile.width"),
    ({"profile__quota": 0}, "profile.quota"),
    ({"profile__rule": 1}, "profile.rule"),
    ({"profile__categories": ["a", "b"]}, "profile.categories"),
    ({"mqtt__port": 0}, "mqtt.port"),
    ({"mqtt__tls": True}, "mqtt.ca"),
    ({"mqtt__tls": "yes"}, "mqtt.tls"),
    ({"wifi": {"ssid": "x"}}, "wifi.password"),
    ({"sensors__soil": None}, "sensors.soil"),
    ({"sensors__wind": {"kind": "adc", "pin": 1}}, "sensors.wind"),
    ({"sensors__soil": {"kind": "magic"}}, "sensors.soil.kind"),
    ({"sensors__soil": {"kind": "adc"}}, "sensors.soil.pin"),
    ({"sensors__soil": {"kind": "adc", "pin": 26, "values": [1]}}, "sensors.soil.values"),
    ({"sensors__soil": {"kind": "trace", "values": []}}, "sensors.soil.values"),
    ({"sensors__soil": {"kind": "adc", "pin": 26, "edges": [1]}}, "sensors.soil.edges"),
]


@pytest.mark.parametrize(("changes", "key"), FAULTS, ids=[f"{key}-{index}" for index, (_, key) in enumerate(FAULTS)])
def test_a_fault_names_its_key(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(**changes)
    assert caught.value.key == key
    assert str(caught.value).startswith(key + ": ")


def test_edges_must_fit_the_categories() -> None:
    with pytest.raises(ConfigError, match=r"sensors.mode.edges"):
        config(profile=CATEGORY_PROFILE, sensors={"mode": {"kind": "adc", "pin": 26, "edges": [0.3]}})


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b'"peel"'])
def test_what_is_no_bundle_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError, match="bundle: "):
        load(text)


def test_no_secret_shows() -> None:
    made = config(mqtt__password="hunter2", wifi={"ssid": "net", "password": "hunter3"}, seed="ab" * 32)
    assert made.wifi is not None
    secrets = (
        made.seal_key,
        made.index_key,
        made.receipt_key,
        made.coin_key,
        made.seed,
        made.mqtt.password,
        made.wifi.password,
    )
    shown = "".join(f"{secret!r} {secret}" for secret in secrets) + repr(vars(made)) + repr(vars(made.mqtt))
    for hidden in ("0011", "ffee", "0f1e", "abab", "hunter", "\\x00\\x11", "\\xab"):
        assert hidden not in shown
    assert made.seal_key.reveal().hex() == bundle()["seal_key"]


@pytest.mark.parametrize("key", ["seal_key", "index_key", "receipt_key", "coin_key", "seed"])
def test_no_error_repeats_a_key(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(json.dumps(bundle(**{key: "deadbeef" * 3})).encode())
    assert "deadbeef" not in str(caught.value)
