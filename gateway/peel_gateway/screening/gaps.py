# SPDX-License-Identifier: MIT
"""Gaps: numbers that never came.

The attribute of a missing number is known to the gateway, and to the device. Honest loss does not know it, so the attributes of
missing numbers are uniform; a device that keeps back what does not suit it leaves gaps that are not. Each number is settled once,
as present or missing, at a moment that depends on numbers alone; what comes later still counts, and is evidence of its own (`bets`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_gateway.screening.seen import NO_HOLES, holes_of

__all__ = ["CHUNK", "LIMIT", "WINDOW", "missing", "settle_to"]

Ints = npt.NDArray[np.int64]

WINDOW = 16
"""Numbers this close to the largest one are still expected: deliveries overtake each other after a reconnect."""
CHUNK = 16
"""Settle this many at least: numbers that come one by one are settled together."""
LIMIT = 1024
"""Most numbers examined per device and batch; of a longer jump only the last ones are, whatever they assign."""


def settle_to(settled: Ints, last_number: Ints) -> Ints:
    """Up to where each device's numbers are to be settled now; unchanged where it is not worth it yet."""
    due = last_number - settled >= WINDOW + CHUNK
    return np.asarray(np.where(due, last_number - WINDOW, settled))


def missing(device: Ints, above: Ints, upto: Ints, holes: npt.NDArray[np.object_]) -> tuple[Ints, Ints]:
    """Return (device, number) of all numbers in (above, upto] that are in a device's holes, of its last `LIMIT` numbers.

    Parameters
    ----------
    device, above, upto : int64, shape (D,)
    holes : object, shape (D,)
        As `seen` packs them.
    """
    devices, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for at in np.flatnonzero(holes != NO_HOLES).tolist():
        first = max(int(above[at]), int(upto[at]) - LIMIT) + 1
        spans = np.clip(holes_of(holes[at]), [first, 0], [2**62, int(upto[at])])
        spans = spans[spans[:, 0] <= spans[:, 1]]
        numbers += [np.arange(low, high + 1) for low, high in spans.tolist()]
        devices.append(np.full((spans[:, 1] - spans[:, 0] + 1).sum(), device[at]))
    return np.concatenate(devices), np.concatenate(numbers)
