# SPDX-License-Identifier: MIT
"""The settings that decide verdicts."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Policy"]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What the operator has chosen; the engine's docs say what each means."""

    residual_limit: float
    alpha: float
    withdraw_faulty: bool
    number_allowance: int
    bucket_seconds: int
