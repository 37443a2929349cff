# SPDX-License-Identifier: MIT
"""From a UF2 file to reports at the broker, on the emulated RP2040: what an owner of a Pico does, with the same commands."""

from __future__ import annotations

import json
import os
import queue
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
from click.testing import CliRunner
from flash_pico import EmulatedPico
from paho.mqtt.enums import CallbackAPIVersion

from peel_core.frame import NUMBER, split
from peel_tools.boards.command import require
from peel_tools.boards.firmware import build_firmware
from peel_tools.broker import Broker
from peel_tools.flashing.commands import provision_device

WIDTH = 48
REPORTS = 5


def write_bundle(folder: Path) -> None:
    made: dict[str, Any] = {
        "peel": 1,
        "fleet": "lab",
        "device": "0000002a",
        "seal_key": "00112233445566778899aabbccddeeff",
        "index_key": "ffeeddccbbaa99887766554433221100",
        "seed": os.urandom(32).hex(),
        "profile": {
            "name": "climate", "mechanism": "harmony", "id": "8765abcd", "epsilon_q20": 1 << 20, "k": 2, "width": WIDTH,
            "seed": 694411955, "quota": 1000, "period": 60,
            "attributes": [{"name": name, "unit": "", "low": 0, "high": 100} for name in ("warmth", "level")],
        },
        "board": "pico",
        "transport": "uart",
        "mqtt": {"host": "127.0.0.1", "port": 1883},
        "sensors": {"warmth": {"kind": "internal_temperature"}, "level": {"kind": "adc", "pin": 26, "scale": 100}},
        "interval_s": 0.1,
    }  # fmt: skip
    (folder / "bundles").mkdir()
    (folder / "bundles" / "0000002a.json").write_text(json.dumps(made))


def test_a_pico_from_uf2_to_reports(tmp_path: Path) -> None:
    require("node")
    write_bundle(tmp_path)
    messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
    with Broker() as broker, EmulatedPico(build_firmware("pico").uf2, tmp_path, (broker.host, broker.port)) as pico:
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv311)
        client.on_message = lambda _client, _data, message: messages.put(message)
        client.on_connect = lambda connected, *_: connected.subscribe("peel/v1/lab/0000002a/#", 1)
        client.connect(broker.host, broker.port)
        client.loop_start()
        try:
            words = ["0000002a", "--fleet", str(tmp_path), "--board", "pico", "--port", pico.remote.port]
            answer = CliRunner().invoke(provision_device, words)
            assert answer.exit_code == 0, answer.output
            assert "found Raspberry Pi Pico with RP2040, MicroPython 1.25.0, native code: armv6m" in answer.output
            assert "peel: selftest passed" in answer.output
            assert "00112233" not in answer.output

            birth = messages.get(timeout=90)
            assert json.loads(birth.payload)["board"] == "pico"
            numbers: list[int] = []
            while len(numbers) < REPORTS:
                payload = bytes(messages.get(timeout=60).payload)
                numbers += [NUMBER.of(frame) for frame in split(payload, WIDTH)]
            assert numbers == list(range(1, len(numbers) + 1))
        finally:
            client.loop_stop()
