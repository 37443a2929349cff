# SPDX-License-Identifier: MIT
"""The boards: light sleep lasts its full time, an interrupted sleep is recognised, the emulator's board runs only there."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import pytest

from peel_device.errors import BoardError
from power_cut import ManualClock


class CreepingClock(ManualClock):
    """A clock that advances a millisecond each time it is read."""

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
    vars(sys.modules["machine"])["lightsleep"] = lightsleep
    monkeypatch.delitem(sys.modules, "peel_device.wifi", raising=False)
    module = importlib.import_module(f"boards.{name}")
    try:
        board = module.Board.__new__(module.Board)
        board.clock = clock
        for milliseconds in range(50):
            start = clock.at
            board.light_sleep(milliseconds)
            assert clock.at - start >= milliseconds
        board.light_sleep(20 * 86_400_000)
        assert min(asked) > 0
        assert max(asked) < 2**29, "half of the tick counter's period: what lasts longer is not noticed"
    finally:
        del sys.modules[f"boards.{name}"]
        sys.modules.pop("peel_device.wifi", None)


def test_the_board_of_the_emulator_runs_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its randomness comes from the emulator's host, so a bundle that names it must not make a real board report."""
    monkeypatch.setitem(sys.modules, "machine", ModuleType("machine"))
    module = importlib.import_module("boards.qemu")
    try:
        with pytest.raises(BoardError, match="to the board in use"):
            module.Board()
    finally:
        del sys.modules["boards.qemu"]


class FakeChip(ModuleType):
    """MicroPython's `machine` on a Pico that reboots repeatedly."""

    WDT_RESET = 3
    PWRON_RESET = 1

    def __init__(self, scratch: int) -> None:
        super().__init__("machine")
        self._scratch = scratch
        self.mem32 = {scratch: 0}
        self.cause = self.PWRON_RESET

    def reset_cause(self) -> int:
        return self.cause

    def reset(self) -> None:
        self.cause = self.WDT_RESET

    def cut_power(self) -> None:
        self.cause = self.PWRON_RESET
        self.mem32 = {self._scratch: 0}

    def lightsleep(self, milliseconds: int) -> None:
        """Return at once; the clock advances by itself."""


@pytest.mark.parametrize(
    ("name", "scratch"),
    [("Raspberry Pi Pico with RP2040", 0x4005800C), ("Raspberry Pi Pico 2 W with RP2350", 0x400D800C)],
)
def test_a_pico_knows_a_sleep_that_ended_from_one_that_was_cut_short(
    name: str, scratch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The RP2350 has its watchdog register at another address than the RP2040."""
    chip = FakeChip(scratch)
    monkeypatch.setitem(sys.modules, "machine", chip)
    module = importlib.import_module("boards.pico")
    try:
        board = module.Board.__new__(module.Board)
        board.clock = CreepingClock()
        board._random_bit, board._scratch = module._registers(name)
        assert not board.woke_from_sleep()
        board.deep_sleep(10)
        assert board.woke_from_sleep()
        chip.reset()  # a reset from the console during the next sleep
        assert not board.woke_from_sleep()
        board.deep_sleep(10)
        chip.cut_power()
        assert not board.woke_from_sleep()
    finally:
        del sys.modules["boards.pico"]


def test_a_chip_that_is_no_pico(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "machine", ModuleType("machine"))
    module = importlib.import_module("boards.pico")
    try:
        with pytest.raises(BoardError, match="neither an RP2040 nor an RP2350"):
            module._registers("Adafruit Feather with RP9000")
    finally:
        del sys.modules["boards.pico"]
