# SPDX-License-Identifier: MIT
"""The numbers that a device has used, in a few bytes, whatever the log still holds.

Devices count upwards, so what was seen is nearly everything: every number above `low_water` and up to `last_number`, but for the *holes*
between. A lossless device has none. A hole closes as its numbers come, however late. Of one device `MOST_HOLES` are kept; when there are
more, the lowest is given up: `low_water` rises to its end, and what comes from it is refused without blame (`stale`).

No number can ever count twice: whatever is not above `last_number` and not in a hole was seen, or given up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from peel_core.receipts import MAX_RUNS
from peel_gateway.model.tables import NO_HOLES, DeviceStates, Positions

__all__ = [
    "CHUNK",
    "LIMIT",
    "MOST_HOLES",
    "WINDOW",
    "AckRanges",
    "UsedNumbers",
    "ack_ranges_of",
    "enter",
    "give_up",
    "holes_of",
    "missing",
    "pack_holes",
    "settle_to",
    "unseen",
    "used",
    "used_numbers",
    "with_used",
]

Ints = npt.NDArray[np.int64]

Bools = npt.NDArray[np.bool_]

Objects = npt.NDArray[np.object_]

MOST_HOLES = 1024
"""Holes that are kept of one device: more than an outbox of as many frames can leave."""


@dataclass(frozen=True)
class UsedNumbers:
    """The numbers that devices have used, one entry per device."""

    low_water: Ints
    last_number: Ints
    holes: Objects
    """Packed, see `holes_of`."""
    forgone: Ints
    """Numbers that went with the holes that were given up."""


def used_numbers(states: DeviceStates) -> UsedNumbers:
    """Return the numbers that devices have used, from their states."""
    return UsedNumbers(states.low_water, states.last_number, states.holes, states.forgone)


def with_used(states: DeviceStates, seen: UsedNumbers) -> DeviceStates:
    """Return the states with other used numbers."""
    return states.changed(
        low_water=seen.low_water, last_number=seen.last_number, holes=seen.holes, forgone=seen.forgone
    )


def holes_of(packed: bytes) -> Ints:
    """The holes of a device as first and last numbers, int64[H, 2]: ascending, apart from each other."""
    return np.frombuffer(packed, "<i8").reshape(-1, 2).astype(np.int64, copy=False)


def pack_holes(holes: Ints) -> bytes:
    """The inverse of `holes_of`."""
    return holes.astype("<i8", copy=False).tobytes()


def used(seen: UsedNumbers) -> Ints:
    """Return the count of numbers that each device has used, int64[D]."""
    count = seen.last_number - seen.forgone
    for device in np.flatnonzero(seen.holes != NO_HOLES).tolist():
        holes = holes_of(seen.holes[device])
        count[device] -= (holes[:, 1] - holes[:, 0] + 1).sum()
    return count


def unseen(seen: UsedNumbers, at: Positions, number: Ints) -> Bools:
    """Return True for each number that was never used and may still come.

    Parameters
    ----------
    at, number : int64, shape (N,)
        Position among the devices, and the number.
    """
    result = np.asarray(number > seen.last_number[at])
    late = ~result & (number > seen.low_water[at]) & (seen.holes[at] != NO_HOLES)
    for device in np.unique(at[late]).tolist():
        rows = np.flatnonzero(late & (at == device))
        holes = holes_of(seen.holes[device])
        place = np.maximum(np.searchsorted(holes[:, 0], number[rows], side="right") - 1, 0)
        result[rows] = (holes[place, 0] <= number[rows]) & (number[rows] <= holes[place, 1])
    return result


def enter(seen: UsedNumbers, at: Positions, number: Ints, most_holes: int = MOST_HOLES) -> UsedNumbers:
    """Use numbers that are `unseen`, each once.

    A device whose numbers simply go on needs no look at its holes; that is all of them, most of the time.
    """
    count = np.bincount(at, minlength=len(seen.last_number))
    lowest, highest = np.full(len(count), np.iinfo(np.int64).max), seen.last_number.copy()
    np.minimum.at(lowest, at, number)
    np.maximum.at(highest, at, number)
    going_on = (lowest == seen.last_number + 1) & (highest == seen.last_number + count)
    others = np.flatnonzero((count > 0) & ~going_on).tolist()
    if not others:
        return replace(seen, last_number=highest)
    low_water, holes, forgone = seen.low_water.copy(), seen.holes.copy(), seen.forgone.copy()
    order = np.lexsort((number, at))
    ends = np.cumsum(count)
    for device in others:
        numbers = number[order[ends[device] - count[device] : ends[device]]]
        pieces = _holes_after(holes_of(holes[device]), int(seen.last_number[device]), numbers)
        holes[device], given_up = pack_holes(pieces[-most_holes:]), pieces[:-most_holes]
        if len(given_up):
            low_water[device] = given_up[-1, 1]
            forgone[device] += (given_up[:, 1] - given_up[:, 0] + 1).sum()
    return UsedNumbers(low_water, highest, holes, forgone)


def give_up(seen: UsedNumbers, first: Ints, last: Ints) -> UsedNumbers:
    """Give up the numbers from `first` to `last` that are above every number seen: they never come, as if all below had been passed.

    Parameters
    ----------
    first, last : int64, shape (D,)
        Per device; nothing is given up where `last` is below `first` or was seen.
    """
    start = np.maximum(first, seen.last_number + 1)
    given_up = np.maximum(last - start + 1, 0)
    holes = seen.holes.copy()
    for device in np.flatnonzero((given_up > 0) & (start > seen.last_number + 1)).tolist():
        holes[device] += pack_holes(np.array([[seen.last_number[device] + 1, start[device] - 1]]))
    last_number = np.where(given_up > 0, last, seen.last_number)
    return replace(seen, last_number=last_number, holes=holes, forgone=seen.forgone + given_up)


def _holes_after(holes: Ints, last_number: int, numbers: Ints) -> Ints:
    """The holes of a device that has used some ascending numbers."""
    if numbers[-1] > last_number:
        holes = np.append(holes, [[last_number + 1, numbers[-1]]], axis=0)
    # Each number cuts the hole that it is in: it is the end of one piece and the beginning of the next.
    first = np.sort(np.concatenate([holes[:, 0], numbers + 1]))
    last = np.sort(np.concatenate([numbers - 1, holes[:, 1]]))
    return np.stack([first, last], axis=1)[first <= last]


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
        As `pack_holes` packs them.
    """
    devices, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for at in np.flatnonzero(holes != NO_HOLES).tolist():
        first = max(int(above[at]), int(upto[at]) - LIMIT) + 1
        spans = np.clip(holes_of(holes[at]), [first, 0], [2**62, int(upto[at])])
        spans = spans[spans[:, 0] <= spans[:, 1]]
        numbers += [np.arange(low, high + 1) for low, high in spans.tolist()]
        devices.append(np.full((spans[:, 1] - spans[:, 0] + 1).sum(), device[at]))
    return np.concatenate(devices), np.concatenate(numbers)


@dataclass(frozen=True)
class AckRanges:
    """The ranges of numbers that receipts acknowledge, as `peel_core.receipts.write_receipts` takes them."""

    upto: Ints
    """Every number up to this one, int64[T]."""
    runs: Ints
    """Runs above, first and last number, device after device, int64[R, 2]."""
    run_ends: Ints
    """The index at which each device's runs end, int64[T]."""


def ack_ranges_of(seen: UsedNumbers, lowest: Ints) -> AckRanges:
    """Return the ranges to acknowledge to some devices.

    Parameters
    ----------
    seen : UsedNumbers
        One entry per device.
    lowest : int64, shape (T,)
        The lowest number that was received of each since its last receipt.
    """
    upto, counts, told = seen.last_number.copy(), np.zeros(len(lowest), np.int64), []
    for device in np.flatnonzero(seen.holes != NO_HOLES).tolist():
        holes = holes_of(seen.holes[device])
        upto[device] = holes[0, 0] - 1
        runs = np.stack([holes[:, 1] + 1, np.append(holes[1:, 0] - 1, seen.last_number[device])], axis=1)
        told.append(_chosen(runs, int(lowest[device])))
        counts[device] = len(told[-1])
    return AckRanges(upto, np.concatenate([np.zeros((0, 2), np.int64), *told]), np.cumsum(counts))


def _chosen(runs: Ints, lowest: int) -> Ints:
    """At most `MAX_RUNS` of a device's runs: half of them from the one that has this number, half of them the last ones."""
    half = MAX_RUNS // 2
    begin = min(int(np.searchsorted(runs[:, 1], lowest)), max(0, len(runs) - MAX_RUNS))
    return np.concatenate([runs[begin : begin + half], runs[begin + half :][-half:]])
