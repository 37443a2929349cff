# SPDX-License-Identifier: MIT
"""A partition: the lanes of a fleet that one pipeline receives, screens and stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core.topics import LANES, fleet_topic, lane_of

__all__ = ["Partition"]

_LANE_NAMES = tuple(map(lane_of, range(LANES)))


@dataclass(frozen=True)
class Partition:
    """The lanes that leave `number` when divided by `of`, a power of two up to the number of lanes.

    >>> Partition(3, 16).lanes
    (3, 19, 35, 51)
    """

    number: int = 0
    of: int = 1

    def __post_init__(self) -> None:
        if self.of < 1 or LANES % self.of:
            raise ValueError(f"{self.of} partitions: the {LANES} lanes can be dealt to 1, 2, 4 … {LANES} partitions")
        if not 0 <= self.number < self.of:
            raise ValueError(f"partition {self.number} of {self.of}: they are counted from 0")

    @property
    def whole(self) -> bool:
        """Whether it is the whole fleet."""
        return self.of == 1

    @property
    def first(self) -> bool:
        """Whether its owner also does what is done once per fleet."""
        return self.number == 0

    @property
    def lanes(self) -> tuple[int, ...]:
        return tuple(range(self.number, LANES, self.of))

    def has(self, devices: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Return True for each device id in this partition, bool[D]."""
        return np.asarray(devices % self.of == self.number)

    def receives(self, topic: str) -> bool:
        """Whether a report on this topic belongs to it. A topic without a lane belongs to the first partition.

        >>> Partition(3, 16).receives("peel/v1/plant-7/13/00000013/report")
        True
        """
        lane = next(iter(topic.split("/")[3:]), "")
        return _LANE_NAMES.index(lane) in self.lanes if lane in _LANE_NAMES else self.first

    def filters(self, fleet: str, about: str) -> Sequence[str]:
        """Return the topic filters for one last level of its devices' topics.

        >>> Partition(63, 64).filters("plant-7", "report")
        ['peel/v1/plant-7/3f/+/report']
        """
        lanes = ["+"] if self.whole else [f"{lane:02x}" for lane in self.lanes]
        return [fleet_topic(fleet, lane, "+", about) for lane in lanes]

    def session(self, name: str) -> str:
        """Return the name of its broker session, from that of the whole fleet. A client that connects with it ousts the former one."""
        return name if self.whole else f"{name}-{self.number}-of-{self.of}"
