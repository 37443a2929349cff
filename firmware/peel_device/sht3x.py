# SPDX-License-Identifier: MIT
"""Sensirion SHT3x humidity and temperature sensor on I2C: one measurement at a time, high repeatability."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from peel_device.interfaces import Bus

ADDRESS = 0x44
_MEASURE = b"\x24\x00"
_MEASURE_MS = 16


def crc8(data: bytes) -> int:
    """The checksum that follows each word: polynomial 0x31, start 0xff."""
    crc = 0xFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1) ^ 0x131 if crc & 0x80 else crc << 1
    return crc


class Sht3x:
    """Reads degrees Celsius or percent of relative humidity."""

    def __init__(self, bus: "Bus", pause: "Callable[[int], None]", address: int = ADDRESS) -> None:
        self._bus = bus
        self._pause = pause
        self._address = address

    def temperature(self) -> float:
        """Degrees Celsius."""
        return 175.0 * self._measure(0) / 65535 - 45.0

    def humidity(self) -> float:
        """Percent of relative humidity."""
        return 100.0 * self._measure(3) / 65535

    def _measure(self, at: int) -> int:
        self._bus.writeto(self._address, _MEASURE)
        self._pause(_MEASURE_MS)
        data = self._bus.readfrom(self._address, 6)
        if crc8(data[at : at + 2]) != data[at + 2]:
            raise OSError("SHT3x: checksum of the measurement is wrong")
        return data[at] << 8 | data[at + 1]
