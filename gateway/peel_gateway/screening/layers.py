# SPDX-License-Identifier: MIT
"""The layers as functions on arrays: each looks at the reports that no layer before it objected to.

All arrays have one entry per report. A verdict of `OPEN` means that no layer has objected yet. The second half is freshness: which numbers
are new, which come again, and how far numbers may have advanced.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import CODE_NAMES, Opened, Profile
from peel_core.frame import FLAG_UNSEALED
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.gateway_time import RATE_SLACK
from peel_gateway.model.grouping import rows_where
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.decode_context import Codewords

__all__ = [
    "OPEN",
    "UNKNOWN_ALLOWANCE",
    "WINDOW",
    "Decoded",
    "Policy",
    "RecentReports",
    "Repeat",
    "among",
    "authenticated",
    "backlog",
    "by_verdict",
    "decode",
    "judge_content",
    "judge_front",
    "last_allowed",
    "object_to",
    "rebased",
    "repeats",
]

Ints = npt.NDArray[np.int64]

Bools = npt.NDArray[np.bool_]

Floats = npt.NDArray[np.float32]

OPEN = -1

_CODES = {name: code for code, name in CODE_NAMES.items()}

_E_DEVICE, _E_PROFILE, _E_UNSEALED, _E_SEAL = (_CODES[name] for name in ("device", "profile", "unsealed", "seal"))

_MALFORMED = np.ones(1 - min(CODE_NAMES), np.bool_)

_MALFORMED[[0, *(-code for code in (_E_DEVICE, _E_PROFILE, _E_UNSEALED, _E_SEAL, _CODES["trits"]))]] = False
"""Codes of the core, negated, that mean no more than `malformed`."""


def among(verdicts: Iterable[Verdict]) -> Bools:
    """A table that tells which verdicts of an array are among these: `table[array]`. `OPEN`, its last entry, is not."""
    table = np.zeros(len(Verdict) + 1, np.bool_)
    table[list(verdicts)] = True
    return table


def by_verdict(verdicts: Ints) -> dict[Verdict, int]:
    """Count verdicts; those that do not occur are absent."""
    times = np.bincount(verdicts)
    return {Verdict(value): int(times[value]) for value in rows_where(times > 0).tolist()}


def object_to(verdicts: Ints, reports: Bools, verdict: Verdict) -> None:
    """Give these reports a verdict, unless a layer before has."""
    verdicts[reports & (verdicts == OPEN)] = verdict


def judge_front(opened: Opened, revoked: Bools) -> Ints:
    """Parse, device, profile, revocation, seal.

    Parameters
    ----------
    revoked : bool, shape (N,)
        Whether the device that the report names has been revoked.

    Returns
    -------
    int64, shape (N,)
        Verdicts; `OPEN` for reports whose seal verified, and for unsealed ones that are acceptable. Those alone say anything about
        a device.
    """
    code = opened.code
    verdicts = np.full(len(opened), OPEN, np.int64)
    if not code.any() and not revoked.any():
        return verdicts
    object_to(verdicts, _MALFORMED[-code] | ((code == _E_DEVICE) & (opened.device == 0)), Verdict.MALFORMED)
    object_to(verdicts, (code == _E_DEVICE) & ~revoked, Verdict.DEVICE)
    object_to(verdicts, code == _E_PROFILE, Verdict.PROFILE)
    object_to(verdicts, revoked, Verdict.REVOKED)
    object_to(verdicts, code == _E_UNSEALED, Verdict.UNSEALED)
    object_to(verdicts, code == _E_SEAL, Verdict.SEAL)
    return verdicts


def authenticated(opened: Opened, verdicts: Ints) -> Bools:
    """Return True for each open report whose seal verified."""
    return np.asarray((verdicts == OPEN) & ((opened.flags & FLAG_UNSEALED) == 0))


@dataclass(frozen=True)
class Decoded:
    """The reconstruction of each report; -1, 0 and infinity where there was nothing to reconstruct."""

    index: Ints
    sign: Ints
    residual: Floats


def decode(opened: Opened, codewords: Sequence[Codewords]) -> Decoded:
    """Reconstruct every report that opened; `codewords` are those of each profile."""
    index = np.full(len(opened), -1, np.int64)
    sign = np.zeros(len(opened), np.int64)
    residual = np.full(len(opened), np.inf, np.float32)
    for position, each in enumerate(codewords):
        each.decode(opened, position, index, sign, residual)
    return Decoded(index, sign, residual)


def judge_content(
    verdicts: Ints, opened: Opened, decoded: Decoded, profiles: Sequence[Profile], residual_limit: float
) -> Ints:
    """Rule, support, structure, on the reports still open; returns the new verdicts.

    Support judges codewords: what is no codeword at all has no attribute, and is left to structure. The codeword of the first unused
    column says that there is no reading (SPEC section 6.4); every number may be used for it.
    """
    verdicts = verdicts.copy()
    unpacked = opened.code == 0  # the core gives out nothing of a report whose trits no encoder packs
    codeword = unpacked & (decoded.residual <= residual_limit)
    for position, profile in enumerate(profiles):
        mine = (verdicts == OPEN) & (opened.profile == position)
        if not mine.any():
            continue
        unit = np.where(mine, opened.unit.astype(np.int64), 0)
        supported = questions_of(profile).supported(unit, decoded.index, decoded.sign)
        object_to(verdicts, mine & unpacked & (opened.rule != profile.rules(unit)), Verdict.RULE)
        supported |= (decoded.index == profile.k) & (decoded.sign > 0)
        object_to(verdicts, mine & codeword & ~supported, Verdict.SUPPORT)
        object_to(verdicts, mine & ~codeword, Verdict.STRUCTURE)
    return verdicts


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The operator's settings that decide verdicts; the engine's docs explain each."""

    residual_limit: float
    alpha: float
    withdraw_faulty: bool
    number_allowance: int
    bucket_seconds: int


UNKNOWN_ALLOWANCE = 1024
"""Numbers granted at first contact to a device of which nobody knows when it began: what its outbox may hold."""

_NUMBER_MAX = 2**48 - 1


class Repeat(enum.IntEnum):
    """A report compared with the earlier ones under its number."""

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
    """Return how many more numbers each device can have used: in the milliseconds since its enrolment, or as many as an outbox holds.

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
    leader = rows_where(starts)[np.cumsum(starts) - 1]
    reference = np.where(logged, logged_body, body[leader])
    result = np.where(body == reference, int(Repeat.SAME), int(Repeat.OTHER))
    result[starts & ~logged] = Repeat.FRESH
    return result


WINDOW = 2**18
"""Reports, 7 MB: seven hours at ten a second, four minutes at a thousand; far more than brokers and outboxes hold back."""

_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
"""Odd numbers: two reports have the same key seldom, and are compared in full."""


class RecentReports:
    """A ring of reports; empty places have device 0, which no report has."""

    def __init__(self, capacity: int) -> None:
        self._key = np.zeros(capacity, np.uint64)
        self._device = np.zeros(capacity, np.uint32)
        self._number = np.zeros(capacity, np.uint64)
        self._body = np.zeros(capacity, np.int64)
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
        """Return whether each report is remembered, and its body (0 if not): bool[N] and int64[N]."""
        known, body = np.zeros(len(device), np.bool_), np.zeros(len(device), np.int64)
        if not len(device):
            return known, body
        keys = _keys(device, number)
        places = rows_where(np.isin(self._key, keys))
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
