# SPDX-License-Identifier: MIT
"""From counts of reports to weights, and from weighted reports to values, intervals and influence.

Weights depend on how many reports a device has, never on what they say, so no weighing biases an estimate.

All formulas are linear in the share S of reports that speak for a statistic ::

    value      = low + (high - low) (S - least) / (most - least)         `Mechanism.chances`, `Mechanism.ranges`
    influence  = (largest part of one device) (high - low) / (most - least)

The first is unbiased, since S has the mean least + (most - least) x for a mean x on [0, 1]. The second is how far S moves the value when
all reports of that device, at their weight, change from silent to speaking: no choice of reports by one device moves it further.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.mechanisms.intervals import Weighing, chance_interval

__all__ = [
    "Bounds",
    "Largest",
    "ReportCounts",
    "Reports",
    "Statistics",
    "capped",
    "equal_devices",
    "equal_reports",
    "largest",
    "weighing",
]


@dataclass(frozen=True)
class ReportCounts:
    """Reports of devices, int64[entries] each: one entry per device and statistic that it has reports of.

    Statistics that are made of the same reports (shares of categories) count as one here.
    """

    device: Ints
    statistic: Ints
    reports: Ints
    statistics: int
    """The number of statistics; some may have no entry."""

    @classmethod
    def of(cls, device: Ints, statistic: Ints, reports: Ints, statistics: int) -> tuple[ReportCounts, Ints]:
        """Add up rows of the same device and statistic; the second is each row's place."""
        keys, place = np.unique(device * statistics + statistic, return_inverse=True)
        total = np.bincount(place, reports, len(keys)).astype(np.int64)
        return cls(keys // statistics, keys % statistics, total, statistics), place

    def sums(self, values: Ints | Floats) -> Floats:
        """Add up values of entries by statistic."""
        return np.bincount(self.statistic, values, self.statistics).astype(np.float64, copy=False)

    def largest(self, values: Floats) -> Floats:
        """Return the largest value per statistic; 0 for a statistic without entries."""
        most = np.zeros(self.statistics)
        np.maximum.at(most, self.statistic, values)
        return most


@dataclass(frozen=True)
class Largest:
    """The device that weighs most in each statistic, [statistics] each."""

    share: Floats
    """Its part of the weight; NaN where there is no report."""
    device: Ints
    """The first of them, where several weigh the same."""


def equal_reports(report_counts: ReportCounts) -> Floats:
    """Weights for a mean over reports: each counts once."""
    return np.ones(len(report_counts.reports))


def equal_devices(report_counts: ReportCounts) -> Floats:
    """Weights for a mean over devices: each device counts once, whatever it has reported."""
    return 1 / report_counts.reports


def capped(report_counts: ReportCounts, cap: float) -> Floats:
    """Weights for a mean over reports in which no device has more than a share of `cap`.

    A device with n reports counts like min(n, t), with the largest t (not a whole number) for which t / sum min(n, t) <= cap. A cap below
    1/devices cannot be kept: 1/devices takes its place, and all devices weigh the same.

    With n_1 <= n_2 <= ... the share of a device that is held at t grows with t. Let i be the last place where t = n_i keeps the cap; the
    m devices after it are held at t = cap (n_1 + ... + n_i + m t), which is cap (n_1 + ... + n_i) / (1 - m cap).
    """
    if cap >= 1:
        return equal_reports(report_counts)
    order = np.lexsort((report_counts.reports, report_counts.statistic))
    # Floats: products of two counts have no room in 64 bits, and below 2^53 nothing is lost.
    statistic, reports = report_counts.statistic[order], report_counts.reports[order].astype(np.float64)
    devices = np.bincount(statistic, minlength=report_counts.statistics)
    first = np.cumsum(devices) - devices
    limit = np.maximum(cap, 1 / devices[statistic])
    before = np.cumsum(reports) - reports
    sums = before - before[first[statistic]] + reports
    above = devices[statistic] - (np.arange(len(order)) - first[statistic]) - 1
    keeps = np.bincount(statistic, reports / (sums + above * reports) <= limit, report_counts.statistics).astype(
        np.int64
    )[statistic]
    held = devices[statistic] - keeps
    threshold = limit * sums[first[statistic] + keeps - 1] / (1 - held * limit)
    weights = np.empty(len(order))
    weights[order] = np.minimum(1, threshold / reports)
    return weights


def weighing(report_counts: ReportCounts, weights: Floats) -> Weighing:
    """Return the sums of weights that the intervals of each statistic need."""
    one, two, three, four = (report_counts.sums(report_counts.reports * weights**power) for power in (1, 2, 3, 4))
    with np.errstate(invalid="ignore", divide="ignore"):
        doubt = four / two**2 - 2 * three / (two * one) + two / one**2
        return Weighing(one, one**2 / two, np.maximum(doubt, 0), report_counts.largest(weights) / one)


def largest(report_counts: ReportCounts, weights: Floats) -> Largest:
    """Return the heaviest device of each statistic and its share of the weight."""
    part = report_counts.reports * weights
    order = np.lexsort((report_counts.device, -part, report_counts.statistic))
    statistics, first = np.unique(report_counts.statistic[order], return_index=True)
    share, device = np.full(report_counts.statistics, np.nan), np.zeros(report_counts.statistics, np.int64)
    share[statistics] = part[order][first] / report_counts.sums(part)[statistics]
    device[statistics] = report_counts.device[order][first]
    return Largest(share, device)


Ints = npt.NDArray[np.int64]

Floats = npt.NDArray[np.float64]


class Bounds(NamedTuple):
    """Values with their 95% intervals, float64[statistics] each; NaN where there is no report."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Statistics:
    """Statistics of a profile under one weighing, [statistics] each."""

    bounds: Bounds
    """Within what is possible."""
    unclipped: Bounds
    """The same without knowing what is possible: unbiased."""
    effective: Floats
    """The effective number: this many reports of equal weight would be as precise."""
    influence: Floats
    """The largest change of the unclipped value that the heaviest device can cause."""
    share: Floats
    """Its part of the weight."""
    device: Ints


@dataclass(frozen=True)
class Reports:
    """Reports of devices under one profile: rows of device, cell and counts, [rows] each, and who holds what."""

    profile: Profile
    cell: Ints
    plus: Ints
    minus: Ints
    report_counts: ReportCounts
    place: Ints
    """Each row's place in `report_counts`."""

    @classmethod
    def of(cls, profile: Profile, device: Ints, cell: Ints, plus: Ints, minus: Ints) -> Reports:
        """Put rows in order."""
        separate = mechanism_of(profile).separate
        statistic, statistics = (cell, profile.size) if separate else (np.zeros_like(cell), 1)
        report_counts, place = ReportCounts.of(device, statistic, plus + minus, statistics)
        return cls(profile, cell, plus, minus, report_counts, place)

    def statistics(self, weights: Floats) -> Statistics:
        """Estimate everything, with weights float64[entries]."""
        mechanism = mechanism_of(self.profile)
        weighed, most = weighing(self.report_counts, weights), largest(self.report_counts, weights)
        share = self._share(weights)
        lean = share if (weights == weights[:1]).all() else self._share(weights**2)
        chances = mechanism.chances(self.profile)
        scale = _Scale(*mechanism.ranges(self.profile), *chances)
        held = chance_interval(share, lean, weighed, chances, chances)
        free = chance_interval(share, lean, weighed, chances, (0.0, 1.0))
        return Statistics(
            bounds=Bounds(*(scale.clipped(each) for each in (share, *held))),
            unclipped=Bounds(*(scale.value(each) for each in (share, *free))),
            effective=np.broadcast_to(weighed.effective, share.shape),
            influence=most.share * scale.slope,
            share=np.broadcast_to(most.share, share.shape),
            device=np.broadcast_to(most.device, share.shape),
        )

    def plain(self) -> Bounds:
        """The textbook's estimates over reports."""
        plain = mechanism_of(self.profile).plain(self.profile, self.cell, self.plus, self.minus)
        return self.statistics(equal_reports(self.report_counts)).bounds if plain is None else Bounds(*plain)

    def sums(self, values: Ints) -> Ints:
        """Add up values of entries by statistic; categories share their reports, and all have the same."""
        return np.broadcast_to(self.report_counts.sums(values).astype(np.int64), self.profile.size)

    def _share(self, weights: Floats) -> Floats:
        """Return the share of the weight that supports each statistic; NaN where no report has weight."""
        speaking = mechanism_of(self.profile).speaking(self.profile, self.cell, self.plus * weights[self.place])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(speaking / self.report_counts.sums(self.report_counts.reports * weights))


class _Scale(NamedTuple):
    """From chances to values."""

    low: Floats
    high: Floats
    least: float
    most: float

    @property
    def slope(self) -> Floats:
        return (self.high - self.low) / (self.most - self.least)

    def value(self, chance: Floats) -> Floats:
        return self.low + (chance - self.least) * self.slope

    def clipped(self, chance: Floats) -> Floats:
        return np.clip(self.value(chance), self.low, self.high)
