# SPDX-License-Identifier: MIT
"""Joining a network that comes and goes; setting the clock for TLS from a time server or from the bundle."""

from __future__ import annotations

import errno
import importlib
import sys
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from host_board import HostBoard, PacedBoard, config
from peel_device import tcp

MADE = 1_790_000_000
"""2026-09-21 14:13:20, a Monday."""


class Clock:
    """The board's clock: `time.gmtime` and `machine.RTC`, with a given epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.now = 1_609_459_200 - epoch  # 2021, where an RP2040 starts
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


SILENT, SHORT = OSError(110, "ETIMEDOUT"), ValueError("buffer too small")


def ntp(monkeypatch: pytest.MonkeyPatch, fault: Exception | None = None) -> ModuleType:
    """Install MicroPython's ntptime with a server that answers, fails, or answers in part."""
    module = ModuleType("ntptime")

    def settime() -> None:
        module.asked.append(module.host)
        if fault is not None:
            raise fault

    vars(module).update(host="pool.ntp.org", asked=[], settime=settime)
    monkeypatch.setitem(sys.modules, "ntptime", module)
    return module


@pytest.mark.parametrize(("server", "asked"), [("192.0.2.1", "192.0.2.1"), ("", "pool.ntp.org")])
def test_the_bundles_time_server_is_asked(
    wifi: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, server: str, asked: str
) -> None:
    time_server = ntp(monkeypatch)
    wifi.set_clock(config(mqtt__ntp=server, mqtt__made=MADE).mqtt, HostBoard())
    assert time_server.asked == [asked]
    assert clock.set_to == []


@pytest.mark.parametrize("fault", [SILENT, SHORT, OverflowError()], ids=["silent", "short", "beyond all years"])
def test_without_an_answer_it_is_the_day_the_bundle_was_made(
    wifi: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    ntp(monkeypatch, fault)
    wifi.set_clock(config(mqtt__made=MADE).mqtt, HostBoard())
    assert clock.set_to == [(2026, 9, 21, 0, 14, 13, 20, 0)]


@pytest.mark.parametrize("fault", [SILENT, SHORT], ids=["silent", "short"])
def test_without_either_there_is_no_time(wifi: Any, monkeypatch: pytest.MonkeyPatch, fault: Exception) -> None:
    ntp(monkeypatch, fault)
    with pytest.raises(OSError, match="no time server"):
        wifi.set_clock(config().mqtt, HostBoard())


def test_a_clock_that_was_set_is_left_alone(wifi: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    time_server = ntp(monkeypatch)
    clock.now = MADE - clock.epoch
    wifi.set_clock(config(mqtt__made=MADE).mqtt, HostBoard())
    assert time_server.asked == clock.set_to == []


class DeafRadio:
    """`network.WLAN` with a driver that got stuck at a loss of signal: only switching it off and on helps."""

    def __init__(self) -> None:
        self.stuck = True
        self.on = False
        self.asked = False

    def active(self, on: bool) -> None:
        if self.on and not on:
            self.stuck = self.asked = False
        self.on = on

    def connect(self, ssid: str, password: str) -> None:
        self.asked = True

    def disconnect(self) -> None:
        self.asked = False

    def isconnected(self) -> bool:
        return self.on and self.asked and not self.stuck


class Esp32Radio(DeafRadio):
    """A radio like the ESP32 port's: its driver retries by itself and refuses calls that do not fit its state."""

    def connect(self, ssid: str, password: str) -> None:
        if self.asked:
            raise OSError("Wifi Internal State Error")
        super().connect(ssid, password)

    def disconnect(self) -> None:
        if not self.on:
            raise OSError("Wifi Not Started")
        super().disconnect()


class Air:
    """A station with a test radio, on a board whose pauses take no time."""

    def __init__(self, wifi: Any, radio: DeafRadio) -> None:
        self._wifi = wifi
        self.radio = radio
        self.station = wifi.Station.__new__(wifi.Station)
        self.station._wlan = radio
        self._settings = config(
            mqtt={"host": "broker", "port": 8883, "tls": True, "ca": "ca.der"},
            wifi={"ssid": "shed", "password": "a secret of the shed"},
        )
        self.board = PacedBoard()
        self.board.pause = self._pass  # type: ignore[method-assign]

    def _pass(self, milliseconds: int) -> None:
        self.board.paces.at += milliseconds

    def join(self) -> None:
        self.station.join(self._settings.wifi, self.board)

    def dial(self) -> Any:
        return self._wifi.dial(self.station, self._settings.mqtt, self._settings.wifi, self.board)


@pytest.mark.parametrize("radio", [DeafRadio, Esp32Radio])
def test_a_radio_that_is_stuck_begins_anew(wifi: Any, radio: type[DeafRadio]) -> None:
    air = Air(wifi, radio())
    with pytest.raises(OSError, match="shed could not be joined"):
        air.join()
    air.join()
    assert air.radio.isconnected()


def test_so_does_one_that_refuses_to_connect_because_it_still_tries(wifi: Any) -> None:
    air = Air(wifi, Esp32Radio())
    air.radio.on = air.radio.asked = True  # the signal is lost, and the driver searches for it itself
    with pytest.raises(OSError, match="Internal State"):
        air.join()
    air.join()
    assert air.radio.isconnected()


def test_a_device_may_go_to_sleep_while_its_radio_is_off(wifi: Any) -> None:
    """Before sleep the radio is switched off again although the failed attempt has switched it off already."""
    air = Air(wifi, Esp32Radio())
    with pytest.raises(OSError, match="shed could not be joined"):
        air.join()
    air.station.off()
    assert not air.radio.on


@pytest.fixture
def connected(wifi: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Air:
    """Return a station on the network, with the time set."""
    clock.now = MADE - clock.epoch
    air = Air(wifi, Esp32Radio())
    air.radio.stuck = False
    air.join()
    return air


@pytest.mark.parametrize(
    ("code", "stays"), [(errno.ETIMEDOUT, False), (errno.EHOSTUNREACH, False), (errno.ECONNREFUSED, True)]
)
def test_a_network_where_nobody_answers_is_joined_anew(
    wifi: Any, connected: Air, monkeypatch: pytest.MonkeyPatch, code: int, stays: bool
) -> None:
    """Some drivers claim to be connected long after the access point has gone. A refused connection proves that they are."""

    def connect(*_: Any) -> None:
        raise OSError(code, "the broker")

    monkeypatch.setattr(wifi.tcp, "connect", connect)
    with pytest.raises(OSError, match="the broker"):
        connected.dial()
    assert connected.radio.on == stays


class UntrustedSocket:
    """A MicroPython TLS socket whose peer shows an invalid certificate."""

    def setblocking(self, flag: bool) -> None:
        pass

    def write(self, data: bytes) -> int:
        raise ValueError("The certificate validity has expired")

    read = write


def test_a_clock_that_makes_certificates_invalid_is_asked_for_again(
    wifi: Any, clock: Clock, connected: Air, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time server without the time sets a clock to another century, in which no certificate is valid."""
    time_server = ntp(monkeypatch)
    monkeypatch.setattr(wifi.tcp, "connect", lambda mqtt, board, doubt: tcp.SocketWire(UntrustedSocket(), True, doubt))
    for expected in (0, 1, 1):
        wire = connected.dial()
        assert len(time_server.asked) == expected
        if expected == 0:
            with pytest.raises(OSError, match="expired"):
                wire.send(b"hello")
    assert clock.set_to == []


def test_a_doubted_clock_stays_where_no_time_server_answers(
    wifi: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not set to the bundle's date: a certificate that has expired since would become valid again."""
    ntp(monkeypatch, SILENT)
    clock.now = MADE + 86400 - clock.epoch
    wifi.set_clock(config(mqtt__made=MADE).mqtt, HostBoard(), True)
    assert clock.set_to == []
