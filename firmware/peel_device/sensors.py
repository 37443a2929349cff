# SPDX-License-Identifier: MIT
"""Sensors: each is a function without arguments that returns a physical reading. A `Sampler` reads all of a profile.

A sensor may raise anything or return NaN if it fails. The report is then skipped, unless the failure lasts and other
sensors work: then reports are made without its reading (see `Outages`).

A sensor's entry in the bundle names its `kind`. KINDS lists the keys of each kind, and the bundle is checked against
it. Devices on an I2C bus have drivers in `drivers/`, and one sensor per quantity that they measure.
"""

from peel_device.errors import StorageError
from peel_device.storage import Slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from peel_device.config import Config
    from peel_device.interfaces import Board, Files

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
_NUMBER_SIZE = 6
_ENTRY = _NUMBER_SIZE + 1


class Outages:
    """The sensors' failures in a row, and the readings that reports do without until a report number.

    A device that could leave out single readings could choose the reports that count. So an outage lasts at least as many
    numbers as the device uses in a period. It is on flash before the first report without the reading, because a reboot
    must not end it. The failures are on flash with deep sleep only, where every report ends in a reboot.
    """

    def __init__(self, files: "Files", path: str, config: "Config") -> None:
        profile = config.profile
        count = len(profile.readings)
        self._mark = profile.id.to_bytes(4, "little")
        self._slots = Slots(files, path, len(self._mark) + _ENTRY * count)
        self._deep = config.sleep == "deep"
        self._until = [0] * count
        self._streaks = [LASTING - 1] * count  # a sensor that fails from the start is named at once
        self._least = min(profile.quota, -(-1000 * profile.period // max(1, config.interval_ms)))
        # With one reading, or without a free column for "no reading", reports are skipped instead.
        self._possible = count > 1 and profile.columns < profile.width
        self._changed = False

    def start(self, woke_from_sleep: bool) -> None:
        """Continue the outages of a former run with the same profile. If their record is lost, they have ended."""
        try:
            record = self._slots.read() or b""
        except StorageError:
            record = b""
        if record[:4] == self._mark:
            for place in range(len(self._until)):
                at = len(self._mark) + _ENTRY * place
                self._until[place] = int.from_bytes(record[at : at + _NUMBER_SIZE], "little")
                if woke_from_sleep:
                    self._streaks[place] = record[at + _NUMBER_SIZE]

    def store(self) -> None:
        """Write changes to flash."""
        if self._changed:
            entries = [
                until.to_bytes(_NUMBER_SIZE, "little") + bytes([streak])
                for until, streak in zip(self._until, self._streaks)
            ]
            self._slots.write(self._mark + b"".join(entries))
            self._changed = False

    def count(self, place: int, works: bool) -> None:
        """Count failures in a row."""
        streak = 0 if works else min(LASTING, self._streaks[place] + 1)
        self._changed = self._changed or (self._deep and streak != self._streaks[place])
        self._streaks[place] = streak

    def lasts(self, place: int) -> bool:
        """Whether a sensor keeps failing, or its outage has not ended."""
        return self._streaks[place] >= LASTING or self._until[place] > 0

    def may_report(self, working: list[bool]) -> bool:
        """Whether all sensors work; or some do, and the failures of the others last."""
        if all(working):
            return True
        lasting = [works or self.lasts(place) for place, works in enumerate(working)]
        return self._possible and any(working) and all(lasting)

    def leaves_out(self, place: int, works: bool, number: int) -> bool:
        """Begin or end an outage at this number. Return whether the reading is left out."""
        until = self._until[place]
        if not works and not until:
            self._until[place] = number + self._least
        elif works and until <= number:
            self._until[place] = 0
        self._changed = self._changed or until != self._until[place]
        return self._until[place] > 0


class Sampler:
    """Reads all sensors of the profile, each once per report."""

    def __init__(self, config: "Config", board: "Board", outages: Outages) -> None:
        profile = config.profile
        self._names = profile.readings
        self._about = [profile.about[name] for name in self._names]
        self._edges = [config.sensors[name].get("edges") for name in self._names]
        self._sensors = make_all([config.sensors[name] for name in self._names], board)
        self._outages = outages
        self._readings = [0] * profile.questions  # one list for all reports
        self._faults = [""] * len(self._names)
        self.failed = 0
        self.failing = ""  # the sensors that keep failing, and how
        self.incomplete = False  # the last readings lack one that was left out

    def read(self, number: int) -> list[int] | None:
        """Return an integer per question for the report with this number; None (counted) if there can be no report.

        The next call changes the list.
        """
        working = [self._try(place) for place in range(len(self._names))]
        possible = self._outages.may_report(working)
        self.incomplete = False
        if possible:
            for place, works in enumerate(working):
                self._leave_out(place, works, number)
        else:
            self.failed += 1
            faults = [self._faults[place] if not works else "" for place, works in enumerate(working)]
            print("peel: no report, a sensor failed:", self._words(faults))
        lasting = [fault if self._outages.lasts(place) else "" for place, fault in enumerate(self._faults)]
        self.failing = self._words(lasting)
        return self._readings if possible else None

    def _try(self, place: int) -> bool:
        """Read a sensor and write the integers of its questions. Return whether it works."""
        given: "list[Any]" = []
        try:
            given.append(self._sensors[place]())
            for attribute in self._about[place]:
                attribute.answer(self._readings, given[0], self._edges[place])
        except Exception as error:  # a driver may be user code and raise anything
            self._faults[place] = _fault(error, given)
            self._outages.count(place, False)
            return False
        self._outages.count(place, True)
        if not self._outages.lasts(place):
            self._faults[place] = ""
        elif not self._faults[place]:
            self._faults[place] = "it failed before"
        return True

    def _leave_out(self, place: int, works: bool, number: int) -> None:
        """Write "no reading" for all questions about a reading in an outage."""
        if self._outages.leaves_out(place, works, number):
            self.incomplete = True
            for attribute in self._about[place]:
                attribute.leave_out(self._readings)

    def _words(self, faults: list[str]) -> str:
        """Return the names of the sensors with a fault, and the faults too if there is room."""
        found = [(self._names[place], fault) for place, fault in enumerate(faults) if fault]
        text = ", ".join(["%s: %s" % each for each in found])
        if len(text) > FAULT_MAX and len(found) > 1:
            text = ", ".join([name for name, _ in found])
        return text[:FAULT_MAX]


def _fault(error: Exception, given: "list[Any]") -> str:
    """Describe a failure without a reading. An error's text, or a value of a wrong type, could contain one."""
    if not given:
        number = error.args[0] if isinstance(error, OSError) and error.args else None
        return type(error).__name__ + (" %d" % number if isinstance(number, int) else "")
    (value,) = given
    if value is None or (isinstance(value, float) and value != value):
        return "it gave %s" % value
    return "it gave a %s, not a number" % type(value).__name__
