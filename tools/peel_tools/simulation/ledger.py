# SPDX-License-Identifier: MIT
"""Report numbers of many simulated devices at once, taken as the firmware takes them: in blocks, within the quota, never twice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core import Profile

__all__ = ["Ledger"]

Ints = npt.NDArray[np.int64]
_BLOCK_MAX = 32


class Ledger:
    """The numbers of the devices of one profile.

    Parameters
    ----------
    reserved : int64, shape (D,)
        Numbers spent so far. After a crash the rest of a block is lost, as after a power cut.
    now : float
        Seconds on any clock that runs forward. A new device starts with its quota saved up, one that continues with nothing.
    """

    def __init__(self, profile: Profile, reserved: Ints, now: float) -> None:
        self.block = min(_BLOCK_MAX, max(1, profile.quota // 8))
        # A block that was paid for may still hold block - 1 numbers: the burst that this allows is to stay within the quota.
        self._depth = float(profile.quota - self.block + 1)
        self._rate = profile.quota / profile.period
        self._tokens = np.where(reserved == 0, self._depth, 0.0)
        self._filled = now
        self.reserved = reserved.copy()
        self.next = reserved + 1

    def refill(self, now: float) -> None:
        """Let time pass."""
        self._tokens = np.minimum(self._depth, self._tokens + self._rate * (now - self._filled))
        self._filled = now

    def able(self, count: int) -> npt.NDArray[np.bool_]:
        """Which devices may take `count` numbers now, bool[D]."""
        return np.asarray(self._tokens >= self._cost(count))

    def _cost(self, count: int) -> Ints:
        short = np.maximum(count - (self.reserved - self.next + 1), 0)
        return np.asarray(-(-short // self.block) * self.block)

    def take(self, slots: Ints, count: int) -> Ints:
        """Take `count` numbers for each of some distinct devices that are able to, int64[len(slots), count]."""
        cost = self._cost(count)[slots]
        self._tokens[slots] -= cost
        self.reserved[slots] += cost
        first = self.next[slots]
        self.next[slots] += count
        return np.asarray(first[:, None] + np.arange(count))

    def cut_power(self, slots: Ints) -> None:
        """Lose what is left of these devices' blocks."""
        self.next[slots] = self.reserved[slots] + 1
