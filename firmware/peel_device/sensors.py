# SPDX-License-Identifier: MIT
"""Sensors: each is a function without arguments that returns a physical reading. A `Sampler` reads all of a profile.

A sensor may raise anything or return NaN if it fails; the report is then skipped.
A sensor's entry in the bundle names its `kind`. KINDS lists the keys of each kind, and the bundle is checked against
it. Devices on an I2C bus have drivers in `drivers/`, and one sensor per quantity that they measure.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from peel_device.config import Config
    from peel_device.interfaces import Board

    Reading = "float | int | str"
    Sensor = Callable[[], Any]

# kind: (required keys, optional keys)
KINDS = {
    "adc": (("pin",), ("scale", "offset")),
    "internal_temperature": ((), ("scale", "offset")),
    "i2c": (("device", "bus", "sda", "scl"), ("address", "scale", "offset")),
    "ds18b20": (("pin",), ("code", "scale", "offset")),
    "digital": (("pin",), ("pull", "latch", "low", "high")),
    "trace": (("values",), ()),
    "callable": (("module", "function"), ()),
}
I2C_DEVICES = (
    "bme280_temperature",
    "bme280_pressure",
    "bme280_humidity",
    "scd4x_co2",
    "scd4x_temperature",
    "scd4x_humidity",
    "sht3x_temperature",
    "sht3x_humidity",
)
PULLS = ("none", "up", "down")
_FED_MS = 1000


def make_all(entries: "list[dict[str, Any]]", board: "Board") -> "list[Sensor]":
    """Make the sensors of checked bundle entries. Sensors of one I2C device share its measurements."""
    shared: "dict[tuple[Any, ...], Any]" = {}
    return [_make(entry, board, shared) for entry in entries]


def _make(entry: "dict[str, Any]", board: "Board", shared: "dict[tuple[Any, ...], Any]") -> "Sensor":
    kind = entry["kind"]
    if kind == "trace":
        return _trace(entry["values"])
    if kind == "callable":
        return _callable(entry["module"], entry["function"])
    if kind == "digital":
        return _digital(board, entry)
    if kind == "adc":
        raw = _adc(board, entry["pin"])
    elif kind == "i2c":
        raw = _i2c(board, entry, shared)
    elif kind == "ds18b20":
        raw = _ds18b20(board, entry)
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


def _i2c(board: "Board", entry: "dict[str, Any]", shared: "dict[tuple[Any, ...], Any]") -> "Sensor":
    name, quantity = entry["device"].split("_")
    driver = __import__("drivers." + name, None, None, ("make", "ADDRESS"))
    address = entry.get("address", driver.ADDRESS)
    place = (name, entry["bus"], entry["sda"], entry["scl"], address)
    if place not in shared:
        bus = board.i2c(entry["bus"], entry["sda"], entry["scl"])
        shared[place] = driver.make(bus, _waiting(board), address)
    device = shared[place]
    return lambda: device.read(quantity)


def _ds18b20(board: "Board", entry: "dict[str, Any]") -> "Sensor":
    from drivers.ds18b20 import Ds18b20

    code = bytes.fromhex(entry.get("code", ""))
    return Ds18b20(board.one_wire(entry["pin"]), _waiting(board), code).temperature


def _digital(board: "Board", entry: "dict[str, Any]") -> "Sensor":
    """Return a sensor of two states, by name, or as 0 and 1 without names."""
    level = board.digital(entry["pin"], entry.get("pull", "none"), entry.get("latch", False))
    states = (entry.get("low", 0), entry.get("high", 1))
    return lambda: states[level()]


def _waiting(board: "Board") -> "Callable[[int], None]":
    """Return a function that waits while it feeds the watchdog."""

    def wait(milliseconds: int) -> None:
        while milliseconds > 0:
            board.feed()
            board.pause(min(milliseconds, _FED_MS))
            milliseconds -= _FED_MS

    return wait


def _trace(values: "list[Any]") -> "Sensor":
    """Return a sensor that plays recorded readings in a loop."""
    position = -1

    def read() -> "Any":
        nonlocal position
        position = (position + 1) % len(values)
        return values[position]

    return read


def _callable(module: str, function: str) -> "Sensor":
    found: "Sensor" = getattr(__import__(module, None, None, (function,)), function)
    return found


FAULT_MAX = 80  # characters that the gateway takes
LASTING = 3  # this many failures in a row, after a success, are more than a glitch


class Sampler:
    """Reads all sensors of the profile."""

    def __init__(self, config: "Config", board: "Board") -> None:
        self._subject = config.profile.subject
        self._edges = [config.sensors[name].get("edges") for name in self._subject.names]
        self._sensors = make_all([config.sensors[name] for name in self._subject.names], board)
        self._streak = LASTING - 1  # a sensor that fails from the start is named at once
        self.failed = 0
        self.failing = ""  # the sensor that keeps failing, and how

    def read(self) -> list[int] | None:
        """Return the readings in the order of the profile, or None (counted) if a sensor failed."""
        readings = []
        for index, name in enumerate(self._subject.names):
            given: "list[Any]" = []
            try:
                given.append(self._sensors[index]())
                readings.append(self._subject.convert(index, given[0], self._edges[index]))
            except Exception as error:  # a driver may be user code and raise anything: skip this report
                self._fail("%s: %s" % (name, _fault(error, given)))
                return None
        self._streak = 0
        self.failing = ""
        return readings

    def _fail(self, fault: str) -> None:
        self.failed += 1
        self._streak += 1
        if self._streak >= LASTING:
            self.failing = fault[:FAULT_MAX]
        print("peel: no report, a sensor failed:", fault)


def _fault(error: Exception, given: "list[Any]") -> str:
    """Describe a failure without a reading. An error's text, or a value of a wrong type, could contain one."""
    if not given:
        number = error.args[0] if isinstance(error, OSError) and error.args else None
        return type(error).__name__ + (" %d" % number if isinstance(number, int) else "")
    (value,) = given
    if value is None or (isinstance(value, float) and value != value):
        return "it gave %s" % value
    return "it gave a %s, not a number" % type(value).__name__
