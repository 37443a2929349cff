# SPDX-License-Identifier: MIT
"""Estimates from tallies: means and frequencies with 95% intervals, before and after withdrawal.

Harmony (Nguyen et al. 2016): a report of attribute j is a sign with mean (R/2^31) x, so with c = 2^31/R ::

    ratio    m_j = c (plus_j - minus_j) / n_j            n_j = plus_j + minus_j
    plain    m_j = c k (plus_j - minus_j) / N            N = sum_j n_j     (Horvitz-Thompson)

Both are unbiased; the ratio estimator is the published one, because it does not pay for the chance in how often an attribute was
assigned: its variance is about k (c^2 - m^2)/N, that of the plain one (k c^2 - m^2)/N, larger by (k - 1) m^2/N.

kRR: with q = (2^31 - R)/(k 2^31) the chance of a wrong category, f_v = (n_v/N - q) 2^31/R; the two estimators coincide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.storage.store import Store, TallyTable

__all__ = [
    "Estimate",
    "Estimates",
    "Figure",
    "estimate",
    "estimates",
    "krr_frequencies",
    "plain_means",
    "ratio_means",
    "wilson",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

Z95 = 1.959963984540054
"""Two-sided 95% point of the normal distribution."""
_ONE = 2.0**31


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


def wilson(successes: Ints, trials: Ints) -> tuple[Floats, Floats]:
    """95% interval of a mean probability (Wilson 1927); NaN where there are no trials.

    Trials need not be alike: given the readings they are independent with different chances, and their sum then varies no more than a
    binomial one with the mean chance (Hoeffding 1956), so the interval is, if anything, too wide.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        share = successes / trials
        square = Z95**2 / trials
        centre = (share + square / 2) / (1 + square)
        half = Z95 / (1 + square) * np.sqrt(share * (1 - share) / trials + square / (4 * trials))
    return centre - half, centre + half


def ratio_means(profile: Profile, plus: Ints, minus: Ints) -> tuple[Floats, Floats, Floats]:
    """Means on [-1, 1] and their interval, float64[k] each; the mean is not clipped (it is unbiased), the interval is."""
    scale = _ONE / profile.rule
    n = plus + minus
    low, high = wilson(plus, n)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = scale * (plus - minus) / n
    return mean, np.clip(scale * (2 * low - 1), -1, 1), np.clip(scale * (2 * high - 1), -1, 1)


def plain_means(profile: Profile, plus: Ints, minus: Ints) -> tuple[Floats, Floats, Floats]:
    """Horvitz-Thompson means on [-1, 1] and their normal interval, float64[k] each."""
    weight = profile.k * _ONE / profile.rule
    total = int((plus + minus).sum())
    if total == 0:
        none = np.full(profile.k, np.nan)
        return none, none, none
    mean = weight * (plus - minus) / total
    variance = np.maximum(weight**2 * (plus + minus) / total - mean**2, 0) / total
    half = Z95 * np.sqrt(variance)
    return mean, np.clip(mean - half, -1, 1), np.clip(mean + half, -1, 1)


def krr_frequencies(profile: Profile, counts: Ints) -> tuple[Floats, Floats, Floats]:
    """Frequencies and their interval, float64[k] each."""
    wrong = (_ONE - profile.rule) / (profile.k * _ONE)
    scale = _ONE / profile.rule
    total = np.full(profile.k, counts.sum())
    low, high = wilson(counts, total)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = counts / total
    return (share - wrong) * scale, np.clip((low - wrong) * scale, 0, 1), np.clip((high - wrong) * scale, 0, 1)


def estimate(profile: Profile, plus: Ints, minus: Ints, gone_plus: Ints, gone_minus: Ints) -> tuple[Estimate, ...]:
    """Estimate every attribute or category from its counts, int64[k] each: all that were accepted, and those that left since."""
    stay_plus, stay_minus = plus - gone_plus, minus - gone_minus
    published = _figures(profile, stay_plus, stay_minus)
    before = _figures(profile, plus, minus)
    plain = published
    names = [(category, "") for category in profile.categories]
    if profile.mechanism == "harmony":
        plain = _physical(profile, *plain_means(profile, stay_plus, stay_minus))
        names = [(attribute.name, attribute.unit) for attribute in profile.attributes]
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
        for i, (name, unit) in enumerate(names)
    )


def _figures(profile: Profile, plus: Ints, minus: Ints) -> list[Figure]:
    if profile.mechanism == "harmony":
        return _physical(profile, *ratio_means(profile, plus, minus))
    return _listed(*krr_frequencies(profile, plus))


def _physical(profile: Profile, mean: Floats, low: Floats, high: Floats) -> list[Figure]:
    """From [-1, 1] to each attribute's own range."""
    lows = np.array([attribute.low for attribute in profile.attributes])
    highs = np.array([attribute.high for attribute in profile.attributes])
    middle, half = (lows + highs) / 2, (highs - lows) / 2
    return _listed(middle + half * mean, middle + half * low, middle + half * high)


def _listed(value: Floats, low: Floats, high: Floats) -> list[Figure]:
    return [
        Figure(None, None, None) if np.isnan(each[0]) else Figure(float(each[0]), float(each[1]), float(each[2]))
        for each in zip(value, low, high, strict=True)
    ]


def estimates(
    store: Store,
    profile: Profile,
    *,
    since: float | None = None,
    until: float | None = None,
    bucket_seconds: int | None = None,
) -> list[Estimates]:
    """Read a profile's estimates from a store: one for the whole time, or one per bucket that has reports."""
    tallies = store.tallies(profile.id, since=since, until=until, bucket_seconds=bucket_seconds)
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
