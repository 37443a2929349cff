# SPDX-License-Identifier: MIT
"""Sampling:

physical readings to the integers that the core takes (SPEC section 6). A failed sensor skips the report. What a working
sensor says never does: the count of skipped reports is published, and must not tell a reading. So every number, infinite
ones too, is clamped to the range or to a declared category, and a name that is not declared counts as the last category.
"""

from peel_device import sensors
from peel_device.config import HARMONY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from peel_device.config import Config, Profile
    from peel_device.interfaces import Board

READING_ONE = 1 << 15


def to_q15(value: float, low: float, high: float) -> int:
    """Scale a reading in [low, high] to Q15, clamped. Raises ValueError for NaN."""
    if value != value:
        raise ValueError("the reading is not a number")
    if value <= low:
        return -READING_ONE
    if value >= high:
        return READING_ONE
    return round(READING_ONE * (2 * value - low - high) / (high - low))


def to_category(value: "Any", categories: list[str], edges: "list[float] | None") -> int:
    """The index of a category given by name, by index, or by where a number lies between edges.

    Anything else becomes the nearest index, or for an unknown name the last one. Raises ValueError for NaN.
    """
    last = len(categories) - 1
    if isinstance(value, str):
        return categories.index(value) if value in categories else last
    if value != value:
        raise ValueError("the reading is not a number")
    if edges is not None:
        return sum(1 for edge in edges if value >= edge)
    nearest: int = round(min(max(value, 0), last))
    return nearest


class Sampler:
    """Reads all sensors of the profile at once."""

    def __init__(self, config: "Config", board: "Board") -> None:
        self._profile: "Profile" = config.profile
        self._edges = [config.sensors[name].get("edges") for name in config.profile.names]
        self._sensors = [sensors.make(config.sensors[name], board) for name in config.profile.names]
        self.failed = 0

    def read(self) -> list[int] | None:
        """Return the readings in the order of the profile, or None (and count it) if any sensor failed."""
        try:
            return [self._convert(index, sensor()) for index, sensor in enumerate(self._sensors)]
        except (OSError, ValueError, TypeError) as error:
            self.failed += 1
            print("peel: no report, a sensor failed:", _kind(error))
            return None

    def _convert(self, index: int, value: "Any") -> int:
        profile = self._profile
        if profile.mechanism == HARMONY:
            low, high = profile.ranges[index]
            return to_q15(value, low, high)
        return to_category(value, profile.categories, self._edges[index])


def _kind(error: Exception) -> str:
    """The error's type only: its text could hold a reading."""
    return type(error).__name__
