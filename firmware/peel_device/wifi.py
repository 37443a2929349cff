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
_EPOCH_YEAR = 2024  # an earlier clock was never set


class Station:
    """The board's Wi-Fi interface as a station."""

    clock_doubted = False

    def __init__(self) -> None:
        self._wlan: "Any" = network.WLAN(network.STA_IF if hasattr(network, "STA_IF") else network.WLAN.IF_STA)

    def join(self, wifi: "Wifi", board: "Board") -> None:
        """Join the network. Raises OSError if that takes too long.

        The radio is then switched off, and restarts with the next attempt: some drivers get stuck after a loss of signal.
        """
        self.power_on()
        if self._wlan.isconnected():
            return
        try:
            # An ESP32 refuses this while it searches for a lost network itself.
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
            pass  # an ESP32 raises this if its radio is already off
        self._wlan.active(False)

    def doubt_clock(self) -> None:
        """Note that the broker's certificate was refused, which may mean that the clock is wrong."""
        self.clock_doubted = True


def dial(station: Station, mqtt: "Mqtt", wifi: "Wifi | None", board: "Board") -> "Wire":
    """Join the network and connect to the broker.

    If the broker does not answer, the radio is switched off and restarts with the next attempt: some drivers claim to be
    connected long after the network has gone.
    """
    if wifi is None:
        raise BoardError("wifi: is missing from the bundle: add ssid and password")
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
    """Set the clock if it was never set, or is doubted. TLS needs it to check a certificate's validity.

    The time comes from a time server. If none answers, a clock that was set before keeps its time, and one that was never
    set gets the time at which the bundle was made. That is never too late: a certificate of that day is accepted, and one
    that has expired since is not noticed.
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
    except (OSError, ValueError, OverflowError):  # no answer, a partial one, or a year out of range
        if not known and not mqtt.made:
            raise OSError(errno.ETIMEDOUT, "no time server answers") from None
        if not known:
            _set_to(mqtt.made)
    finally:
        board.feed_for(0)


def _set_to(unix: int) -> None:
    import machine

    if time.gmtime(0)[0] == 2000:  # MicroPython's epoch depends on the port
        unix -= _YEAR_2000
    year, month, day, hour, minute, second, weekday = time.gmtime(unix)[:7]
    machine.RTC().datetime((year, month, day, weekday, hour, minute, second, 0))
