# SPDX-License-Identifier: MIT
"""The bundle is checked key by key, errors name the key, and no message shows a secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from host_board import HASHING_PROFILE, KRR_PROFILE, bundle, config
from peel_device.config import load
from peel_device.errors import ConfigError

EXAMPLE = Path(__file__).parent.parent / "config.example.json"
TOPICS = EXAMPLE.parents[1] / "spec" / "vectors" / "topics.json"


def test_the_example_is_valid() -> None:
    example = load(EXAMPLE.read_bytes())
    assert example.profile.mechanism.name == "harmony"
    assert example.interval_ms == 1_020_000
    assert example.mqtt.tls


@pytest.mark.parametrize("case", json.loads(TOPICS.read_text(encoding="utf-8"))["cases"])
def test_topics_are_those_of_the_specification(case: dict[str, Any]) -> None:
    made = config(fleet=case["fleet"], device="%08x" % case["device"])
    assert made.topic + case["about"] == case["topic"]


def test_a_krr_bundle() -> None:
    made = config(profile=KRR_PROFILE, sensors={"mode": {"kind": "adc", "pin": 26, "edges": [0.3, 0.6]}})
    assert made.profile.mechanism.name == "krr"
    assert made.profile.subject.categories == 3


MODE = {"mode": {"kind": "trace", "values": [0]}}


def test_a_hashing_bundle_needs_no_names() -> None:
    made = config(profile=HASHING_PROFILE, sensors=MODE)
    assert (made.profile.k, made.profile.domain, made.profile.subject.categories) == (3, 65535, 65535)


def test_a_hashing_bundle_may_have_names() -> None:
    named = {**HASHING_PROFILE, "domain": 4, "categories": ["a", "b", "c", "d"]}
    made = config(profile=named, sensors={"mode": {"kind": "trace", "values": ["c"]}})
    assert made.profile.subject.convert(0, "c", None) == 2


@pytest.mark.parametrize(
    ("profile", "key"),
    [
        ({**HASHING_PROFILE, "domain": 1}, "profile.domain"),
        ({**HASHING_PROFILE, "domain": 65536}, "profile.domain"),
        ({**HASHING_PROFILE, "domain": 4, "categories": ["a", "b", "c"]}, "profile.categories"),
        ({**HASHING_PROFILE, "k": 1}, "profile.k"),
        ({**KRR_PROFILE, "domain": 3}, "profile.domain"),
        ({**KRR_PROFILE, "k": 1}, "profile.k"),
        ({**bundle()["profile"], "domain": 2}, "profile.domain"),
    ],
)
def test_a_domain_must_fit_the_mechanism(profile: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config(profile=profile, sensors=MODE)
    assert caught.value.key == key


def test_one_attribute_is_enough() -> None:
    attributes = [{"name": "soil", "unit": "", "low": 0, "high": 1}]
    made = config(profile__k=1, profile__attributes=attributes, sensors={"soil": {"kind": "adc", "pin": 26}})
    assert made.profile.subject.names == ["soil"]


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
    ({"profile__mechanism": "rappor"}, "profile.mechanism"),
    ({"profile__id": 7}, "profile.id"),
    ({"profile__epsilon_q20": 0}, "profile.epsilon_q20"),
    ({"profile__epsilon_q20": True}, "profile.epsilon_q20"),
    ({"profile__k": 3}, "profile.attributes"),
    ({"profile__k": 64}, "profile.k"),
    ({"profile__width": 1025}, "profile.width"),
    ({"profile__quota": 0}, "profile.quota"),
    ({"profile__rule": 1}, "profile.rule"),
    ({"profile__categories": ["a", "b"]}, "profile.categories"),
    ({"profile__attributes": [{"name": "a", "unit": "", "low": 0, "high": 1}] * 2}, "profile.attributes[1].name"),
    ({"profile__attributes": [{"name": "a", "unit": "", "low": 1, "high": 1}] * 2}, "profile.attributes[0].low"),
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


def test_krr_edges_must_fit_the_categories() -> None:
    with pytest.raises(ConfigError, match=r"sensors.mode.edges"):
        config(profile=KRR_PROFILE, sensors={"mode": {"kind": "adc", "pin": 26, "edges": [0.3]}})


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b'"peel"'])
def test_what_is_no_bundle_is_refused(text: bytes) -> None:
    with pytest.raises(ConfigError, match="bundle: "):
        load(text)


def test_no_secret_shows() -> None:
    made = config(mqtt__password="hunter2", wifi={"ssid": "net", "password": "hunter3"}, seed="ab" * 32)
    assert made.wifi is not None
    secrets = (made.seal_key, made.index_key, made.receipt_key, made.seed, made.mqtt.password, made.wifi.password)
    shown = "".join(f"{secret!r} {secret}" for secret in secrets) + repr(vars(made)) + repr(vars(made.mqtt))
    for hidden in ("0011", "ffee", "0f1e", "abab", "hunter", "\\x00\\x11", "\\xab"):
        assert hidden not in shown
    assert made.seal_key.reveal().hex() == bundle()["seal_key"]


@pytest.mark.parametrize("key", ["seal_key", "index_key", "receipt_key", "seed"])
def test_no_error_repeats_a_key(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(json.dumps(bundle(**{key: "deadbeef" * 3})).encode())
    assert "deadbeef" not in str(caught.value)
