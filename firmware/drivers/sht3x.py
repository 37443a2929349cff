# SPDX-License-Identifier: MIT
"""Sensirion SHT3x humidity and temperature sensor on I2C: one measurement at a time, high repeatability."""

from drivers.measured import Measured, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from peel_device.interfaces import Bus

ADDRESS = 0x44
_MEASURE = b"\x24\x00"
_MEASURE_MS = 16


class Sht3x(Measured):
    """Measures degrees Celsius and percent of relative humidity."""

    def __init__(self, bus: "Bus", wait: "Callable[[int], None]", address: int = ADDRESS) -> None:
        super().__init__()
        self._bus = bus
        self._wait = wait
        self._address = address

    def measure(self) -> "dict[str, float]":
        """Measure once."""
        self._bus.writeto(self._address, _MEASURE)
        self._wait(_MEASURE_MS)
        temperature, humidity = words(self._bus.readfrom(self._address, 6), "SHT3x")
        return {"temperature": 175.0 * temperature / 65535 - 45.0, "humidity": 100.0 * humidity / 65535}


make = Sht3x
