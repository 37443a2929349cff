# SPDX-License-Identifier: MIT
"""Counts of reports per device and statistic, and the weights of these reports.

Weights depend on how many reports a device has, never on what they say, so no weighing biases an estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_gateway.mechanisms.intervals import Weighing

__all__ = ["Largest", "ReportCounts", "capped", "equal_devices", "equal_reports", "largest", "weighing"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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
