# SPDX-License-Identifier: MIT
"""Home Assistant discovery: ids follow attribute names, and the device class follows the unit."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

from peel_gateway.notifiers.homeassistant import Discovery
from peel_gateway.settings import Settings

PREFIX = "homeassistant/sensor/peel_field_main/"


def announced(
    *named: tuple[str, str], tag: str | None = None, profile: str = "climate", ladders: Sequence[tuple[str, str]] = ()
) -> dict[str, Any]:
    """Return the announcements of a profile's figures and ladders, given by name and unit, by the end of their topics."""
    rows = [{"name": name, "unit": unit} for name, unit in named]
    distributions = [{"attribute": name, "unit": unit} for name, unit in ladders]
    table = {"profile": profile, "tag": tag, "figures": len(rows), "estimates": rows, "distributions": distributions}
    configs = Discovery(Settings(), "field", "peel/v1/field/gateway/main", "1").configs([table])
    return {
        topic.removeprefix(PREFIX).removesuffix("/config"): json.loads(text)
        for topic, text in configs.items()
        if topic.startswith(f"{PREFIX}{profile}")
    }


def test_an_attribute_keeps_its_ids_when_another_comes_before_it() -> None:
    before = announced(("temperature", "°C"))["climate-temperature"]
    after = announced(("humidity", "%"), ("temperature", "°C"))["climate-temperature"]
    assert before["unique_id"] == after["unique_id"] == "peel_field_main_climate-temperature"
    assert before["object_id"] == after["object_id"] == "peel_field_main_climate_temperature"
    assert before["value_template"] != after["value_template"], "its place in the message has changed"


def test_names_that_look_alike_have_ids_of_their_own() -> None:
    names = ["a b", "a-b", "a_b", "A b", "ä b", "", "{{ 1 }}", "a/b", "a#b"]
    told = announced(*((name, "") for name in names))
    assert len(told) == len({each["unique_id"] for each in told.values()}) == len(names)
    assert all(part.isascii() and not set(part) & set("/#+ ") for part in told)
    assert "climate-a_b" in told


def test_tags_and_profiles_do_not_run_into_each_other() -> None:
    one = announced(("x", ""), profile="climate", tag="roof_top")
    other = announced(("x", ""), profile="climate_roof", tag="top")
    assert not one.keys() & other.keys()


def test_tags_in_any_language_have_safe_topics_and_ids() -> None:
    tags = ["Gewächshaus 2", "gew chshaus 2", "北棟", "南棟", "50 %", "a.b"]
    told = [announced(("x", ""), tag=tag).popitem() for tag in tags]
    assert len({name for name, _ in told}) == len({each["state_topic"] for _, each in told}) == len(tags)
    assert all(re.fullmatch("[A-Za-z0-9_-]+", name) for name, _ in told)
    assert [each["name"] for _, each in told] == [f"x ({tag})" for tag in tags]
    assert told[0][1]["state_topic"].endswith("/estimates/climate/Gew%C3%A4chshaus%202")


def test_each_distribution_has_a_median() -> None:
    one = announced(ladders=[("co2", "ppm")], tag="Roof")
    (told,) = one.values()
    assert (told["name"], told["unit_of_measurement"], told["device_class"]) == (
        *("co2 median (Roof)", "ppm"),
        "carbon_dioxide",
    )
    alike = announced(("median", ""), ("co2_median", ""), ladders=[("co2", "ppm")])
    assert set(alike) == {"climate-median", "climate-co2_median", "climate-co2--median"}


@pytest.mark.parametrize(
    ("name", "unit", "device_class", "spelled"),
    [
        ("temperature", "°C", "temperature", "°C"),
        ("soil", "degC", "temperature", "°C"),
        ("humidity", "%", "humidity", "%"),
        ("soil_moisture", "%", "moisture", "%"),
        ("open", "%", None, "%"),
        ("air", "hPa", "pressure", "hPa"),
        ("co2", "ppm", "carbon_dioxide", "ppm"),
        ("methane", "ppm", None, "ppm"),
        ("pm25", "ug/m3", "pm25", "µg/m³"),
        ("light", "lx", "illuminance", "lx"),
        ("wind", "m/s", "speed", "m/s"),
        ("queue", "people", None, "people"),
        ("share", "", None, None),
    ],
)
def test_the_device_class_follows_from_the_unit(
    name: str, unit: str, device_class: str | None, spelled: str | None
) -> None:
    (told,) = announced((name, unit)).values()
    assert (told.get("device_class"), told.get("unit_of_measurement")) == (device_class, spelled)
    assert told["state_class"] == "measurement"
