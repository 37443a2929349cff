# SPDX-License-Identifier: MIT
"""What a receipt states about a device's numbers (specification, section 11).

A number is settled once it was used, with whatever verdict, or was given up: that is everything up to `last_number` but for the holes.
A receipt has room for a few runs. Where a device has more, it is told of those from the lowest number that was heard since its last
receipt, upwards, and of the highest ones. So whatever a device sends again is answered: the lowest of it with the next receipt, the rest
once the device has dropped that; and somebody who keeps replaying old reports cannot keep it from hearing about its newest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core.receipts import MAX_RUNS
from peel_gateway.screening.seen import NO_HOLES, Seen, holes_of

__all__ = ["Statement", "statement_of"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Statement:
    """What receipts say, as `peel_core.receipts.write_receipts` takes it."""

    upto: Ints
    """Every number up to this one, int64[T]."""
    runs: Ints
    """Runs above, first and last number, device after device, int64[R, 2]."""
    run_ends: Ints
    """Where each device's runs end, int64[T]."""


def statement_of(seen: Seen, lowest: Ints) -> Statement:
    """What to tell some devices.

    Parameters
    ----------
    seen : Seen
        What they have used, one entry per device.
    lowest : int64, shape (T,)
        The lowest number that was heard of each since its last receipt.
    """
    upto, counts, told = seen.last_number.copy(), np.zeros(len(lowest), np.int64), []
    for device in np.flatnonzero(seen.holes != NO_HOLES).tolist():
        holes = holes_of(seen.holes[device])
        upto[device] = holes[0, 0] - 1
        runs = np.stack([holes[:, 1] + 1, np.append(holes[1:, 0] - 1, seen.last_number[device])], axis=1)
        told.append(_chosen(runs, int(lowest[device])))
        counts[device] = len(told[-1])
    return Statement(upto, np.concatenate([np.zeros((0, 2), np.int64), *told]), np.cumsum(counts))


def _chosen(runs: Ints, lowest: int) -> Ints:
    """At most `MAX_RUNS` of a device's runs: half of them from the one that has this number, half of them the last ones."""
    half = MAX_RUNS // 2
    begin = min(int(np.searchsorted(runs[:, 1], lowest)), max(0, len(runs) - MAX_RUNS))
    return np.concatenate([runs[begin : begin + half], runs[begin + half :][-half:]])
