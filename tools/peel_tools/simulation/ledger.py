# SPDX-License-Identifier: MIT
"""Report numbers of many simulated devices at once, taken as the firmware takes them: in blocks, within the quota, never twice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core import Profile

__all__ = ["Ledger"]

Ints = npt.NDArray[np.int64]
_BLOCK_MAX = 32
_TICK_SECONDS = 0.001
_NUMBER_MAX = 2**48 - 1


class Ledger:
    """The numbers of the devices of one profile.

    Parameters
    ----------
    reserved : int64, shape (D,)
        Numbers spent so far. After a crash the rest of a block is lost, as after a power cut.
    now : float
        Seconds on any clock that runs forward. A new device starts with a full bucket, one that continues with an empty one.
    """

    def __init__(self, profile: Profile, reserved: Ints, now: float) -> None:
        self.block = min(_BLOCK_MAX, (profile.burst + 1) // 2)
        # The rest of a block that was paid for is part of the burst, too.
        self._depth = float(profile.burst - self.block + 1)
        self._rate = (profile.quota + 1 - profile.burst) / (profile.period + _TICK_SECONDS)
        self._tokens = np.where(reserved == 0, self._depth, 0.0)
        self._filled = now
        self._last = profile.lifetime or _NUMBER_MAX
        self.reserved = reserved.copy()
        self.next = reserved + 1

    def refill(self, now: float) -> None:
        """Let time pass."""
        self._tokens = np.minimum(self._depth, self._tokens + self._rate * (now - self._filled))
        self._filled = now

    def able(self, count: int) -> npt.NDArray[np.bool_]:
        """Which devices may take `count` numbers now, bool[D]."""
        return np.asarray((self._tokens >= self._short(count)) & (self.next + count - 1 <= self._last))

    def _short(self, count: int) -> Ints:
        return np.asarray(np.maximum(count - (self.reserved - self.next + 1), 0))

    def take(self, slots: Ints, count: int) -> Ints:
        """Take `count` numbers for each of some distinct devices that are able to, int64[len(slots), count]."""
        whole_blocks = -(-self._short(count)[slots] // self.block) * self.block
        payable = np.minimum(self._tokens[slots].astype(np.int64), self._last - self.reserved[slots])
        cost = np.minimum(whole_blocks, payable)
        self._tokens[slots] -= cost
        self.reserved[slots] += cost
        first = self.next[slots]
        self.next[slots] += count
        return np.asarray(first[:, None] + np.arange(count))

    def cut_power(self, slots: Ints) -> None:
        """Lose what is left of these devices' blocks."""
        self.next[slots] = self.reserved[slots] + 1
