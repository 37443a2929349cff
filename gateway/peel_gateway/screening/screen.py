# SPDX-License-Identifier: MIT
"""The layers as functions on arrays: each looks at the reports that no layer before it objected to.

All arrays have one entry per report. A verdict of `OPEN` means that no layer has objected yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Opened, Profile
from peel_core.projection import reconstruct
from peel_gateway.screening.verdict import Verdict

__all__ = ["OPEN", "Decoded", "authenticated", "decode", "judge_content", "judge_front", "object_to"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]

OPEN = -1

E_DEVICE, E_PROFILE, E_UNSEALED, E_SEAL, E_TRITS = -6, -5, -8, -9, -10
"""Codes of the core (peel.h) that mean more than `malformed`."""
_FLAG_UNSEALED = 1


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
    later = np.isin(code, (0, E_DEVICE, E_PROFILE, E_UNSEALED, E_SEAL, E_TRITS))
    object_to(verdicts, ~later | ((code == E_DEVICE) & (opened.device == 0)), Verdict.MALFORMED)
    object_to(verdicts, (code == E_DEVICE) & ~revoked, Verdict.DEVICE)
    object_to(verdicts, code == E_PROFILE, Verdict.PROFILE)
    object_to(verdicts, revoked, Verdict.REVOKED)
    object_to(verdicts, code == E_UNSEALED, Verdict.UNSEALED)
    object_to(verdicts, code == E_SEAL, Verdict.SEAL)
    return verdicts


def authenticated(opened: Opened, verdicts: Ints) -> Bools:
    """Which open reports carry a seal that verified."""
    return np.asarray((verdicts == OPEN) & ((opened.flags & _FLAG_UNSEALED) == 0))


@dataclass(frozen=True)
class Decoded:
    """What reconstruction says about each report; -1, 0 and infinity where there was nothing to reconstruct."""

    index: Ints
    sign: Ints
    residual: Floats


def decode(opened: Opened, profiles: Sequence[Profile], gammas: Sequence[Floats]) -> Decoded:
    """Reconstruct every report that opened: one matrix product per profile."""
    index = np.full(len(opened), -1, np.int64)
    sign = np.zeros(len(opened), np.int64)
    residual = np.full(len(opened), np.inf, np.float32)
    for position, (profile, gamma) in enumerate(zip(profiles, gammas, strict=True)):
        rows = np.flatnonzero((opened.code == 0) & (opened.profile == position))
        if len(rows):
            trits = opened.trits[rows, : profile.width - 1]
            index[rows], sign[rows], residual[rows] = reconstruct(gamma, trits)
    return Decoded(index, sign, residual)


def judge_content(
    verdicts: Ints, opened: Opened, decoded: Decoded, profiles: Sequence[Profile], residual_limit: float
) -> None:
    """Rule, support, structure, on the reports still open.

    Support judges codewords: what is no codeword at all has no attribute, and is left to structure.
    """
    for position, profile in enumerate(profiles):
        mine = (verdicts == OPEN) & (opened.profile == position)
        if not mine.any():
            continue
        unpacked = opened.code == 0  # the core gives out nothing of a report whose trits no encoder packs
        codeword = unpacked & (decoded.residual <= residual_limit)
        object_to(verdicts, mine & unpacked & (opened.rule != profile.rule), Verdict.RULE)
        object_to(verdicts, mine & codeword & ~_supported(opened, decoded, profile), Verdict.SUPPORT)
        object_to(verdicts, mine & ~codeword, Verdict.STRUCTURE)


def _supported(opened: Opened, decoded: Decoded, profile: Profile) -> Bools:
    if profile.mechanism == "harmony":
        return np.asarray(decoded.index == opened.index)
    return np.asarray((decoded.index < profile.k) & (decoded.sign > 0))
