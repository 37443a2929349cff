# SPDX-License-Identifier: MIT
"""Light sleep on the boards: until its time, whatever wakes the chip, and never for a negative time."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from power_cut import ManualClock


class CreepingClock(ManualClock):
    """Each look at it takes a millisecond."""

    def now(self) -> int:
        self.at += 1
        return self.at


@pytest.mark.parametrize("name", ["pico", "esp32"])
def test_light_sleep_never_asks_for_less_than_no_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = CreepingClock()
    asked: list[int] = []

    def lightsleep(milliseconds: int) -> None:
        asked.append(milliseconds)
        clock.at += max(1, milliseconds // 2)  # woken early

    for missing in ("machine", "esp32", "network"):
        monkeypatch.setitem(sys.modules, missing, ModuleType(missing))
    sys.modules["machine"].lightsleep = lightsleep  # type: ignore[attr-defined]
    monkeypatch.delitem(sys.modules, "peel_device.wifi", raising=False)
    module = importlib.import_module(f"boards.{name}")
    try:
        board = module.Board.__new__(module.Board)
        board.clock = clock
        for milliseconds in range(50):
            start = clock.at
            board.light_sleep(milliseconds)
            assert clock.at - start >= milliseconds
        assert min(asked) > 0
    finally:
        del sys.modules[f"boards.{name}"]
        sys.modules.pop("peel_device.wifi", None)
