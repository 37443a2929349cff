# SPDX-License-Identifier: MIT
"""Sampling: read all sensors and convert them to the core's integers. If a sensor fails, the report is skipped."""

from peel_device import sensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from peel_device.config import Config
    from peel_device.interfaces import Board

FAULT_MAX = 80  # characters that the gateway takes
LASTING = 3  # this many failures in a row, after a success, are more than a glitch


class Sampler:
    """Reads all sensors of the profile."""

    def __init__(self, config: "Config", board: "Board") -> None:
        self._subject = config.profile.subject
        self._edges = [config.sensors[name].get("edges") for name in self._subject.names]
        self._sensors = sensors.make_all([config.sensors[name] for name in self._subject.names], board)
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
