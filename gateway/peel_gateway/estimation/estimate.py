# SPDX-License-Identifier: MIT
"""Estimates from tallies: means and frequencies with 95% intervals, before and after withdrawal. The formulas are the mechanisms'."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.mechanisms.base import Figures
from peel_gateway.model.tables import TallyTable

__all__ = ["Estimate", "Estimates", "Figure", "estimate", "estimates"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Figure:
    """An estimate with its 95% interval; all None while there is no report to make it from."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One attribute (Harmony: mean in its unit) or category (kRR: share of the reports)."""

    name: str
    unit: str
    n: int
    """Reports behind the value."""
    published: Figure
    """The lower-variance estimate: this is the one to use."""
    plain: Figure
    """Horvitz-Thompson, for comparison; the same for kRR."""
    withdrawn: int
    """Reports that left because their device was exposed."""
    before: Figure
    """What `published` would be had they stayed."""


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """A profile's estimates over a time, or over one bucket of it."""

    profile: str
    mechanism: str
    start: int | None
    """Unix seconds; None for the whole time asked for."""
    seconds: int | None
    n: int
    withdrawn: int
    estimates: tuple[Estimate, ...]


def estimate(profile: Profile, plus: Ints, minus: Ints, gone_plus: Ints, gone_minus: Ints) -> tuple[Estimate, ...]:
    """Estimate every attribute or category from its counts, int64[k] each: all that were accepted, and those that left since."""
    mechanism = mechanism_of(profile)
    stay_plus, stay_minus = plus - gone_plus, minus - gone_minus
    published = _listed(mechanism.published(profile, stay_plus, stay_minus))
    before = _listed(mechanism.published(profile, plus, minus))
    plain = _listed(mechanism.plain(profile, stay_plus, stay_minus))
    return tuple(
        Estimate(
            name=name,
            unit=unit,
            n=int(stay_plus[i] + stay_minus[i]),
            published=published[i],
            plain=plain[i],
            withdrawn=int(gone_plus[i] + gone_minus[i]),
            before=before[i],
        )
        for i, (name, unit) in enumerate(mechanism.labels(profile))
    )


def _listed(figures: Figures) -> list[Figure]:
    return [
        Figure(None, None, None) if np.isnan(value) else Figure(float(value), float(low), float(high))
        for value, low, high in zip(*figures, strict=True)
    ]


def estimates(profile: Profile, tallies: TallyTable, bucket_seconds: int | None = None) -> list[Estimates]:
    """A profile's estimates from its tallies: one for all of them, or one per bucket that has reports."""
    starts = np.unique(tallies.bucket) if bucket_seconds else np.zeros(1, np.int64)
    return [_bucket(profile, tallies, int(start), bucket_seconds) for start in starts]


def _bucket(profile: Profile, tallies: TallyTable, start: int, seconds: int | None) -> Estimates:
    mine = tallies.bucket == start
    counts = np.zeros((4, profile.k), np.int64)
    for row, column in enumerate((tallies.plus, tallies.minus, tallies.withdrawn_plus, tallies.withdrawn_minus)):
        counts[row, tallies.index[mine]] = column[mine]
    gone = int(counts[2:].sum())
    return Estimates(
        profile=profile.name,
        mechanism=profile.mechanism,
        start=start if seconds else None,
        seconds=seconds,
        n=int(counts[:2].sum()) - gone,
        withdrawn=gone,
        estimates=estimate(profile, *counts),
    )
