# SPDX-License-Identifier: MIT
"""From counts of reports to weights, and from weighted reports to values, intervals and influence.

Weights depend on how many reports a device has, never on what they say, so no weighing biases an estimate.

All formulas are linear in the share S of reports that speak for a statistic ::

    value      = low + (high - low) (S - least) / (most - least)         `Questions`
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
from peel_gateway.mechanisms import questions_of
from peel_gateway.mechanisms.intervals import Weighing, chance_interval, difference_interval

__all__ = [
    "Bounds",
    "Largest",
    "ReportCounts",
    "Reports",
    "Statistics",
    "capped",
    "change",
    "equal_devices",
    "equal_reports",
    "largest",
    "over_devices",
    "pro_rata",
    "weighing",
]


@dataclass(frozen=True)
class ReportCounts:
    """Reports of devices, int64[entries] each: one entry per device and question that it has answered."""

    device: Ints
    question: Ints
    reports: Ints
    questions: int
    """The number of questions; some may have no entry."""

    @classmethod
    def of(cls, device: Ints, question: Ints, reports: Ints, questions: int) -> tuple[ReportCounts, Ints]:
        """Add up rows of the same device and question; the second is each row's place."""
        keys, place = _ranked(device * questions + question)
        total = np.bincount(place, reports, len(keys)).astype(np.int64)
        return cls(keys // questions, keys % questions, total, questions), place

    def sums(self, values: Ints | Floats) -> Floats:
        """Add up values of entries by question."""
        return np.bincount(self.question, values, self.questions).astype(np.float64, copy=False)

    def largest(self, values: Floats) -> Floats:
        """Return the largest value per question; 0 for a question without entries."""
        most = np.zeros(self.questions)
        np.maximum.at(most, self.question, values)
        return most


def _ranked(values: Ints) -> tuple[Ints, Ints]:
    """Return the distinct values, ascending, and the place of each value among them."""
    new = np.diff(values, prepend=values[:1] - 1)
    if (new < 0).any():
        return np.unique(values, return_inverse=True)
    return values[new > 0], np.cumsum(new > 0) - 1  # as stores return them, values ascend


@dataclass(frozen=True)
class Largest:
    """The device that weighs most in each question, [questions] each."""

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


_FULL_WEIGHT = 2
"""A device weighs fully from this many times the median device's reports on."""


def pro_rata(report_counts: ReportCounts) -> Floats:
    """Weights for a mean over devices in which a device with few reports weighs in proportion to them.

    A device with n reports counts like min(n, t) / t, where t is twice the median of the devices with reports about the question (the
    upper one of two medians). A device that falls silent after good reports then gains nothing: its sum stays as it is, and does not
    become the mean of a full device. `docs/verified-coins.md` has the figures.

    The median is among honest devices unless half of the fleet colludes. The factor of 2 leaves room for chance: the number of reports
    about one question varies, and a device beyond t could stop whenever its mean is best.
    """
    order = np.lexsort((report_counts.reports, report_counts.question))
    devices = np.bincount(report_counts.question, minlength=report_counts.questions)
    middle = np.cumsum(devices) - devices + devices // 2  # a question without devices is not looked up
    typical = np.append(report_counts.reports[order], 0)[middle]
    return np.asarray(1 / np.maximum(report_counts.reports, _FULL_WEIGHT * typical[report_counts.question]))


def over_devices(profile: Profile, report_counts: ReportCounts) -> Floats:
    """Weights for a profile's mean over devices.

    With verified coins an insider knows each outcome before anybody else and may stop at the best time, so devices weigh pro rata. Other
    coins can be biased by as much without stopping, so slow devices keep their full weight there.
    """
    return pro_rata(report_counts) if profile.verified else equal_devices(report_counts)


def capped(report_counts: ReportCounts, cap: float) -> Floats:
    """Weights for a mean over reports in which no device has more than a share of `cap`.

    A device with n reports counts like min(n, t), with the largest t (not a whole number) for which t / sum min(n, t) <= cap. A cap below
    1/devices cannot be kept: 1/devices takes its place, and all devices weigh the same.

    With n_1 <= n_2 <= ... the share of a device that is held at t grows with t. Let i be the last place where t = n_i keeps the cap; the
    m devices after it are held at t = cap (n_1 + ... + n_i + m t), which is cap (n_1 + ... + n_i) / (1 - m cap).
    """
    if cap >= 1 or _within(report_counts, cap):
        return equal_reports(report_counts)
    order = np.lexsort((report_counts.reports, report_counts.question))
    # Floats: products of two counts have no room in 64 bits, and below 2^53 nothing is lost.
    statistic, reports = report_counts.question[order], report_counts.reports[order].astype(np.float64)
    devices = np.bincount(statistic, minlength=report_counts.questions)
    first = np.cumsum(devices) - devices
    limit = np.maximum(cap, 1 / devices[statistic])
    before = np.cumsum(reports) - reports
    sums = before - before[first[statistic]] + reports
    above = devices[statistic] - (np.arange(len(order)) - first[statistic]) - 1
    keeps = np.bincount(statistic, reports / (sums + above * reports) <= limit, report_counts.questions).astype(
        np.int64
    )[statistic]
    held = devices[statistic] - keeps
    threshold = limit * sums[first[statistic] + keeps - 1] / (1 - held * limit)
    weights = np.empty(len(order))
    weights[order] = np.minimum(1, threshold / reports)
    return weights


def _within(report_counts: ReportCounts, cap: float) -> bool:
    """Return whether no device has more than its share of the reports."""
    devices = np.maximum(np.bincount(report_counts.question, minlength=report_counts.questions), 1)
    reports = report_counts.reports.astype(np.float64)
    return bool((report_counts.largest(reports) <= np.maximum(cap, 1 / devices) * report_counts.sums(reports)).all())


def weighing(report_counts: ReportCounts, weights: Floats) -> Weighing:
    """Return the sums of weights that the intervals of each statistic need."""
    parts = [report_counts.reports * weights]
    for _ in range(3):
        parts.append(parts[-1] * weights)
    one, two, three, four = (report_counts.sums(part) for part in parts)
    with np.errstate(invalid="ignore", divide="ignore"):
        doubt = four / two**2 - 2 * three / (two * one) + two / one**2
        return Weighing(one, one**2 / two, np.maximum(doubt, 0), report_counts.largest(weights) / one)


def largest(report_counts: ReportCounts, weights: Floats) -> Largest:
    """Return the heaviest device of each question and its share of the weight."""
    part = report_counts.reports * weights
    most, total = report_counts.largest(part), report_counts.sums(part)
    heaviest = np.flatnonzero(part == most[report_counts.question])[::-1]  # the first device is written last, and stays
    device = np.zeros(report_counts.questions, np.int64)
    device[report_counts.question[heaviest]] = report_counts.device[heaviest]
    with np.errstate(invalid="ignore"):
        return Largest(most / total, device)


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
        questions = questions_of(profile)
        report_counts, place = ReportCounts.of(device, questions.question(cell), plus + minus, questions.count)
        return cls(profile, cell, plus, minus, report_counts, place)

    def statistics(self, weights: Floats) -> Statistics:
        """Estimate everything, with weights float64[entries]."""
        questions = questions_of(self.profile)
        of = questions.of_statistic
        weighed = Weighing(*(each[of] for each in weighing(self.report_counts, weights)))
        most = largest(self.report_counts, weights)
        share = self._share(weights)
        lean = share if (weights == weights[:1]).all() else self._share(weights**2)
        chances = (questions.least, questions.most)
        scale = _scale(self.profile)
        held = chance_interval(share, lean, weighed, chances, chances)
        free = chance_interval(share, lean, weighed, chances, (0.0, 1.0))
        return Statistics(
            bounds=Bounds(*(scale.clipped(each) for each in (share, *held))),
            unclipped=Bounds(*(scale.value(each) for each in (share, *free))),
            effective=weighed.effective,
            influence=most.share[of] * scale.slope,
            share=most.share[of],
            device=most.device[of],
        )

    def plain(self, total: int, equal: Statistics | None = None) -> Bounds:
        """The textbook's estimates over reports.

        Parameters
        ----------
        total : int
            Reports about any question, also those that are not in these rows.
        equal : Statistics, optional
            The statistics with equal weights, if they are known already.
        """
        equal = equal or self.statistics(equal_reports(self.report_counts))
        bounds = Bounds(*(each.copy() for each in equal.bounds))
        for of, plain in questions_of(self.profile).plain(self.cell, self.plus, self.minus, total):
            for each, better in zip(bounds, plain, strict=True):
                each[of] = better
        return bounds

    def sums(self, values: Ints) -> Ints:
        """Add up values of entries by statistic; categories share their reports, and all have the same."""
        return np.asarray(self.report_counts.sums(values).astype(np.int64)[questions_of(self.profile).of_statistic])

    def _share(self, weights: Floats) -> Floats:
        """Return the share of the weight that supports each statistic; NaN where no report has weight."""
        questions = questions_of(self.profile)
        speaking = questions.speaking(self.cell, self.plus * weights[self.place])
        total = self.report_counts.sums(self.report_counts.reports * weights)[questions.of_statistic]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(speaking / total)


class _Scale(NamedTuple):
    """From chances to values."""

    low: Floats
    high: Floats
    least: Floats
    most: Floats

    @property
    def slope(self) -> Floats:
        return (self.high - self.low) / (self.most - self.least)

    def value(self, chance: Floats) -> Floats:
        return self.low + (chance - self.least) * self.slope

    def clipped(self, chance: Floats) -> Floats:
        return np.clip(self.value(chance), self.low, self.high)


def _scale(profile: Profile) -> _Scale:
    questions = questions_of(profile)
    return _Scale(questions.low, questions.high, questions.least, questions.most)


def change(profile: Profile, before: Statistics, after: Statistics) -> Bounds:
    """Return `after - before` with its 95% interval; NaN where one of them has no report.

    The value is the difference of the values within the range. Its interval is made without regard to the range (`difference_interval` says
    why), then cut off at the largest possible change, and holds the value.
    """
    scale = _scale(profile)
    with np.errstate(invalid="ignore", divide="ignore"):
        half_step = scale.slope / (2 * (before.effective + after.effective))
    low, high = difference_interval(before.unclipped, after.unclipped, half_step)
    value, most = after.bounds.value - before.bounds.value, scale.high - scale.low
    return Bounds(value, np.minimum(np.clip(low, -most, most), value), np.maximum(np.clip(high, -most, most), value))
