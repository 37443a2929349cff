# SPDX-License-Identifier: MIT
"""Distributions from ladders: medians, quantiles and shares above any threshold, with intervals that cover."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from peel_core import Profile, make_profile
from peel_gateway.estimation.distribution import Distribution, _falling, distributions
from peel_gateway.estimation.estimate import Interval, estimates
from peel_gateway.model.tables import DeviceTallyTable

Floats = npt.NDArray[np.float64]


def ends(interval: Interval) -> tuple[float, float, float]:
    """The low end, the value and the high end."""
    assert interval.low is not None and interval.value is not None and interval.high is not None
    return interval.low, interval.value, interval.high


def ladder(rungs: int | list[float] = 8, *, epsilon: float = 1.0) -> Profile:
    """A profile with one ladder from 0 to 100."""
    attribute = {"name": "co2", "kind": "ladder", "unit": "ppm", "low": 0, "high": 100, "rungs": rungs}
    table = {"name": "air", "epsilon": epsilon, "verify": False, "seed": 1, "quota": 60, "period": 3600}
    return make_profile(table | {"attribute": [attribute]})


def reported(profile: Profile, readings: Floats, rng: np.random.Generator) -> Distribution:
    """The distribution that reports of these readings give, one report per device."""
    question = rng.integers(0, profile.k, len(readings))
    above = np.where(readings > np.array(profile.attributes[0].thresholds)[question], 1, -1)
    plus = rng.random(len(readings)) < (1 + above * profile.blocks[0].true_share) / 2
    rows = np.arange(len(readings))
    table = DeviceTallyTable(
        bucket=0 * rows, device=rows, index=question, plus=plus * 1, minus=~plus * 1, withdrawn=0 * rows
    )
    (found,) = estimates(profile, table)
    (distribution,) = distributions(found.estimates)
    return distribution


DATA: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "wide": lambda rng, n: rng.uniform(0, 100, n),
    "narrow": lambda rng, n: np.clip(rng.normal(42, 3, n), 0, 100),
    "at the low end": lambda rng, n: np.clip(rng.exponential(4, n), 0, 100),
    "at the high end": lambda rng, n: np.clip(100 - rng.exponential(4, n), 0, 100),
    "on a rung": lambda rng, n: np.full(n, 44.0),
    "two heaps": lambda rng, n: np.where(rng.random(n) < 0.5, 10.0, 90.0) + rng.normal(0, 1, n),
}


@pytest.mark.parametrize("reports", [80, 2000])
@pytest.mark.parametrize("kind", DATA)
def test_intervals_cover(kind: str, reports: int) -> None:
    """Readings are drawn once and reported again and again: the interval is about these readings."""
    rng = np.random.default_rng(3)
    profile = ladder()
    readings = DATA[kind](rng, reports)
    asked, thresholds = (0.1, 0.5, 0.9), (20.0, 44.0, 61.3)
    covered = []
    for _ in range(400):
        found = reported(profile, readings, rng)
        for part in asked:
            low, high = (np.quantile(readings, part, method=method) for method in ("lower", "higher"))
            least, value, most = ends(found.quantile(part))
            assert least <= value <= most
            covered.append(least <= high and low <= most)
        for threshold in thresholds:
            (least, _, most), truth = ends(found.share_above(threshold)), (readings > threshold).mean()
            covered.append(least <= truth + 1e-9 and truth <= most + 1e-9)
    assert np.array(covered).reshape(-1, 6).mean(axis=0).min() > 0.945


def test_many_reports_find_the_median_to_within_two_rungs() -> None:
    rng = np.random.default_rng(5)
    found = reported(ladder(16, epsilon=2.0), rng.uniform(0, 100, 200_000), rng)
    low, median, high = ends(found.quantile(0.5))
    assert median == pytest.approx(50, abs=2)
    assert high - low <= 2 * 100 / 17 + 0.5


def test_shares_never_rise_and_lie_in_their_intervals() -> None:
    rng = np.random.default_rng(6)
    for _ in range(50):
        found = reported(ladder(), rng.uniform(0, 100, 200), rng)
        shares = [ends(share) for share in found.above]
        values = [value for _, value, _ in shares]
        assert values == sorted(values, reverse=True)
        assert all(low <= value <= high for low, value, high in shares)


def test_pools_are_weighted_means() -> None:
    assert _falling(np.array([0.9, 0.2, 0.6, 0.1]), np.array([1.0, 3.0, 1.0, 1.0])).tolist() == pytest.approx(
        [0.9, 0.3, 0.3, 0.1]
    )


def test_a_ladder_without_reports_on_every_rung_has_no_distribution() -> None:
    profile = ladder()
    nothing = np.zeros(0, np.int64)
    (found,) = estimates(profile, DeviceTallyTable(*[nothing] * 6))
    assert distributions(found.estimates) == []
