# SPDX-License-Identifier: MIT
"""`peel fleet add` and `peel fleet bundle` refuse a bad bundle before they register a device or write a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helpers import climate_profile

from peel_gateway.fleet.folder import Fleet
from peel_tools.cli import fleet as fleet_group

TEMPLATE: dict[str, Any] = {
    "board": "pico_w",
    "mqtt": {"host": "192.0.2.10", "port": 1883},
    "wifi": {"ssid": "greenhouse", "password": "secret words"},
    "sensors": {"temperature": {"kind": "internal_temperature"}, "soil": {"kind": "adc", "pin": 26}},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "climate.toml").write_text(climate_profile(quota=60, period=3600))
    return Fleet.create(tmp_path / "fleet", "home", [tmp_path / "climate.toml"]).folder


def write_template(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    template = json.loads(json.dumps(TEMPLATE))
    change(template)
    path = folder / "template.json"
    path.write_text(json.dumps(template))
    path.chmod(0o600)


def run(*words: str) -> Result:
    return CliRunner().invoke(fleet_group, list(words))


FAULTS: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda t: t["sensors"].pop("soil"), "sensors.soil: is missing: each reading needs a sensor"),
    (
        lambda t: t["sensors"].update(wind={"kind": "adc", "pin": 27}),
        "sensors.wind: is not an attribute of the profile",
    ),
    (lambda t: t["sensors"]["soil"].pop("pin"), "sensors.soil.pin: is missing"),
    (lambda t: t["sensors"]["soil"].update(kind="magic"), "sensors.soil.kind"),
    (lambda t: t.update(sensors=[]), "sensors:"),
    (lambda t: t.update(board="pico_x"), "board: must be one of"),
    (lambda t: t.update(board="pico"), "transport: board pico has no network of its own"),
    (lambda t: t.pop("wifi"), "wifi: is missing: board pico_w needs to know"),
    (lambda t: t["mqtt"].update(tls=True), "mqtt.ca: is missing"),
    (lambda t: t["mqtt"].update(port="mqtt"), "mqtt.port: must be a whole number"),
    (lambda t: t.update(mqtt="broker"), "mqtt:"),
    (lambda t: t.update(sleep="long"), "sleep: must be one of"),
    (lambda t: t.update(interval_s=10), "interval_s: 10 s is more often than 60 reports in any 3600 s allow"),
    (lambda t: t.update(interval_s="hourly"), "interval_s: must be a number"),
    (lambda t: t.update(outbox=0), "outbox: must be a whole number"),
    (lambda t: t.update(colour="red"), "colour: unknown key in a template"),
]


@pytest.mark.parametrize(("change", "said"), FAULTS, ids=[said[:30] for _, said in FAULTS])
def test_a_template_that_no_board_could_follow_registers_nobody(
    folder: Path, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    write_template(folder, change)
    result = run("add", str(folder), "--count", "3")
    assert result.exit_code == 3
    assert said in result.output
    assert "template.json" in result.output
    assert len(Fleet(folder).devices()) == 0
    assert list((folder / "bundles").iterdir()) == []


def test_a_bundle_again_is_checked_before_its_number_is_issued(folder: Path) -> None:
    write_template(folder, lambda _: None)
    assert run("add", str(folder)).exit_code == 0
    issued = Fleet(folder).device(1).bundles
    write_template(folder, lambda t: t["sensors"].pop("soil"))
    result = run("bundle", str(folder), "1")
    assert (result.exit_code, "sensors.soil" in result.output) == (3, True)
    assert Fleet(folder).device(1).bundles == issued
    write_template(folder, lambda _: None)
    assert run("bundle", str(folder), "1").exit_code == 0
    assert len(Fleet(folder).device(1).bundles) == 2
