# SPDX-License-Identifier: MIT
"""Bets on how often each attribute or category comes, as all mechanisms use them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from peel_gateway.mechanisms.base import Family

__all__ = ["share_families"]

Ints = npt.NDArray[np.int64]


def share_families(name: str, events: Ints, most: float, not_least: float, weight: float) -> Iterator[Family]:
    """One attribute too often, or too seldom, among all; events int64[D, k]."""
    trials = np.broadcast_to(events.sum(axis=1, keepdims=True), events.shape)
    yield Family(f"{name}: too many", events, trials, most, weight)
    yield Family(f"{name}: too few", trials - events, trials, not_least, weight)
