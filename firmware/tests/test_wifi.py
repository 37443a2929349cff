# SPDX-License-Identifier: MIT
"""Time for TLS: from the bundle's time server, and without any from the bundle itself."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from host_board import HostBoard, PacedBoard, config

MADE = 1_790_000_000
"""2026-09-21 14:13:20, a Monday."""


class Clock:
    """The board's clock: `time.gmtime` and `machine.RTC`, with an epoch of its own."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.now = 1_609_459_200 - epoch  # 2021, as an RP2040 begins
        self.set_to: list[tuple[int, ...]] = []

    def gmtime(self, seconds: int | None = None) -> tuple[int, ...]:
        return tuple(_gmtime((self.now if seconds is None else seconds) + self.epoch))

    def datetime(self, value: tuple[int, ...]) -> None:
        self.set_to.append(value)


_gmtime = time.gmtime


@pytest.fixture(params=[0, 946_684_800], ids=["from 1970", "from 2000"])
def clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(request.param)
    machine = ModuleType("machine")
    vars(machine)["RTC"] = lambda: made
    monkeypatch.setitem(sys.modules, "machine", machine)
    monkeypatch.setitem(sys.modules, "network", ModuleType("network"))
    monkeypatch.setattr(time, "gmtime", made.gmtime)
    return made


@pytest.fixture
def wifi(clock: Clock) -> Iterator[Any]:
    yield importlib.import_module("peel_device.wifi")
    del sys.modules["peel_device.wifi"]


def ntp(monkeypatch: pytest.MonkeyPatch, answers: bool) -> ModuleType:
    """MicroPython's ntptime."""
    module = ModuleType("ntptime")

    def settime() -> None:
        module.asked.append(module.host)
        if not answers:
            raise OSError(110, "ETIMEDOUT")

    vars(module).update(host="pool.ntp.org", asked=[], settime=settime)
    monkeypatch.setitem(sys.modules, "ntptime", module)
    return module


@pytest.mark.parametrize(("server", "asked"), [("192.0.2.1", "192.0.2.1"), ("", "pool.ntp.org")])
def test_the_bundles_time_server_is_asked(
    wifi: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, server: str, asked: str
) -> None:
    time_server = ntp(monkeypatch, answers=True)
    wifi.set_clock(config(mqtt__ntp=server, mqtt__made=MADE).mqtt, HostBoard())
    assert time_server.asked == [asked]
    assert clock.set_to == []


def test_without_an_answer_it_is_the_day_the_bundle_was_made(
    wifi: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ntp(monkeypatch, answers=False)
    wifi.set_clock(config(mqtt__made=MADE).mqtt, HostBoard())
    assert clock.set_to == [(2026, 9, 21, 0, 14, 13, 20, 0)]


def test_without_either_there_is_no_time(wifi: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ntp(monkeypatch, answers=False)
    with pytest.raises(OSError, match="ETIMEDOUT"):
        wifi.set_clock(config().mqtt, HostBoard())


def test_a_clock_that_was_set_is_left_alone(wifi: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    time_server = ntp(monkeypatch, answers=True)
    clock.now = MADE - clock.epoch
    wifi.set_clock(config(mqtt__made=MADE).mqtt, HostBoard())
    assert time_server.asked == clock.set_to == []


class DeafRadio:
    """`network.WLAN` with a driver that got stuck when the signal went: only switching it off and on helps."""

    def __init__(self) -> None:
        self.stuck = True
        self.on = False
        self.asked = False

    def active(self, on: bool) -> None:
        if self.on and not on:
            self.stuck = False
        self.on = on

    def connect(self, ssid: str, password: str) -> None:
        self.asked = True

    def disconnect(self) -> None:
        self.asked = False

    def isconnected(self) -> bool:
        return self.on and self.asked and not self.stuck


def test_a_radio_that_is_stuck_begins_anew(wifi: Any) -> None:
    station = wifi.Station.__new__(wifi.Station)
    station._wlan = radio = DeafRadio()
    settings = config(wifi={"ssid": "shed", "password": "a secret of the shed"})
    board = PacedBoard()
    board.pause = lambda milliseconds: setattr(board.paces, "at", board.paces.at + milliseconds)  # type: ignore[method-assign]
    with pytest.raises(OSError, match="shed could not be joined"):
        station.join(settings.wifi, board)
    station.join(settings.wifi, board)
    assert radio.isconnected()
