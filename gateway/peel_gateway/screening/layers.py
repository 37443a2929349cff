# SPDX-License-Identifier: MIT
"""The layers as functions on arrays: each looks at the reports that no layer before it objected to.

All arrays have one entry per report. A verdict of `OPEN` means that no layer has objected yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import CODE_NAMES, Opened, Profile
from peel_core.frame import FLAG_UNSEALED
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.decode_context import Codewords

__all__ = [
    "OPEN",
    "Decoded",
    "Policy",
    "among",
    "authenticated",
    "by_verdict",
    "decode",
    "judge_content",
    "judge_front",
    "object_to",
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
    values, times = np.unique(verdicts, return_counts=True)
    return {Verdict(int(value)): int(count) for value, count in zip(values, times, strict=True)}


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

    Support judges codewords: what is no codeword at all has no attribute, and is left to structure.
    """
    verdicts = verdicts.copy()
    unpacked = opened.code == 0  # the core gives out nothing of a report whose trits no encoder packs
    codeword = unpacked & (decoded.residual <= residual_limit)
    for position, profile in enumerate(profiles):
        mine = (verdicts == OPEN) & (opened.profile == position)
        if not mine.any():
            continue
        expected = opened.index.astype(np.int64)
        supported = mechanism_of(profile).supported(profile, expected, decoded.index, decoded.sign)
        object_to(verdicts, mine & unpacked & (opened.rule != profile.rule), Verdict.RULE)
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
