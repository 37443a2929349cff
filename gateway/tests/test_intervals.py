# SPDX-License-Identifier: MIT
"""Intervals cover: exactly computed for few reports of equal weight, simulated for weights, at the ends of what is possible above all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from lab import chances_of

from peel_gateway.estimation.statistics import ReportCounts, capped, equal_devices, pro_rata, weighing
from peel_gateway.mechanisms.intervals import Triple, Weighing, chance_interval, difference_interval, wilson

Floats = npt.NDArray[np.float64]
Makers = tuple[Callable[..., Any], Callable[..., Any]]

CASES = [(0, 4, epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0)] + [
    (1, k, epsilon) for k in (2, 3) for epsilon in (0.5, 1.0, 4.0)
]
CASES += [(1, 16, 4.0)]
"""Harmony (0) and kRR (1), k, epsilon."""

TRIALS = 8000
LEAST = 0.95 - 3 * (0.95 * 0.05 / TRIALS) ** 0.5
"""95% less three standard errors of as many trials."""


def equal_weights(reports: int) -> Weighing:
    """So many reports, each counting once."""
    one = np.array([1.0])
    return Weighing(total=reports * one, effective=reports * one, doubt=0 * one, step=one / reports)


def coverage(reports: int, chances: tuple[float, float], weights: Weighing) -> Floats:
    """Exactly, of intervals from so many reports, for the mean chances where it is least (just outside an interval) and at both ends."""
    said = np.arange(reports + 1)
    low, high = chance_interval(said / reports, said / reports, weights, chances, chances)
    truth = np.clip(np.concatenate([chances, low - 1e-9, high + 1e-9]), *chances)[:, None]
    ways = np.array([float(comb(reports, x)) for x in said.tolist()])
    likely = ways * truth**said * (1 - truth) ** (reports - said)
    return np.asarray((likely * ((low <= truth) & (truth <= high))).sum(axis=1))


@pytest.mark.parametrize(("kind", "k", "epsilon"), CASES)
@pytest.mark.parametrize("reports", [1, 2, 5, 20, 100])
def test_intervals_cover_readings_and_shares_at_the_ends(
    profiles: Makers, kind: int, k: int, epsilon: float, reports: int
) -> None:
    """No simulation: the chances of all outcomes are added up."""
    profile = profiles[kind](k, epsilon=epsilon)
    chances = chances_of(profile)
    bottom, top, *between = coverage(reports, chances, equal_weights(reports)).tolist()
    assert bottom > 0.95 and top > 0.95 and min(between) > 0.945


def test_intervals_cover_any_chance() -> None:
    """The least coverage there is, for any chance and up to 150 reports: 94.5% for one report, 94.7% for more."""
    least = [coverage(reports, (0.0, 1.0), equal_weights(reports)).min() for reports in range(1, 151)]
    assert least[0] > 0.945 and min(least[1:]) > 0.947


def test_without_half_a_step_few_reports_would_not_be_covered() -> None:
    """Why ends are taken further out: Wilson's interval as it is covers the chance of a single report at 80%, of five at 84%."""
    for reports in (1, 2, 5):
        exact = equal_weights(reports)._replace(step=np.zeros(1))
        assert coverage(reports, (0.0, 1.0), exact).min() < 0.85


def test_wilson_against_published_values() -> None:
    """Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    trials = np.array([263.0, 148, 20, 29])
    low, high = wilson(np.array([81, 15, 0, 1]) / trials, trials)
    assert low == pytest.approx([0.2553, 0.0624, 0.0, 0.0061], abs=6e-5)
    assert high == pytest.approx([0.3662, 0.1605, 0.1611, 0.1718], abs=6e-5)


def test_half_a_step_against_published_values() -> None:
    """Newcombe (1998), table I, method 4 (score with continuity correction), of the same."""
    trials = np.array([263.0, 148, 20, 29])
    share = np.array([81, 15, 0, 1]) / trials
    weights = Weighing(total=trials, effective=trials, doubt=0 * trials, step=1 / trials)
    low, high = chance_interval(share, share, weights, (0.0, 1.0), (0.0, 1.0))
    assert low == pytest.approx([0.2535, 0.0598, 0.0, 0.0018], abs=6e-5)
    assert high == pytest.approx([0.3682, 0.1644, 0.2005, 0.1963], abs=6e-5)


FLEETS = {
    "few of the middle among many at the top": ([200] * 45 + [1] * 5, [1] * 45 + [0.5] * 5),
    "few at the bottom among many at the top": ([200] * 45 + [1] * 5, [1] * 45 + [0] * 5),
    "few of the middle among many at the bottom": ([200] * 45 + [1] * 5, [0] * 45 + [0.5] * 5),
    "three of the middle among thirty at the top": ([1] * 3 + [50] * 30, [0.5] * 3 + [1] * 30),
    "three at the top among thirty at the bottom": ([1] * 3 + [50] * 30, [1] * 3 + [0] * 30),
    "three of the middle among thirty at the top, all with many": ([100] * 3 + [10_000] * 30, [0.5] * 3 + [1] * 30),
    "one has a hundred, one has one": ([100, 1], [0.5, 1]),
    "one has a hundred, one has one, both at the top": ([100, 1], [1, 1]),
    "three devices with 1, 2 and 5": ([1, 2, 5], [1, 1, 1]),
    "three devices with 1, 2 and 5 at the bottom": ([1, 2, 5], [0, 0, 0]),
    "twenty devices with 1 to 20": (list(range(1, 21)), [0, 1] * 10),
    "forty devices with 1 to 1000": (list(range(1, 1001, 25)), [0] * 20 + [1] * 20),
    "ten devices with one each": ([1] * 10, [1] * 10),
}
"""Reports per device, and the mean reading of each from 0 (the least that is possible) to 1 (the most)."""


def weighings(reports: list[int]) -> Iterator[tuple[ReportCounts, Floats]]:
    """Means over devices, equal and pro rata, and over reports under two caps."""
    devices = len(reports)
    report_counts = ReportCounts(np.arange(devices), np.zeros(devices, np.int64), np.array(reports), 1)
    yield report_counts, equal_devices(report_counts)
    yield report_counts, pro_rata(report_counts)
    yield report_counts, capped(report_counts, 0.05)
    yield report_counts, capped(report_counts, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("fleet", FLEETS)
def test_weighted_intervals_cover(profiles: Makers, fleet: str) -> None:
    rng = np.random.default_rng(8)
    reports, readings = FLEETS[fleet]
    for kind, k, epsilon in CASES:
        profile = profiles[kind](k, epsilon=epsilon)
        chances = chances_of(profile)
        chance = chances[0] + np.array(readings) * (chances[1] - chances[0])
        for report_counts, weights in weighings(reports):
            said = rng.binomial(reports, chance, (TRIALS, len(reports)))
            share, lean = ((said @ each) / (reports @ each) for each in (weights, weights**2))
            truth = (chance * reports) @ weights / (reports @ weights)
            low, high = chance_interval(share, lean, weighing(report_counts, weights), chances, chances)
            covered = np.mean((low <= truth + 1e-12) & (truth - 1e-12 <= high))
            assert covered > LEAST, (kind, k, epsilon, weights)


def test_the_effective_number_alone_would_not_do(profiles: Makers) -> None:
    """Why the lean is looked at: where heavy reports vary more than the mean's chance lets one think, as those of three new devices do."""
    rng = np.random.default_rng(9)
    profile = profiles[0](4, epsilon=4.0)
    chances = chances_of(profile)
    reports, readings = FLEETS["three of the middle among thirty at the top"]
    report_counts, weights = next(weighings(reports))
    chance = chances[0] + np.array(readings) * (chances[1] - chances[0])
    said = rng.binomial(reports, chance, (TRIALS, len(reports)))
    share = (said @ weights) / (reports @ weights)
    naive = weighing(report_counts, weights)._replace(doubt=np.zeros(1))
    low, high = chance_interval(share, share, naive, chances, chances)
    truth = (chance * reports) @ weights / (reports @ weights)
    assert np.mean((low <= truth) & (truth <= high)) < 0.85


@pytest.mark.parametrize(("kind", "k", "epsilon"), CASES)
def test_a_share_beyond_the_range_is_taken_for_its_end(profiles: Makers, kind: int, k: int, epsilon: float) -> None:
    """All outcomes of up to 60 reports: the interval is never empty, and holds all of the range that one without regard to it holds."""
    profile = profiles[kind](k, epsilon=epsilon)
    least, most = chances = chances_of(profile)
    for reports in range(1, 61):
        share = np.arange(reports + 1) / reports
        low, high = chance_interval(share, share, equal_weights(reports), chances, chances)
        free_low, free_high = chance_interval(share, share, equal_weights(reports), chances, (0.0, 1.0))
        assert (np.minimum(high, most) - np.maximum(low, least) > 1e-3 * (most - least)).all()
        some = (free_low <= most) & (least <= free_high)
        assert (low <= np.maximum(free_low, least) + 1e-12)[some].all()
        assert (high >= np.minimum(free_high, most) - 1e-12)[some].all()


ANY = (0.0, 1.0)
FEW = [
    (1, 1),
    (1, 2),
    (2, 2),
    (3, 3),
    (3, 5),
    (1, 5),
    (2, 10),
    (5, 5),
    (5, 15),
    (15, 15),
    (30, 30),
    (10, 100),
    (100, 100),
]
"""Reports in two windows."""


def outcomes(reports: int, chances: tuple[float, float], within: tuple[float, float] = ANY) -> Triple:
    """All shares that so many reports can have, with their intervals."""
    share = np.arange(reports + 1) / reports
    low, high = chance_interval(share, share, equal_weights(reports), chances, within)
    return np.clip(share, *within), np.clip(low, *within), np.clip(high, *within)


def likelihoods(reports: int, chance: Floats) -> Floats:
    """Of each outcome (columns) at each chance (rows)."""
    ways = np.array([float(comb(reports, x)) for x in range(reports + 1)])
    said = np.arange(reports + 1)
    return np.asarray(ways * chance[:, None] ** said * (1 - chance[:, None]) ** (reports - said))


def change_coverage(first: int, second: int, chances: tuple[float, float], within: tuple[float, float] = ANY) -> float:
    """The least coverage of the difference of two chances, exactly, over a grid of both that has the ends."""
    chance = np.linspace(*chances, 31)
    before, after = outcomes(first, chances, within), outcomes(second, chances, within)
    half_step = np.array([0.5 / (first + second)])
    low, high = difference_interval((before[0][:, None], before[1][:, None], before[2][:, None]), after, half_step)
    truth = (chance[None] - chance[:, None])[:, :, None, None]
    covered = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
    return float(
        np.einsum(
            "ia,jb,ijab->ij", likelihoods(first, chance), likelihoods(second, chance), covered.astype(float)
        ).min()
    )


@pytest.mark.parametrize(("first", "second"), FEW)
def test_intervals_of_a_change_cover_with_few_reports_and_at_the_ends(
    profiles: Makers, first: int, second: int
) -> None:
    for kind, k, epsilon in CASES:
        profile = profiles[kind](k, epsilon=epsilon)
        assert change_coverage(first, second, chances_of(profile)) > 0.945, (kind, k, epsilon)
    assert change_coverage(first, second, ANY) > 0.945


def test_intervals_cut_off_at_the_range_would_not_cover_a_change() -> None:
    """Why a change is made from intervals that do not know the range."""
    chances = (0.27, 0.73)
    assert change_coverage(100, 100, chances, within=chances) < 0.8


@pytest.mark.slow
@pytest.mark.parametrize("fleet", FLEETS)
def test_weighted_intervals_of_a_change_cover(profiles: Makers, fleet: str) -> None:
    """Before, the fleet; afterwards the same devices with readings turned around, and with those that they had."""
    rng = np.random.default_rng(10)
    reports, readings = FLEETS[fleet]
    for kind, k, epsilon in CASES:
        profile = profiles[kind](k, epsilon=epsilon)
        chances = chances_of(profile)
        for report_counts, weights in weighings(reports):
            weighed = weighing(report_counts, weights)
            for later in (readings, 1 - np.array(readings)):
                (before, first), (after, second) = (
                    _drawn(rng, np.array(reports), np.array(each), chances, weights, weighed)
                    for each in (readings, later)
                )
                low, high = difference_interval(before, after, 0.25 / weighed.effective)
                covered = np.mean((low <= second - first + 1e-12) & (second - first - 1e-12 <= high))
                assert covered > 0.95 - 4 / 3 * (0.95 - LEAST), "four standard errors, because these are 66 comparisons"


def _drawn(
    rng: np.random.Generator,
    reports: npt.NDArray[np.int64],
    readings: Floats,
    chances: tuple[float, float],
    weights: Floats,
    weighed: Weighing,
) -> tuple[Triple, float]:
    """Draw shares of a fleet with their intervals; the second is the truth."""
    chance = chances[0] + readings * (chances[1] - chances[0])
    said = rng.binomial(reports, chance, (TRIALS, len(reports)))
    share, lean = ((said @ each) / (reports @ each) for each in (weights, weights**2))
    low, high = chance_interval(share, lean, weighed, chances, ANY)
    return (share, low, high), float((chance * reports) @ weights / (reports @ weights))


SPANS = [
    ([1], [1]),
    ([1], [1, 1, 20]),
    ([1, 5], [2]),
    ([1, 2, 5], [5, 2, 1]),
    ([100, 1], [1, 100]),
    ([3, 100], [1] * 5 + [200] * 20),
    ([1] * 3 + [50] * 30, [1, 2, 5]),
    ([1] * 10, [100, 1]),
    (list(range(1, 21)), list(range(20, 0, -1))),
]
"""Reports of each device in an earlier and in a later span. A device may be in one of them only."""
MOVES: list[tuple[Callable[[int], list[float]], Callable[[int], list[float]]]] = [
    (lambda n: [0.0] * n, lambda n: [1.0] * n),
    (lambda n: [1.0] * n, lambda n: [1.0] * n),
    (lambda n: [0.5] * n, lambda n: [0.5] * n),
    (lambda n: [1.0] + [0.0] * (n - 1), lambda n: [0.0] + [1.0] * (n - 1)),
    (lambda n: [0.5] + [1.0] * (n - 1), lambda n: [1.0] * (n - 1) + [0.5]),
    (lambda n: [float(i % 2) for i in range(n)], lambda n: [0.0] * n),
]
"""Mean readings of the devices in both spans, from 0 to 1."""


@pytest.mark.parametrize("kind", [0, 1], ids=["equal", "pro rata"])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_intervals_of_a_change_over_devices_cover(profiles: Makers, epsilon: float, kind: int) -> None:
    """Reports of devices weigh differently, and differently in both spans."""
    rng = np.random.default_rng(11)
    chances = chances_of(profiles[0](4, epsilon=epsilon))
    for spans in SPANS:
        for moves in MOVES:
            (before, first, one), (after, second, other) = (
                _over_devices(rng, np.array(reports), np.array(reading(len(reports))), chances, kind)
                for reports, reading in zip(spans, moves, strict=True)
            )
            low, high = difference_interval(before, after, 0.5 / (one.effective + other.effective))
            covered = np.mean((low <= second - first + 1e-12) & (second - first - 1e-12 <= high))
            assert covered > 0.945, (spans, before)


def _over_devices(
    rng: np.random.Generator, reports: npt.NDArray[np.int64], readings: Floats, chances: tuple[float, float], kind: int
) -> tuple[Triple, float, Weighing]:
    report_counts, weights = list(weighings(reports.tolist()))[kind]
    weighed = weighing(report_counts, weights)
    return *_drawn(rng, reports, readings, chances, weights, weighed), weighed
