# SPDX-License-Identifier: MIT
"""The distribution of a reading, from the shares of readings above the rungs of its ladder.

The shares S(t) fall with t. Their estimates may not, so that values are made monotone by isotonic regression (pool adjacent violators),
weighted by effective numbers. Intervals need no assumption about the readings between two rungs:

- *share above t*, with rungs a <= t <= b: S(b) <= S(t) <= S(a), so the interval goes from the low end at b to the high end at a.
- *quantile p*, the t with S(t) = 1 - p: it lies above a rung whose share is certainly above 1 - p, and below one whose share is certainly
  below. Both are searched from their end of the range and stop at the first rung that is not certain. So each end is wrong only if the
  interval of one rung is, that next to the quantile: the interval covers as often as the intervals of the rungs do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from peel_gateway.estimation.estimate import Estimate, Interval

__all__ = ["QUANTILES", "Distribution", "distributions"]

Floats = npt.NDArray[np.float64]

QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""The published quantiles; 0.5 is the median."""


@dataclass(frozen=True)
class Distribution:
    """The distribution of one reading."""

    attribute: str
    unit: str
    range: tuple[float, float]
    n: int
    """Reports behind it."""
    rungs: tuple[float, ...]
    above: tuple[Interval, ...]
    """The share of readings above each rung; the values never rise."""

    @classmethod
    def of(cls, rows: Sequence[Estimate]) -> Distribution:
        """Make it from the estimates of all rungs of a ladder, each of which has reports."""
        attribute = rows[0].about.attribute
        shares = [row.published.within for row in rows]
        values = _falling(
            np.array([row.published.unclipped.value for row in rows], np.float64),
            np.array([row.published.effective for row in rows]),
        ).clip(0, 1)
        return cls(
            attribute=attribute.name,
            unit=attribute.unit,
            range=(attribute.low, attribute.high),
            n=sum(row.n for row in rows),
            rungs=attribute.thresholds,
            above=tuple(_around(float(value), share) for value, share in zip(values, shares, strict=True)),
        )

    def share_above(self, threshold: float) -> Interval:
        """Return the share of readings above any threshold in the range."""
        points, values = self._line()
        before = [share for rung, share in zip(self.rungs, self.above, strict=True) if rung <= threshold]
        after = [share for rung, share in zip(self.rungs, self.above, strict=True) if rung >= threshold]
        return Interval(
            float(np.interp(threshold, points, values)),
            after[0].low if after else 0.0,
            before[-1].high if before else 1.0,
        )

    def quantile(self, part: float) -> Interval:
        """Return the value that this part of the readings does not exceed."""
        points, values = self._line()
        pairs = list(zip(self.rungs, self.above, strict=True))
        below = [rung for rung, share in takewhile(lambda pair: (pair[1].low or 0.0) > 1 - part, pairs)]
        above = [rung for rung, share in takewhile(lambda pair: _high(pair[1]) < 1 - part, reversed(pairs))]
        value = float(np.interp(-(1 - part), -values, points))
        low, high = below[-1] if below else self.range[0], above[-1] if above else self.range[1]
        return Interval(min(max(value, low), high), low, high)

    def _line(self) -> tuple[Floats, Floats]:
        """Return the corners of the share above t: 1 at the low end of the range, 0 at the high end."""
        values = [1.0, *(share.value or 0.0 for share in self.above), 0.0]
        return np.array([self.range[0], *self.rungs, self.range[1]]), np.array(values)


def distributions(rows: Sequence[Estimate]) -> list[Distribution]:
    """Return the distributions of all ladders whose rungs are all among the estimates and have reports."""
    ladders: dict[str, list[Estimate]] = {}
    for row in rows:
        if row.about.attribute.kind == "ladder" and row.published.within.value is not None:
            ladders.setdefault(row.about.attribute.name, []).append(row)
    whole = (found for found in ladders.values() if len(found) == len(found[0].about.attribute.thresholds))
    return [Distribution.of(found) for found in whole]


def _high(share: Interval) -> float:
    return 1.0 if share.high is None else share.high


def _around(value: float, share: Interval) -> Interval:
    return Interval(value, min(value, share.low or 0.0), max(value, _high(share)))


def _falling(values: Floats, weights: Floats) -> Floats:
    """Return the nearest values that never rise, by weighted least squares (Ayer et al. 1955)."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] < pool[0]:
            mean, mass, size = pools.pop()
            total = mass + pool[1]
            pool = ((mean * mass + pool[0] * pool[1]) / total, total, size + pool[2])
        pools.append(pool)
    return np.repeat([mean for mean, _, _ in pools], [size for *_, size in pools])
