# SPDX-License-Identifier: MIT
"""Maxim DS18B20 thermometer on a 1-Wire bus: the only one on its pin, or one of several by its 64-bit code."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from peel_device.interfaces import OneWire

_SKIP_ROM, _MATCH_ROM, _CONVERT, _READ = 0xCC, 0x55, 0x44, 0xBE
_CONVERT_MS = 750
_POWER_ON = 85 * 16  # what the scratchpad holds before the first conversion
_COUNT_REMAIN = 6


def crc8(data: bytes) -> int:
    """Return the 1-Wire checksum: polynomial x^8 + x^5 + x^4 + 1, reflected, start 0."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x8C if crc & 1 else crc >> 1
    return crc


class Ds18b20:
    """Measures degrees Celsius."""

    def __init__(self, bus: "OneWire", wait: "Callable[[int], None]", code: bytes = b"") -> None:
        self._bus = bus
        self._wait = wait
        self._code = code

    def temperature(self) -> float:
        """Convert and read."""
        self._select()
        self._bus.writebyte(_CONVERT)
        self._wait(_CONVERT_MS)
        self._select()
        self._bus.writebyte(_READ)
        data = bytes([self._bus.readbyte() for _ in range(9)])
        if data == bytes(9) or crc8(data):  # a line held low sends zeros, whose checksum is correct
            raise OSError("DS18B20: checksum of the measurement is wrong")
        raw = data[0] | data[1] << 8
        if raw == _POWER_ON and data[_COUNT_REMAIN] == 0x0C:
            raise OSError("DS18B20: it lost power while it measured")
        return (raw - 65536 if raw & 0x8000 else raw) / 16

    def _select(self) -> None:
        if not self._bus.reset():
            raise OSError("DS18B20: no device answers on the bus")
        self._bus.writebyte(_MATCH_ROM if self._code else _SKIP_ROM)
        for byte in self._code:
            self._bus.writebyte(byte)
