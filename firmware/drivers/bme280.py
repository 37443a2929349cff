# SPDX-License-Identifier: MIT
"""Bosch BME280: temperature, pressure and humidity on I2C, one forced measurement at a time.

Compensation uses integers, as the datasheet (BST-BME280-DS002, section 4.2.3) defines it: 32-bit floats are too short
for pressure.
"""

from drivers.measured import Measured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from peel_device.interfaces import Bus

ADDRESS = 0x76
_CHIP = 0x60
_ID, _CALIBRATION, _CALIBRATION_H = 0xD0, 0x88, 0xE1
_CONTROL_H, _STATUS, _CONTROL, _DATA = 0xF2, 0xF3, 0xF4, 0xF7
_ONCE_EACH = 0b001_001_01  # temperature and pressure sampled once, forced mode
_MEASURING = 0x08
_POLL_MS = 2
_POLLS = 20  # a measurement takes at most 9.3 ms


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


class Bme280(Measured):
    """Measures degrees Celsius, hectopascals and percent of relative humidity."""

    def __init__(self, bus: "Bus", wait: "Callable[[int], None]", address: int = ADDRESS) -> None:
        super().__init__()
        self._bus = bus
        self._wait = wait
        self._address = address
        self._t: "list[int]" = []
        self._p: "list[int]" = []
        self._h: "list[int]" = []

    def measure(self) -> "dict[str, float]":
        """Measure once."""
        if not self._t:
            self._calibrate()
        self._put(_CONTROL_H, 1)
        self._put(_CONTROL, _ONCE_EACH)
        for _ in range(_POLLS):
            self._wait(_POLL_MS)
            if not self._get(_STATUS, 1)[0] & _MEASURING:
                return self._values_of(self._get(_DATA, 8))
        raise OSError("BME280: no measurement within 40 ms")

    def _calibrate(self) -> None:
        """Read the factory calibration."""
        if self._get(_ID, 1)[0] != _CHIP:
            raise OSError("BME280: another chip answers at this address (a BMP280 has no humidity)")
        first, second = self._get(_CALIBRATION, 26), self._get(_CALIBRATION_H, 7)
        low = [first[at] | first[at + 1] << 8 for at in range(0, 24, 2)]
        self._p = [low[3]] + [_signed(word, 16) for word in low[4:]]
        self._h = [
            first[25],
            _signed(second[0] | second[1] << 8, 16),
            second[2],
            _signed(second[3] << 4 | second[4] & 15, 12),
            _signed(second[5] << 4 | second[4] >> 4, 12),
            _signed(second[6], 8),
        ]
        self._t = [low[0]] + [_signed(word, 16) for word in low[1:3]]

    def _values_of(self, data: bytes) -> "dict[str, float]":
        fine = fine_temperature(data[3] << 12 | data[4] << 4 | data[5] >> 4, self._t)
        return {
            "temperature": (fine * 5 + 128 >> 8) / 100,
            "pressure": pressure(data[0] << 12 | data[1] << 4 | data[2] >> 4, fine, self._p) / 25600,
            "humidity": humidity(data[6] << 8 | data[7], fine, self._h) / 1024,
        }

    def _put(self, register: int, value: int) -> None:
        self._bus.writeto(self._address, bytes([register, value]))

    def _get(self, register: int, count: int) -> bytes:
        self._bus.writeto(self._address, bytes([register]))
        return self._bus.readfrom(self._address, count)


def fine_temperature(raw: int, t: "list[int]") -> int:
    """Return the temperature in 1/5120 of a degree, which pressure and humidity depend on."""
    coarse = (raw >> 3) - (t[0] << 1)
    square = (raw >> 4) - t[0]
    return (coarse * t[1] >> 11) + ((square * square >> 12) * t[2] >> 14)


def pressure(raw: int, fine: int, p: "list[int]") -> int:
    """Return the pressure in 1/256 of a pascal."""
    x = fine - 128000
    y = x * x * p[5] + (x * p[4] << 17) + (p[3] << 35)
    scale = ((1 << 47) + ((x * x * p[2] >> 8) + (x * p[1] << 12))) * p[0] >> 33
    if scale == 0:
        raise OSError("BME280: the calibration is empty")
    value = ((1048576 - raw << 31) - y) * 3125 // scale
    square = p[8] * (value >> 13) * (value >> 13) >> 25
    return (value + square + (p[7] * value >> 19) >> 8) + (p[6] << 4)


def humidity(raw: int, fine: int, h: "list[int]") -> int:
    """Return the relative humidity in 1/1024 of a percent."""
    x = fine - 76800
    slope = (((x * h[5] >> 10) * ((x * h[2] >> 11) + 32768) >> 10) + 2097152) * h[1] + 8192 >> 14
    y = ((raw << 14) - (h[3] << 20) - h[4] * x + 16384 >> 15) * slope
    y -= ((y >> 15) * (y >> 15) >> 7) * h[0] >> 4
    return min(max(y, 0), 419430400) >> 12


make = Bme280
