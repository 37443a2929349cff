# SPDX-License-Identifier: MIT
"""Sampling: all sensors at once, as the integers that the core takes. A sensor that fails, however, skips the report."""

from peel_device import sensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from peel_device.config import Config
    from peel_device.interfaces import Board


class Sampler:
    """Reads all sensors of the profile at once."""

    def __init__(self, config: "Config", board: "Board") -> None:
        self._subject = config.profile.subject
        self._edges = [config.sensors[name].get("edges") for name in self._subject.names]
        self._sensors = sensors.make_all([config.sensors[name] for name in self._subject.names], board)
        self.failed = 0

    def read(self) -> list[int] | None:
        """Return the readings in the order of the profile, or None (and count it) if any sensor failed."""
        try:
            return [self._subject.convert(i, sensor(), self._edges[i]) for i, sensor in enumerate(self._sensors)]
        except Exception as error:  # a driver may be the user's own code, and raise anything: one report is the price
            self.failed += 1
            print("peel: no report, a sensor failed:", _kind(error))
            return None


def _kind(error: Exception) -> str:
    """The error's type only: its text could hold a reading."""
    return type(error).__name__
