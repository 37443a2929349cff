# SPDX-License-Identifier: MIT
"""Estimates from the tallies of devices: what is published of each attribute or category, and how it is made up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.estimation.figures import Bounds, Figures, Reports
from peel_gateway.estimation.holdings import capped, equal_devices, equal_reports
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.tables import DeviceTallyTable, TallyTable

__all__ = ["DEVICES", "REPORTS", "Estimate", "Estimates", "Figure", "Interval", "anonymous", "estimates"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

REPORTS, DEVICES = "reports", "devices"
"""What a mean is taken over."""


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
    """What the mean is over: reports, each counting once (or up to its device's cap), or devices, each counting once."""
    within: Interval
    """Within the range of what is possible: this is the one to use."""
    unclipped: Interval
    """Without regard to the range: unbiased, and what to average over times or fleets."""
    effective: float
    """How many reports of equal weight would be as good."""
    influence: float | None
    """How far the device that weighs most could move the unclipped value with other reports; None where devices are not known."""
    influence_share: float | None
    """That device's part of the weight."""
    influence_device: int | None
    """Its id; None where all devices weigh the same."""
    edge: str | None
    """What the range cuts off: the value, only the interval, or nothing."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One attribute (a mean in its unit) or category (a share)."""

    name: str
    unit: str
    low: float
    high: float
    """The range of what is possible."""
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
    devices: int | None
    withdrawn: int
    share_cap: float
    """The largest part of a mean over reports that one device was let have, if there are enough devices."""
    estimates: tuple[Estimate, ...]


def anonymous(tallies: TallyTable) -> DeviceTallyTable:
    """Tallies without devices, as if one device (0) had sent what counts and another what was withdrawn."""
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
) -> list[Estimates]:
    """A profile's estimates: one for all tallies, or one per bucket that has reports.

    Parameters
    ----------
    share_cap: largest part of a mean over reports that one device may have; 1 lets every report count once.
    known: whether the tallies know their devices, or are `anonymous`.
    """
    starts = np.unique(tallies.bucket) if bucket_seconds else np.zeros(1, np.int64)
    return [
        _Bucket(profile, tallies, int(start), share_cap, known).estimates(
            int(start) if bucket_seconds else None, bucket_seconds
        )
        for start in starts
    ]


class _Bucket:
    """One bucket's reports: those that count, and all that were accepted."""

    def __init__(self, profile: Profile, tallies: DeviceTallyTable, start: int, share_cap: float, known: bool) -> None:
        self._profile = profile
        self._mechanism = mechanism_of(profile)
        self._ranges = self._mechanism.ranges(profile)
        self._share_cap = share_cap
        self._known = known
        rows = (tallies.bucket == start) & (tallies.plus + tallies.minus > 0)
        self._all = _reports(profile, tallies, rows)
        self._stay = _reports(profile, tallies, rows & (tallies.withdrawn == 0))

    def estimates(self, start: int | None, seconds: int | None) -> Estimates:
        n, total = (int(reports.holdings.reports.sum()) for reports in (self._stay, self._all))
        return Estimates(
            profile=self._profile.name,
            mechanism=self._profile.mechanism,
            start=start,
            seconds=seconds,
            n=n,
            devices=len(np.unique(self._stay.holdings.device)) if self._known else None,
            withdrawn=total - n,
            share_cap=self._share_cap,
            estimates=tuple(self._listed()),
        )

    def _listed(self) -> Iterator[Estimate]:
        n, total = (self._sums(reports, reports.holdings.reports) for reports in (self._stay, self._all))
        devices = self._sums(self._stay, np.ones_like(self._stay.holdings.reports))
        columns = (
            self._mechanism.labels(self._profile),
            zip(*(each.tolist() for each in self._ranges), strict=True),
            zip(n, total, devices, strict=True),
            self._figures(REPORTS, self._stay.figures(capped(self._stay.holdings, self._share_cap))),
            self._over_devices(n),
            _intervals(self._plain()),
            _intervals(self._all.figures(capped(self._all.holdings, self._share_cap)).bounds),
        )
        for (name, unit), (low, high), (stay, every, heard), published, over_devices, plain, before in zip(
            *columns, strict=True
        ):
            yield Estimate(
                name=name,
                unit=unit,
                low=low,
                high=high,
                n=stay,
                devices=heard if self._known else None,
                published=published,
                over_devices=over_devices,
                plain=plain,
                withdrawn=every - stay,
                before=before,
            )

    def _plain(self) -> Bounds:
        plain = self._mechanism.plain(self._profile, *self._stay.counts())
        return self._stay.figures(equal_reports(self._stay.holdings)).bounds if plain is None else Bounds(*plain)

    def _over_devices(self, n: list[int]) -> Sequence[Figure | None]:
        if not self._known:
            return [None] * len(n)
        return self._figures(DEVICES, self._stay.figures(equal_devices(self._stay.holdings)))

    def _figures(self, over: str, figures: Figures) -> list[Figure]:
        said = ~np.isnan(figures.share) & self._known
        columns = (
            _intervals(figures.bounds),
            _intervals(figures.unclipped),
            np.nan_to_num(figures.effective).tolist(),
            _where(said, figures.influence),
            _where(said, figures.share),
            _where(said & (over == REPORTS), figures.device),
            _edges(figures, *self._ranges),
        )
        names = ("within", "unclipped", "effective", "influence", "influence_share", "influence_device", "edge")
        return [Figure(over=over, **dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]

    def _sums(self, reports: Reports, values: Ints) -> list[int]:
        """Sums by figure; categories share their reports, and so have all the same."""
        sums: list[int] = np.broadcast_to(reports.holdings.sums(values), len(self._ranges[0])).astype(np.int64).tolist()
        return sums


def _reports(profile: Profile, tallies: DeviceTallyTable, rows: Bools) -> Reports:
    return Reports.of(profile, tallies.device[rows], tallies.index[rows], tallies.plus[rows], tallies.minus[rows])


def _intervals(bounds: Bounds) -> list[Interval]:
    rows = zip(*(each.tolist() for each in bounds), strict=True)
    return [Interval(None, None, None) if isnan(value) else Interval(value, low, high) for value, low, high in rows]


def _where(said: Bools, values: Ints | Floats) -> list[Any]:
    return [value if there else None for there, value in zip(said.tolist(), values.tolist(), strict=True)]


def _edges(figures: Figures, low: Floats, high: Floats) -> list[str | None]:
    value = figures.bounds.value != figures.unclipped.value
    cut = (figures.unclipped.low < low) | (figures.unclipped.high > high)
    reported = ~np.isnan(figures.bounds.value)
    return [
        ("value" if moved else "interval" if short else None) if there else None
        for there, moved, short in zip(reported.tolist(), value.tolist(), cut.tolist(), strict=True)
    ]
