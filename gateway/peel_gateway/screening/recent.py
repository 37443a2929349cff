# SPDX-License-Identifier: MIT
"""Recent: the bodies of the last reports that were logged, so that a number that comes again can be compared.

The same body is a redelivery, another one a number used twice. What is older than this window was seen too (`seen`), and is refused
without blame, whatever it is. The window is one for all devices, so whoever is busy shortens it for all; nobody is blamed for that.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["WINDOW", "Recent"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

WINDOW = 2**18
"""Reports, 7 MB: seven hours at ten a second, four minutes at a thousand; far more than brokers and outboxes hold back."""

_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
"""Odd numbers: two reports have the same key seldom, and are compared in full."""


class Recent:
    """A ring of reports; empty places have device 0, which no report has."""

    def __init__(self, room: int) -> None:
        self._key = np.zeros(room, np.uint64)
        self._device = np.zeros(room, np.uint32)
        self._number = np.zeros(room, np.uint64)
        self._body = np.zeros(room, np.int64)
        self._next = 0

    def note(self, device: Ints, number: Ints, body: Ints) -> None:
        """Remember reports, in order; the oldest are forgotten. All int64[N]."""
        kept = slice(max(0, len(device) - len(self._key)), None)
        places = (self._next + np.arange(len(device))[kept]) % len(self._key)
        self._key[places] = _keys(device[kept], number[kept])
        self._device[places] = device[kept]
        self._number[places] = number[kept]
        self._body[places] = body[kept]
        self._next = (self._next + len(device)) % len(self._key)

    def find(self, device: Ints, number: Ints) -> tuple[Bools, Ints]:
        """Which reports are remembered, and their bodies (0 where not): bool[N] and int64[N]."""
        known, body = np.zeros(len(device), np.bool_), np.zeros(len(device), np.int64)
        if not len(device):
            return known, body
        keys = _keys(device, number)
        places = np.flatnonzero(np.isin(self._key, keys))
        order = places[np.argsort(self._key[places], kind="stable")]
        first, last = (np.searchsorted(self._key[order], keys, side) for side in ("left", "right"))
        for offset in range(int((last - first).max())):  # once, but for equal keys of different reports
            place = order[np.minimum(first + offset, len(order) - 1)]
            same = (first + offset < last) & (self._device[place] == device) & (self._number[place] == number)
            known |= same
            body[same] = self._body[place[same]]
        return known, body


def _keys(device: Ints, number: Ints) -> npt.NDArray[np.uint64]:
    return np.asarray(device.astype(np.uint64) * _MIX[0] + number.astype(np.uint64) * _MIX[1])
