# SPDX-License-Identifier: MIT
"""Home Assistant discovery: ids follow attribute names, and the device class follows the unit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from peel_gateway.notifiers.homeassistant import Discovery
from peel_gateway.settings import Settings

PREFIX = "homeassistant/sensor/peel_field_main/"


def announced(*named: tuple[str, str], group: str | None = None, profile: str = "climate") -> dict[str, Any]:
    """Return the announcements of a profile's figures, given by name and unit, by the end of their topics."""
    rows = [{"name": name, "unit": unit} for name, unit in named]
    table = {"profile": profile, "group": group, "figures": len(rows), "estimates": rows}
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


def test_groups_and_profiles_do_not_run_into_each_other() -> None:
    one = announced(("x", ""), profile="climate", group="roof_top")
    other = announced(("x", ""), profile="climate_roof", group="top")
    assert not one.keys() & other.keys()


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
