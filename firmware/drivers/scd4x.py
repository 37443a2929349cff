# SPDX-License-Identifier: MIT
"""Sensirion SCD40 and SCD41: carbon dioxide, temperature and humidity on I2C, measured every 5 s."""

from drivers.measured import Measured, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from peel_device.interfaces import Bus

ADDRESS = 0x62
_START = b"\x21\xb1"
_STOP = b"\x3f\x86"
_READY = b"\xe4\xb8"
_READ = b"\xec\x05"
_STOP_MS = 500
_ANSWER_MS = 1
_POLL_MS = 100
_POLLS = 65  # a measurement takes 5 s


class Scd4x(Measured):
    """Measures parts per million, degrees Celsius and percent of relative humidity."""

    def __init__(self, bus: "Bus", wait: "Callable[[int], None]", address: int = ADDRESS) -> None:
        super().__init__()
        self._bus = bus
        self._wait = wait
        self._address = address
        self._started = False

    def measure(self) -> "dict[str, float]":
        """Wait for the next measurement and take it."""
        if not self._started:
            self._start()
        for _ in range(_POLLS):
            if self._ask(_READY, 3)[0] & 0x7FF:
                co2, temperature, humidity = self._ask(_READ, 9)
                return {
                    "co2": float(co2),
                    "temperature": 175.0 * temperature / 65535 - 45.0,
                    "humidity": 100.0 * humidity / 65535,
                }
            self._wait(_POLL_MS)
        self._started = False  # the sensor may have lost power: start again next time
        raise OSError("SCD4x: no measurement within 6.5 s")

    def _start(self) -> None:
        """Start measuring. Stop first: a sensor that still measures after a reset of the board ignores a start."""
        self._bus.writeto(self._address, _STOP)
        self._wait(_STOP_MS)
        self._bus.writeto(self._address, _START)
        self._started = True

    def _ask(self, command: bytes, count: int) -> "list[int]":
        self._bus.writeto(self._address, command)
        self._wait(_ANSWER_MS)
        return words(self._bus.readfrom(self._address, count), "SCD4x")


make = Scd4x
