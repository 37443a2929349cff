# SPDX-License-Identifier: MIT
"""Freshness: which numbers are new, which come again, and how far numbers may have advanced."""

from __future__ import annotations

import enum

import numpy as np
import numpy.typing as npt

from peel_gateway.model.pace import RATE_SLACK

__all__ = ["UNKNOWN_ALLOWANCE", "Repeat", "backlog", "last_allowed", "rebased", "repeats"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

UNKNOWN_ALLOWANCE = 1024
"""Numbers granted at first contact to a device of which nobody knows when it began: what its outbox may hold."""

_NUMBER_MAX = 2**48 - 1


class Repeat(enum.IntEnum):
    """How a report relates to what came before under its number."""

    FRESH = 0
    SAME = 1
    OTHER = 2


def last_allowed(first_number: Ints, elapsed: Ints, quota: Ints, period: Ints, allowance: Ints | int) -> Ints:
    """The largest number that each device may have reached.

    ::

        first_number + allowance + quota + 1.1 quota elapsed / period

    A device takes at most `quota` numbers in any window of `period` seconds, skipped ones included, an eighth of them at once
    (specification, section 10); the rest of the first quota was on its way. What it was entitled to while it was offline it may
    deliver at once, however long that was. So the bound has no cap.

    Parameters
    ----------
    first_number : int64, shape (N,)
        A number that the device had not passed at some moment.
    elapsed : int64, shape (N,)
        Milliseconds since that moment; negative counts as 0.
    quota, period : int64, shape (N,)
        Numbers per period, seconds.
    allowance : int or int64, shape (N,)
        Numbers granted once per device beyond its quota.
    """
    earned = np.floor(RATE_SLACK * quota * np.maximum(elapsed, 0).astype(np.float64) / (1000.0 * period))
    earned = np.minimum(earned, _NUMBER_MAX).astype(np.int64)
    return np.asarray(np.minimum(first_number + allowance + quota + earned, _NUMBER_MAX))


def backlog(accounted: Ints, elapsed: Ints, quota: Ints, period: Ints) -> Ints:
    """How many numbers more each device can have used: in the milliseconds since its enrolment, or for what an outbox holds.

    Like all others int64, shape (N,); `accounted` is how many came, or may still come.
    """
    made = last_allowed(np.zeros_like(accounted), elapsed, quota, period, UNKNOWN_ALLOWANCE)
    return np.asarray(np.maximum(made - accounted, UNKNOWN_ALLOWANCE))


def rebased(first_number: Ints, elapsed: Ints, old: tuple[Ints, Ints], new: tuple[Ints, Ints]) -> Ints:
    """References for buckets whose (quota, period) changes now: nothing that could be reached until now is taken away.

    When the device itself changed is not known, so the time until now counts at the better rate.
    """
    reached = [last_allowed(first_number, elapsed, *rate, allowance=0) for rate in (old, new)]
    return np.asarray(np.maximum(*reached) - new[0])


def repeats(device: Ints, number: Ints, body: Ints, logged: Bools, logged_body: Ints) -> Ints:
    """Compare each report with the log and with the reports before it in the batch.

    Parameters
    ----------
    device, number, body : int64, shape (N,)
        Sorted by device and number; equal ones in order of arrival.
    logged, logged_body : shape (N,)
        Whether the log has this device and number, and the body it has.

    Returns
    -------
    int64, shape (N,)
        `Repeat` codes: exactly one report of those that share a new number is FRESH, the first.
    """
    starts = np.ones(len(device), np.bool_)
    starts[1:] = (device[1:] != device[:-1]) | (number[1:] != number[:-1])
    if starts.all() and not logged.any():
        return np.full(len(device), int(Repeat.FRESH))
    leader = np.flatnonzero(starts)[np.cumsum(starts) - 1]
    reference = np.where(logged, logged_body, body[leader])
    result = np.where(body == reference, int(Repeat.SAME), int(Repeat.OTHER))
    result[starts & ~logged] = Repeat.FRESH
    return result
