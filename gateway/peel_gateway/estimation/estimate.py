# SPDX-License-Identifier: MIT
"""Estimates from the tallies of devices: what is published of each attribute or category, and how it is made up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Profile, Statistic
from peel_gateway.estimation.statistics import Bounds, Reports, Statistics, capped, change, over_devices
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.tables import DeviceTallyTable, TallyTable

__all__ = [
    "DEVICES",
    "REPORTS",
    "Change",
    "Choice",
    "Difference",
    "Estimate",
    "Estimates",
    "Figure",
    "Interval",
    "anonymous",
    "changes",
    "estimates",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

REPORTS, DEVICES = "reports", "devices"
"""A mean is taken over reports or over devices."""


@dataclass(frozen=True)
class Interval:
    """A value with its 95% interval; all None while there is no report to make it from."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One way to estimate one thing."""

    over: str
    """`REPORTS`: each report counts once, up to its device's cap. `DEVICES`: each device counts once, with verified coins pro rata."""
    within: Interval
    """Within the range of what is possible: this is the one to use."""
    unclipped: Interval
    """Without regard to the range: unbiased, and what to average over times or fleets."""
    effective: float
    """The effective number: this many reports of equal weight would be as precise."""
    influence: float | None
    """The largest change of the unclipped value that the heaviest device could cause with other reports; None if devices are unknown."""
    influence_share: float | None
    """That device's part of the weight."""
    influence_device: int | None
    """Its id; None where all devices weigh the same."""
    edge: str | None
    """The part that the range cuts off: the value, only the interval, or nothing."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The estimate of one statistic."""

    about: Statistic
    range: tuple[float, float]
    """The least and the greatest possible value."""
    n: int
    """Reports behind it."""
    devices: int | None
    """Devices behind it; None where they are not known."""
    published: Figure
    """Over reports."""
    over_devices: Figure | None
    """Over devices; None where they are not known."""
    plain: Interval
    """The textbook's estimate over reports, for comparison; that of Harmony is another one (Horvitz-Thompson)."""
    withdrawn: int
    """Reports that left because their device was exposed."""
    before: Interval
    """`published` as it would be if these reports had stayed."""

    @property
    def name(self) -> str:
        """Return the statistic's name."""
        return self.about.name


@dataclass(frozen=True)
class Choice:
    """The choice of statistics to list."""

    name: str | None = None
    """Only the one of this name, if any."""
    top: int = 100
    """Of more categories than this, only so many, the largest first; all others in the order of the profile."""

    def named(self, profile: Profile) -> list[int]:
        """Indices of the statistics that have the name, or of all."""
        return [i for i in range(profile.size) if self.name in (None, profile.label(i))]

    def questions(self, profile: Profile) -> Ints:
        """Return the questions of the statistics that have the name, or of all."""
        return np.unique(questions_of(profile).of_statistic[self.named(profile)])

    def count(self, profile: Profile) -> int:
        """Return the number of listed statistics."""
        named = self.named(profile)
        return len(named) - sum(max(0, len(part) - self.top) for part in _questions(profile, named))

    def statistics(self, profile: Profile, values: Floats) -> Ints:
        """Indices of those to list, given the values of all."""
        if self.name is not None:
            return np.array(self.named(profile), np.int64)
        parts = [
            part if len(part) <= self.top else part[np.argsort(-values[part], kind="stable")[: self.top]]
            for part in _questions(profile, self.named(profile))
        ]
        return np.concatenate(parts)


def _questions(profile: Profile, statistics: list[int]) -> list[Ints]:
    """Divide statistics, in order, among the questions that they come from."""
    found = np.array(statistics, np.int64)
    return np.split(found, np.flatnonzero(np.diff(questions_of(profile).of_statistic[found])) + 1)


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """A profile's estimates over a time, or over one bucket of it."""

    profile: str
    start: int | None
    """Unix seconds; None for the whole time asked for."""
    seconds: int | None
    n: int
    devices: int | None
    withdrawn: int
    share_cap: float
    """The largest part of a mean over reports that one device was let have, if there are enough devices."""
    figures: int
    """The number of statistics of the profile; some may not be listed."""
    estimates: tuple[Estimate, ...]


@dataclass(frozen=True)
class Difference:
    """The difference of two estimates."""

    before: Interval
    after: Interval
    difference: Interval
    """`after` less `before`; all None if one of them has no report."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """The change of one attribute or category between two spans of time."""

    about: Statistic
    n_before: int
    n_after: int
    over_reports: Difference
    over_devices: Difference | None
    """None where the devices are not known. Each span has the devices that reported in it."""


def anonymous(tallies: TallyTable) -> DeviceTallyTable:
    """Tallies without devices, as if one that is not known had sent what counts and another what was withdrawn."""
    stay = (tallies.plus - tallies.withdrawn_plus, tallies.minus - tallies.withdrawn_minus)
    gone = (tallies.withdrawn_plus, tallies.withdrawn_minus)
    withdrawn = np.repeat(np.arange(2), len(tallies))
    return DeviceTallyTable(
        bucket=np.tile(tallies.bucket, 2),
        device=withdrawn,
        index=np.tile(tallies.index, 2),
        plus=np.concatenate([stay[0], gone[0]]),
        minus=np.concatenate([stay[1], gone[1]]),
        withdrawn=withdrawn,
    )


def estimates(
    profile: Profile,
    tallies: DeviceTallyTable,
    bucket_seconds: int | None = None,
    *,
    share_cap: float = 1.0,
    known: bool = True,
    choice: Choice | None = None,
) -> list[Estimates]:
    """A profile's estimates: one for all tallies, or one per bucket that has reports.

    Parameters
    ----------
    share_cap : float
        Largest part of a mean over reports that one device may have; 1 lets every report count once.
    known : bool
        Whether the tallies know their devices, or are `anonymous`.
    choice : Choice
        The statistics to return.
    """
    starts, bucket = np.unique(tallies.bucket, return_inverse=True)
    if not bucket_seconds:
        starts, bucket = np.zeros(1, np.int64), np.zeros_like(bucket)
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(len(starts)), side="right")
    # What is behind the last end is empty, as is all of it without reports.
    parts = np.split(order, ends)[: len(starts)]
    return [
        Estimates(
            profile=profile.name,
            start=start if bucket_seconds else None,
            seconds=bucket_seconds,
            share_cap=share_cap,
            figures=profile.size,
            **_Bucket(profile, tallies, rows, share_cap, known, choice or Choice()).told(),
        )
        for start, rows in zip(starts.tolist(), parts, strict=True)
    ]


def changes(
    profile: Profile,
    before: DeviceTallyTable,
    after: DeviceTallyTable,
    *,
    share_cap: float = 1.0,
    known: bool = False,
    choice: Choice | None = None,
) -> list[Change]:
    """Return the change of each chosen statistic between two spans of time that share no report.

    Parameters
    ----------
    known : bool
        Whether the tallies know their devices, so that there are changes over devices too.
    """
    reports = [_counting(profile, tallies) for tallies in (before, after)]
    n_before, n_after = (each.sums(each.report_counts.reports) for each in reports)
    first, second = (each.statistics(capped(each.report_counts, share_cap)) for each in reports)
    over_reports = _differences(profile, first, second)
    by_device = (
        _differences(profile, *(each.statistics(over_devices(profile, each.report_counts)) for each in reports))
        if known
        else None
    )
    return [
        Change(
            about=profile.statistics[i],
            n_before=int(n_before[i]),
            n_after=int(n_after[i]),
            over_reports=over_reports(i),
            over_devices=by_device(i) if by_device else None,
        )
        for i in (choice or Choice()).statistics(profile, second.unclipped.value).tolist()
    ]


def _differences(profile: Profile, before: Statistics, after: Statistics) -> Callable[[int], Difference]:
    """Return a function from the index of a statistic to its difference."""
    found = (before.bounds, after.bounds, change(profile, before, after))
    return lambda i: Difference(*(_interval(bounds, i) for bounds in found))


class _Bucket:
    """One bucket's reports: those that count, and all that were accepted."""

    def __init__(
        self,
        profile: Profile,
        tallies: DeviceTallyTable,
        rows: Ints,
        share_cap: float,
        known: bool,
        choice: Choice,
    ) -> None:
        self._profile = profile
        self._known = known
        self._choice = choice
        reports = tallies.plus[rows] + tallies.minus[rows]
        stay = (tallies.withdrawn[rows] == 0) & (reports > 0)
        self._total, self._n = int(reports.sum()), int(reports[stay].sum())
        self._devices = _distinct(tallies.device[rows[stay]]) if known else None
        rows = rows[reports > 0]
        if choice.name is not None:  # a statistic depends on the reports of its question alone
            rows = rows[np.isin(questions_of(profile).question(tallies.index[rows]), choice.questions(profile))]
        self._all = self._stay = _reports(profile, tallies, rows)
        gone = tallies.withdrawn[rows] != 0
        if gone.any():
            self._stay = _reports(profile, tallies, rows[~gone])
        weights = capped(self._stay.report_counts, share_cap)
        self._published = self._stay.statistics(weights)
        self._equal = self._published if (weights == 1).all() else None
        self._before = self._published.bounds
        if gone.any():
            self._before = self._all.statistics(capped(self._all.report_counts, share_cap)).bounds

    def told(self) -> dict[str, Any]:
        """The fields of `Estimates` that the reports decide."""
        chosen = self._choice.statistics(self._profile, self._published.unclipped.value)
        return {
            "n": self._n,
            "devices": self._devices,
            "withdrawn": self._total - self._n,
            "estimates": tuple(self._estimates(chosen)),
        }

    def _estimates(self, chosen: Ints) -> Iterator[Estimate]:
        n, total = (reports.sums(reports.report_counts.reports) for reports in (self._stay, self._all))
        devices = self._stay.sums(np.ones_like(self._stay.report_counts.reports))
        by_device = None
        if self._known:
            by_device = self._stay.statistics(over_devices(self._profile, self._stay.report_counts))
        plain = self._stay.plain(self._n, self._equal)
        for i in chosen.tolist():
            about = self._profile.statistics[i]
            extent = (about.low, about.high)
            yield Estimate(
                about=about,
                range=extent,
                n=int(n[i]),
                devices=int(devices[i]) if self._known else None,
                published=self._statistic(REPORTS, self._published, i, extent),
                over_devices=None if by_device is None else self._statistic(DEVICES, by_device, i, extent),
                plain=_interval(plain, i),
                withdrawn=int(total[i] - n[i]),
                before=_interval(self._before, i),
            )

    def _statistic(self, over: str, statistics: Statistics, i: int, extent: tuple[float, float]) -> Figure:
        within, unclipped = _interval(statistics.bounds, i), _interval(statistics.unclipped, i)
        said = self._known and within.value is not None
        differ = over == REPORTS or self._profile.verified
        return Figure(
            over=over,
            within=within,
            unclipped=unclipped,
            effective=float(statistics.effective[i]) if within.value is not None else 0.0,
            influence=float(statistics.influence[i]) if said else None,
            influence_share=float(statistics.share[i]) if said else None,
            influence_device=int(statistics.device[i]) if said and differ else None,
            edge=_edge(within, unclipped, extent),
        )


def _counting(profile: Profile, tallies: DeviceTallyTable) -> Reports:
    """Return the reports that count."""
    there = tallies.plus + tallies.minus > 0
    return _reports(profile, tallies, np.flatnonzero(there & (tallies.withdrawn == 0)))


def _reports(profile: Profile, tallies: DeviceTallyTable, rows: Ints) -> Reports:
    return Reports.of(profile, tallies.device[rows], tallies.index[rows], tallies.plus[rows], tallies.minus[rows])


def _distinct(values: Ints) -> int:
    """Return the number of distinct values."""
    return int(np.count_nonzero(np.diff(np.sort(values), prepend=-1)))


def _interval(bounds: Bounds, i: int) -> Interval:
    value, low, high = (float(each[i]) for each in bounds)
    return Interval(None, None, None) if isnan(value) else Interval(value, low, high)


def _edge(within: Interval, unclipped: Interval, extent: tuple[float, float]) -> str | None:
    if within.value != unclipped.value:
        return "value"
    if unclipped.low is None or unclipped.high is None:
        return None
    return "interval" if unclipped.low < extent[0] or unclipped.high > extent[1] else None
