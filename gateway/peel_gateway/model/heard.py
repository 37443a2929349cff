# SPDX-License-Identifier: MIT
"""Heard: which devices have sent something that opened under their keys, and how far back it reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

__all__ = ["Heard"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Heard:
    """Devices, each once, ascending."""

    device: Ints
    lowest: Ints
    """The lowest number that was heard of each."""

    @classmethod
    def nothing(cls) -> Self:
        """No device."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))

    @classmethod
    def of(cls, device: Ints, number: Ints) -> Self:
        """Collect reports, given by device and number, int64[N]."""
        devices, at = np.unique(device, return_inverse=True)
        lowest = np.full(len(devices), np.iinfo(np.int64).max)
        np.minimum.at(lowest, at, number)
        return cls(devices, lowest)

    def joined(self, other: Heard) -> Heard:
        """This and more."""
        return Heard.of(np.concatenate([self.device, other.device]), np.concatenate([self.lowest, other.lowest]))

    def only(self, chosen: Bools) -> Heard:
        """Some of the devices, bool[D]."""
        return Heard(self.device[chosen], self.lowest[chosen])
