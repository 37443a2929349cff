# SPDX-License-Identifier: MIT
"""The README describes the bundle that the device checks: the same keys, the same kinds of sensors."""

from __future__ import annotations

import re
from pathlib import Path

from peel_device import config, sensors

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def coded(text: str) -> list[str]:
    """What stands in backticks."""
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


def test_the_kinds_of_sensors_and_their_keys() -> None:
    text = README.split('A sensor is `{"kind": ...}` with: ')[1].split(". For kRR")[0]
    listed = {
        kind: set(coded(keys)) for kind, keys in re.findall(r"`(\w+)`(?: \(([^)]*)\))?", text.split(". `scale`")[0])
    }
    assert set(listed) == set(sensors.KINDS)
    for kind, (needed, _) in sensors.KINDS.items():
        assert set(needed) <= listed[kind], kind
