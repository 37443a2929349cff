# SPDX-License-Identifier: MIT
"""Gaps: numbers that never came.

The attribute of a missing number is known to the gateway, and to the device. Honest loss does not know it, so the attributes of
missing numbers are uniform; a device that keeps back what does not suit it leaves gaps that are not. Each number is settled once,
as present or missing, at a moment that depends on numbers alone; what comes later still counts, and is evidence of its own (`bets`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["CHUNK", "LIMIT", "WINDOW", "missing", "settle_to"]

Ints = npt.NDArray[np.int64]

WINDOW = 16
"""Numbers this close to the largest one are still expected: deliveries overtake each other after a reconnect."""
CHUNK = 16
"""Settle this many at least, to look into the log seldom."""
LIMIT = 1024
"""Most numbers examined per device and batch; of a longer jump only the last ones are, whatever they assign."""


def settle_to(settled: Ints, last_number: Ints) -> Ints:
    """Up to where each device's numbers are to be settled now; unchanged where it is not worth it yet."""
    due = last_number - settled >= WINDOW + CHUNK
    return np.asarray(np.where(due, last_number - WINDOW, settled))


def missing(device: Ints, above: Ints, upto: Ints, seen_device: Ints, seen_number: Ints) -> tuple[Ints, Ints]:
    """Return (device, number) of all numbers in (above, upto] that were not seen, the last `LIMIT` of each device.

    Parameters
    ----------
    device, above, upto : int64, shape (D,)
        Distinct devices.
    seen_device, seen_number : int64, shape (S,)
        Reports in the log and in the batch, in any order.
    """
    above = np.maximum(above, upto - LIMIT)
    spans = np.maximum(upto - above, 0)
    starts = np.cumsum(spans) - spans
    devices = np.repeat(device, spans)
    numbers = np.repeat(above + 1 - starts, spans) + np.arange(len(devices))
    seen = np.zeros(len(devices), np.bool_)
    order = np.argsort(device)
    where = np.searchsorted(device, seen_device, sorter=order) if len(device) else np.zeros(0, np.int64)
    known = where < len(device)
    owner = order[where[known]]
    offset = seen_number[known] - above[owner] - 1
    inside = (device[owner] == seen_device[known]) & (offset >= 0) & (offset < spans[owner])
    seen[(starts[owner] + offset)[inside]] = True
    return devices[~seen], numbers[~seen]
