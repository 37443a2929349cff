# SPDX-License-Identifier: MIT
"""The host as a board, and bundles for it."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable
from typing import Any

from peel_device import tcp
from peel_device.config import Config, Mqtt, Wifi
from peel_device.errors import BoardError
from peel_device.interfaces import Bus, Clock, OneWire, Source, Wire
from peel_device.sensors import Outages, Sampler
from peel_device.timing import TickClock
from power_cut import ManualClock, MemoryFiles

BUNDLE: dict[str, Any] = {
    "peel": 1,
    "fleet": "lab",
    "device": "0000002a",
    "seal_key": "00112233445566778899aabbccddeeff",
    "index_key": "ffeeddccbbaa99887766554433221100",
    "receipt_key": "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "coin_key": "a5b4c3d2e1f00f1e2d3c4b5a69788796",
    "profile": {
        "name": "climate",
        "id": "8765abcd",
        "epsilon_q20": 1 << 20,
        "width": 48,
        "seed": 694411955,
        "quota": 100000,
        "period": 60,
        "attributes": [
            {
                "name": "temperature",
                "kind": "mean",
                "weight": 1,
                "keep": 8,
                "change": 3,
                "unit": "degC",
                "low": -10,
                "high": 50,
            },
            {"name": "soil", "kind": "mean", "weight": 1, "keep": 8, "change": 3, "unit": "", "low": 0, "high": 1},
        ],
    },
    "mqtt": {"host": "127.0.0.1", "port": 1883},
    "sensors": {
        "temperature": {"kind": "trace", "values": [20, 21.5]},
        "soil": {"kind": "trace", "values": [0.5]},
    },
    "interval_s": 0,
}

CATEGORY_PROFILE: dict[str, Any] = {
    "name": "mode",
    "id": "00000007",
    "epsilon_q20": 1 << 20,
    "width": 48,
    "seed": 1810750062,
    "quota": 10,
    "period": 60,
    "attributes": [
        {"name": "mode", "kind": "category", "weight": 1, "keep": 8, "change": 3, "categories": ["off", "heat", "cool"]}
    ],
}
HASHED_PROFILE: dict[str, Any] = {
    **CATEGORY_PROFILE,
    "attributes": [
        {"name": "mode", "kind": "hashed", "weight": 1, "keep": 8, "change": 3, "domain": 65535, "symbols": 3}
    ],
}
ROOM_PROFILE: dict[str, Any] = {
    **CATEGORY_PROFILE,
    "name": "room",
    "attributes": [
        {
            "name": "temperature",
            "kind": "mean",
            "weight": 1,
            "keep": 8,
            "change": 3,
            "unit": "degC",
            "low": -10,
            "high": 50,
        },
        {
            "name": "temperature",
            "kind": "above",
            "weight": 1,
            "keep": 8,
            "change": 3,
            "unit": "degC",
            "thresholds": [26, 30],
        },
        {
            "name": "co2",
            "kind": "ladder",
            "weight": 2,
            "keep": 8,
            "change": 3,
            "unit": "ppm",
            "thresholds": [600, 1000, 1400],
        },
        {
            "name": "door",
            "kind": "category",
            "weight": 1,
            "keep": 8,
            "change": 3,
            "categories": ["open", "shut", "ajar"],
        },
        {"name": "error", "kind": "hashed", "weight": 1, "keep": 8, "change": 3, "domain": 5000, "symbols": 3},
    ],
}
"""A mixed board: 8 questions about 4 readings, in 4 blocks with 12 columns."""
ROOM_SENSORS: dict[str, Any] = {
    "temperature": {"kind": "trace", "values": [28]},
    "co2": {"kind": "trace", "values": [800]},
    "door": {"kind": "trace", "values": ["ajar"]},
    "error": {"kind": "trace", "values": [4711]},
}
ROOM_READINGS = [8738, 32768, -32768, 32768, -32768, -32768, 2, 4711]


def bundle(**changes: Any) -> dict[str, Any]:
    """Return a valid bundle. `profile__width=3` changes one key of an inner object; None removes a key."""
    made = copy.deepcopy(BUNDLE)
    for path, value in changes.items():
        *outer, key = path.split("__")
        target = made
        for name in outer:
            target = target[name]
        if value is None:
            del target[key]
        else:
            target[key] = value
    return made


def config(**changes: Any) -> Config:
    """A checked bundle."""
    return Config(bundle(**changes))


class HostBoard:
    """This computer: a real network, the kernel's randomness, no pins."""

    name = "host"

    def __init__(self) -> None:
        self.clock: Clock = TickClock(lambda: time.monotonic_ns() // 1_000_000, lambda end, start: end - start, 1)
        self.slept: list[tuple[str, int]] = []
        self.fed = 0

    def sources(self) -> list[Source]:
        return [("os.urandom", os.urandom, 64, 256)]

    def unique_id(self) -> bytes:
        return b"host"

    def led(self, on: bool) -> None:
        pass

    def start_watchdog(self, sleep: str) -> None:
        pass

    def feed(self) -> None:
        self.fed += 1

    def feed_for(self, milliseconds: int) -> None:
        self.feed()

    def pause(self, milliseconds: int) -> None:
        time.sleep(milliseconds / 1000)

    def light_sleep(self, milliseconds: int) -> None:
        self.slept.append(("light", milliseconds))

    def deep_sleep(self, milliseconds: int) -> None:
        self.slept.append(("deep", milliseconds))
        raise SystemExit

    def woke_from_sleep(self) -> bool:
        return False

    def reset(self) -> None:
        raise SystemExit

    def dial(self, transport: str, mqtt: Mqtt, wifi: Wifi | None) -> Wire:
        return tcp.connect(mqtt, self)

    def hang_up(self) -> None:
        pass

    def adc(self, pin: int) -> int:
        return 65535 // 4

    def internal_temperature(self) -> float:
        return 21.0

    def i2c(self, bus: int, sda: int, scl: int) -> Bus:
        raise BoardError("sensors: this board has no i2c")

    def one_wire(self, pin: int) -> OneWire:
        raise BoardError("sensors: this board has no 1-Wire bus")

    def digital(self, pin: int, pull: str, latch: bool) -> Callable[[], int]:
        raise BoardError("sensors: this board has no digital input")


class PacedBoard(HostBoard):
    """A host whose clock counts only the board's own pauses, so that a busy computer makes nothing late."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = self.paces = ManualClock()

    def pause(self, milliseconds: int) -> None:
        super().pause(milliseconds)
        self.paces.at += milliseconds


def sampler(settings: Config, board: HostBoard | None = None, files: MemoryFiles | None = None) -> Sampler:
    """Return a sampler as after a boot, without outages unless the files have some."""
    outages = Outages(files or MemoryFiles(), "outages", settings)
    outages.start(woke_from_sleep=False)
    return Sampler(settings, board or HostBoard(), outages)
