# SPDX-License-Identifier: MIT
"""Joining a Wi-Fi network, for boards with `network.WLAN`."""

import errno
import time

import network

from peel_device import tcp
from peel_device.errors import BoardError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from peel_device.config import Mqtt, Wifi
    from peel_device.interfaces import Board, Wire

JOIN_MS = 20000
NTP_MS = 2000  # ntptime waits one second for an answer
_POLL_MS = 100
_YEAR_2000 = 946684800
_EPOCH_YEAR = 2024  # a clock before this was never set


class Station:
    """The board's Wi-Fi interface as a station."""

    clock_doubted = False

    def __init__(self) -> None:
        self._wlan: "Any" = network.WLAN(network.STA_IF if hasattr(network, "STA_IF") else network.WLAN.IF_STA)

    def join(self, wifi: "Wifi", board: "Board") -> None:
        """Be on the network. Raises OSError when it cannot be joined in time; the radio is then off, and begins anew with the
        next attempt: some drivers get stuck for good after a loss of signal, and a device is to come back by itself.
        """
        self.power_on()
        if self._wlan.isconnected():
            return
        try:
            # An ESP32 refuses this while it looks for a lost network by itself.
            self._wlan.connect(wifi.ssid, wifi.password.reveal().decode())
            self._wait(wifi.ssid, board)
        except OSError:
            self.off()
            raise

    def _wait(self, ssid: str, board: "Board") -> None:
        deadline = board.clock.now() + JOIN_MS
        while not self._wlan.isconnected():
            if board.clock.now() >= deadline:
                raise OSError(errno.ETIMEDOUT, "the network %s could not be joined" % ssid)
            board.feed()
            board.pause(_POLL_MS)

    def power_on(self) -> None:
        """Switch the radio on."""
        self._wlan.active(True)

    def off(self) -> None:
        """Switch the radio off."""
        try:
            self._wlan.disconnect()
        except OSError:
            pass  # an ESP32 says so when its radio is off already
        self._wlan.active(False)

    def doubt_clock(self) -> None:
        """The broker's certificate was refused: it may be the clock that is wrong."""
        self.clock_doubted = True


def dial(station: Station, mqtt: "Mqtt", wifi: "Wifi | None", board: "Board") -> "Wire":
    """Join the network and connect to the broker. Where nobody answers, the radio begins anew with the next attempt: some
    drivers say that they are connected long after the network has gone.
    """
    if wifi is None:
        raise BoardError("wifi: is missing from the bundle")
    station.join(wifi, board)
    try:
        if mqtt.tls:
            set_clock(mqtt, board, station.clock_doubted)
            station.clock_doubted = False
        return tcp.connect(mqtt, board, station.doubt_clock)
    except OSError as error:
        if error.errno != errno.ECONNREFUSED:
            station.off()
        raise


def set_clock(mqtt: "Mqtt", board: "Board", doubted: bool = False) -> None:
    """Set the clock if it was never set, or is doubted: TLS needs to know whether a certificate is valid by now.

    From a time server; where none answers, to the time at which the bundle was made. That is never too late, so a
    certificate of that day is taken, and one that has expired since is not noticed. A clock that was set before keeps its
    time then.
    """
    known = time.gmtime()[0] >= _EPOCH_YEAR
    if known and not doubted:
        return
    import ntptime

    if mqtt.ntp:
        ntptime.host = mqtt.ntp
    board.feed_for(tcp.NAME_MS + NTP_MS)
    try:
        ntptime.settime()
    except (OSError, ValueError, OverflowError):  # no answer, half of one, or a year that no clock has
        if not known and not mqtt.made:
            raise OSError(errno.ETIMEDOUT, "no time server answers") from None
        if not known:
            _set_to(mqtt.made)
    finally:
        board.feed_for(0)


def _set_to(unix: int) -> None:
    import machine

    if time.gmtime(0)[0] == 2000:  # where MicroPython counts from depends on the port
        unix -= _YEAR_2000
    year, month, day, hour, minute, second, weekday = time.gmtime(unix)[:7]
    machine.RTC().datetime((year, month, day, weekday, hour, minute, second, 0))
