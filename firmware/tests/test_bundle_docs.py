# SPDX-License-Identifier: MIT
"""README and sensor guide match the bundle that the device checks: keys, kinds of sensors, and a working example."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import host_board
from peel_device import config, sensors
from peel_device.kinds import KINDS, NO_READING, to_q15

SENSORS = (Path(__file__).resolve().parents[2] / "docs" / "devices.md").read_text(encoding="utf-8")
ROOM = host_board.ROOM_PROFILE["attributes"]
README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def coded(text: str) -> list[str]:
    """Return the words in backticks."""
    return re.findall(r"`([^`]+)`", text)


def test_the_required_keys_of_a_bundle() -> None:
    sentence = README.split("Required: ")[1].split(". Optional:")[0]
    named = coded(sentence.replace("(`host`, `port`)", ""))
    assert set(named) == set(config._BUNDLE)


def test_the_optional_keys_of_a_bundle() -> None:
    table = README.split("| key | default | meaning |\n")[1].split("\n\n")[0]
    named = [name for line in table.splitlines()[1:] for name in coded(line.split(" | ")[0])]
    mqtt = {name.removeprefix("mqtt").removeprefix(".") for name in named if name.startswith(("mqtt.", "."))}
    assert mqtt == set(config._MQTT_OPTIONAL)
    assert {name for name in named if "." not in name} == set(config._BUNDLE_OPTIONAL)


def test_the_kinds_of_attributes_and_their_keys() -> None:
    listed = {
        kind: (set(coded(row[1])), set(coded(row[2])))
        for row in rows("| kind | needs | may have |", README)
        for kind in coded(row[0])
    }
    assert listed == {kind: (set(needed), set(optional)) for kind, (_, needed, optional) in KINDS.items()}


def test_the_mixed_board_of_the_guide() -> None:
    example = re.search(r'( +"sensors": \{\n.*?\n    \}\n)', SENSORS, re.DOTALL)
    assert example is not None
    entries = json.loads(f"{{{example.group(1)}}}")["sensors"]
    numbers = [{**ROOM[0], "name": name} for name in ("temperature", "humidity")]
    profile = {**host_board.ROOM_PROFILE, "attributes": [*numbers, *ROOM[3:]]}
    assert host_board.config(profile=profile, sensors=entries).profile.readings == list(entries)


def rows(header: str, text: str = SENSORS) -> list[list[str]]:
    """Return the cells of a table in the sensor guide, or in another text."""
    table = text.split(header + "\n")[1].split("\n\n")[0]
    return [line.strip("|").split("|") for line in table.splitlines()[1:]]


def test_the_kinds_of_sensors_and_their_keys() -> None:
    listed = {
        coded(row[0])[0]: (set(coded(row[1])), set(coded(row[2])))
        for row in rows("| kind | needs | may have | gives |")
    }
    assert listed == {kind: (set(needed), set(optional)) for kind, (needed, optional) in sensors.KINDS.items()}


def test_the_devices_on_i2c() -> None:
    found = [name for row in rows("| `device` | gives | usual `address` |") for name in coded(row[0])]
    assert sorted(found) == sorted(sensors.I2C_DEVICES)


class Thermometer:
    """A TMP117's temperature register on an I2C bus."""

    def __init__(self, raw: bytes) -> None:
        self.raw = raw

    def readfrom_mem(self, address: int, register: int, count: int) -> bytes:
        assert (address, register, count) == (0x48, 0, 2)
        return self.raw


@pytest.mark.parametrize(
    ("raw", "expected"), [(b"\x0c\x80", 25.0), (b"\xff\xc0", -0.5), (b"\x80\x00", None)], ids=["warm", "cold", "none"]
)
def test_a_sensor_of_ones_own(raw: bytes, expected: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ModuleType("machine")
    vars(machine).update(Pin=int, I2C=lambda *arguments, **options: Thermometer(raw))
    monkeypatch.setitem(sys.modules, "machine", machine)
    own = ModuleType("tmp117")
    exec(SENSORS.split("```python\n")[1].split("```")[0], own.__dict__)  # noqa: S102 - the documented example is what is tested
    monkeypatch.setitem(sys.modules, "tmp117", own)
    entries = {
        "temperature": {"kind": "callable", "module": "tmp117", "function": "celsius"},
        "soil": {"kind": "trace", "values": [1]},
    }
    read = host_board.sampler(host_board.config(sensors=entries)).read(1)
    assert read == [NO_READING if expected is None else to_q15(expected, -10, 50), to_q15(1, 0, 1)]
