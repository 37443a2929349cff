# SPDX-License-Identifier: MIT
"""From weighted reports to values, intervals and influence.

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
from peel_gateway.estimation.weights import ReportCounts, equal_reports, largest, weighing
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.mechanisms.intervals import chance_interval

__all__ = ["Bounds", "Reports", "Statistics"]

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
