# SPDX-License-Identifier: MIT
"""Sensors: each is a function without arguments that returns a physical reading.

It may raise OSError or return NaN when it fails.
A sensor's entry in the bundle names its `kind`; KINDS lists what each kind takes, and drives the check of the bundle
too.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from peel_device.interfaces import Board

    Reading = "float | int | str"
    Sensor = Callable[[], Any]

# kind: (keys it needs, keys it may have)
KINDS = {
    "adc": (("pin",), ("scale", "offset")),
    "internal_temperature": ((), ("scale", "offset")),
    "i2c": (("device", "bus", "sda", "scl"), ("address", "scale", "offset")),
    "trace": (("values",), ()),
    "callable": (("module", "function"), ()),
}
I2C_DEVICES = ("sht3x_temperature", "sht3x_humidity")


def make(entry: "dict[str, Any]", board: "Board") -> "Sensor":
    """Make the sensor that a checked bundle entry describes."""
    kind = entry["kind"]
    if kind == "trace":
        return _trace(entry["values"])
    if kind == "callable":
        return _callable(entry["module"], entry["function"])
    if kind == "adc":
        raw = _adc(board, entry["pin"])
    elif kind == "i2c":
        raw = _i2c(board, entry)
    else:
        raw = board.internal_temperature
    return _scaled(raw, entry.get("scale", 1), entry.get("offset", 0))


def _scaled(raw: "Sensor", scale: float, offset: float) -> "Sensor":
    def read() -> float:
        return float(raw() * scale + offset)

    return read


def _adc(board: "Board", pin: int) -> "Sensor":
    def read() -> float:
        return board.adc(pin) / 65535  # the fraction of full scale

    return read


def _i2c(board: "Board", entry: "dict[str, Any]") -> "Sensor":
    from peel_device import sht3x

    bus = board.i2c(entry["bus"], entry["sda"], entry["scl"])
    device = sht3x.Sht3x(bus, board.pause, entry.get("address", sht3x.ADDRESS))
    return device.humidity if entry["device"] == "sht3x_humidity" else device.temperature


def _trace(values: "list[Any]") -> "Sensor":
    """Play recorded readings, over and over."""
    position = -1

    def read() -> "Any":
        nonlocal position
        position = (position + 1) % len(values)
        return values[position]

    return read


def _callable(module: str, function: str) -> "Sensor":
    found: "Sensor" = getattr(__import__(module, None, None, (function,)), function)
    return found
