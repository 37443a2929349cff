# SPDX-License-Identifier: MIT
"""Published intervals cover at least 94.5% of the time: each kind of attribute, few reports, weights, tags, both ends of the range.

`test_intervals.py` adds up the probabilities of all outcomes of few reports. These tests draw tallies of devices with a fixed seed and
estimate them. A profile has many attributes of one kind, all with the same truth, so one call has as many trials as it has attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from peel_core import Profile, make_profile
from peel_core.hashing import hashed
from peel_gateway.estimation.distribution import distributions
from peel_gateway.estimation.estimate import estimates
from peel_gateway.estimation.statistics import Reports, Statistics, equal_devices, equal_reports, over_devices
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.tables import DeviceTallyTable
from peel_gateway.queries.estimates import Tag

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

LEAST = 0.945
SIGNS, SIGN_ROUNDS = 240, 100
CHOICES, CHOICE_ROUNDS = 32, 600
HASHES, HASH_ROUNDS, DOMAIN = 32, 300, 24
LADDERS, LADDER_ROUNDS = 30, 35
RUNGS = [20.0, 40.0, 60.0, 80.0]


def profile_of(count: int, epsilon: float = 1.0, **attribute: Any) -> Profile:
    """Return a profile with many attributes that differ in their names alone."""
    head = {"name": "many", "epsilon": epsilon, "verify": False, "seed": 1, "quota": 60, "period": 3600}
    return make_profile(head | {"attribute": [{**attribute, "name": f"a{i}"} for i in range(count)]})


def table(device: Ints, cell: Ints, plus: Ints, minus: Ints) -> DeviceTallyTable:
    rows = np.flatnonzero(plus + minus)
    nothing = np.zeros(len(rows), np.int64)
    return DeviceTallyTable(nothing, device[rows], cell[rows], plus[rows], minus[rows], nothing)


def signs(profile: Profile, reports: Ints, chance: Floats, rng: np.random.Generator) -> DeviceTallyTable:
    """Draw signs: reports and chances of plus are [devices, questions]."""
    plus = rng.binomial(reports, chance)
    device, cell = np.indices(reports.shape).reshape(2, -1)
    return table(device, cell, plus.ravel(), (reports - plus).ravel())


def both_means(profile: Profile, tallies: DeviceTallyTable) -> tuple[Statistics, Statistics]:
    """Return the statistics over reports and over devices."""
    held = Reports.of(profile, tallies.device, tallies.index, tallies.plus, tallies.minus)
    return tuple(held.statistics(weigh(held.report_counts)) for weigh in (equal_reports, equal_devices))  # type: ignore[return-value]


def covers(found: Statistics, truth: Floats | float) -> npt.NDArray[np.bool_]:
    low, high = found.bounds.low, found.bounds.high
    return np.asarray((low <= truth + 1e-9) & (truth - 1e-9 <= high))


FLEETS: dict[str, tuple[Sequence[int], Sequence[float]]] = {
    "one report at the low end": ([1], [0]),
    "one report at the high end": ([1], [1]),
    "five reports in the middle": ([5], [0.5]),
    "unequal devices at the low end": ([1, 2, 5], [0, 0, 0]),
    "unequal devices at the high end": ([1, 2, 5], [1, 1, 1]),
    "unequal devices that differ": ([100, 1], [0.5, 1]),
    "many devices in the middle": ([50] * 10, [0.5] * 10),
    "many devices that differ": ([40] * 9 + [1], [0, 1, 0.5] * 3 + [1]),
}
"""Reports of each device, and its mean reading from 0 (the low end of the range) to 1."""


def fleet(name: str) -> tuple[Ints, Floats]:
    reports, readings = FLEETS[name]
    return np.array(reports), np.array(readings, np.float64)


@pytest.mark.parametrize("kind", ["mean", "above"])
@pytest.mark.parametrize("name", FLEETS)
def test_means_and_shares_above(name: str, kind: str) -> None:
    rng = np.random.default_rng(21)
    keys = {"low": -10, "high": 50} if kind == "mean" else {"thresholds": [26]}
    profile = profile_of(SIGNS, kind=kind, **keys)
    reports, readings = fleet(name)
    if kind == "above":
        readings = np.round(readings)  # a reading is above a threshold or not
    statistic = profile.statistics[0]
    truths = statistic.low + (statistic.high - statistic.low) * np.array(
        [(reports * readings).sum() / reports.sum(), readings.mean()]
    )
    keep = profile.blocks[0].true_share
    chance = np.repeat((1 + (2 * readings - 1) * keep)[:, None] / 2, SIGNS, axis=1)
    asked = np.repeat(reports[:, None], SIGNS, axis=1)
    covered = [
        [
            covers(found, truth).mean()
            for found, truth in zip(both_means(profile, signs(profile, asked, chance, rng)), truths, strict=True)
        ]
        for _ in range(SIGN_ROUNDS)
    ]
    assert np.mean(covered, axis=0).min() >= LEAST


@pytest.mark.parametrize("kind", ["mean", "category"])
@pytest.mark.parametrize("name", [*FLEETS, "twenty devices at four rates"])
def test_means_over_devices_with_verified_coins(name: str, kind: str) -> None:
    """Devices weigh pro rata. The truth is the mean of the readings under the same weights."""
    rng = np.random.default_rng(27)
    counts, means = FLEETS.get(name, ([60, 30, 15, 2] * 5, [0.1, 0.9, 0.5, 1.0] * 5))
    reports, readings = np.array(counts), np.array(means, np.float64)
    if kind == "category":
        readings = np.round(readings)
    keys = {"low": 0, "high": 1} if kind == "mean" else {"categories": ["no", "yes"]}
    questions = SIGNS if kind == "mean" else CHOICES
    profile = replace(profile_of(questions, kind=kind, **keys), offline=3600)
    keep = profile.blocks[0].true_share
    chance = np.repeat((1 + (2 * readings - 1) * keep)[:, None] / 2, questions, axis=1)
    asked = np.repeat(reports[:, None], questions, axis=1)
    typical = np.sort(reports)[len(reports) // 2]
    truth = np.average(readings, weights=np.minimum(reports, 2 * typical))
    covered = []
    for _ in range(SIGN_ROUNDS if kind == "mean" else CHOICE_ROUNDS):
        tallies = signs(profile, asked, chance, rng)
        if kind == "category":  # yes is the second cell of its question, no the first
            no = table(tallies.device, 2 * tallies.index, tallies.minus, 0 * tallies.minus)
            yes = table(tallies.device, 2 * tallies.index + 1, tallies.plus, 0 * tallies.plus)
            tallies = DeviceTallyTable(
                *(np.concatenate(pair) for pair in zip(*(vars(each).values() for each in (no, yes)), strict=True))
            )
        held = Reports.of(profile, tallies.device, tallies.index, tallies.plus, tallies.minus)
        found = held.statistics(over_devices(profile, held.report_counts))
        of = slice(None) if kind == "mean" else slice(1, None, 2)
        covered.append(covers(found, truth)[of].mean())
    assert np.mean(covered) >= LEAST


@pytest.mark.parametrize("total", [600, 20_000])
@pytest.mark.parametrize("reading", [0.0, 0.5, 1.0])
def test_attributes_with_weights(total: int, reading: float) -> None:
    """A tenth of the attributes weigh 16. The others share few reports: about one each of 600."""
    rng = np.random.default_rng(22)
    head = {"name": "many", "epsilon": 1.0, "verify": False, "seed": 1, "quota": 60, "period": 3600}
    rows = [
        {"kind": "mean", "name": f"a{i}", "low": -10, "high": 50, "weight": 16 if i < SIGNS // 10 else 1}
        for i in range(SIGNS)
    ]
    profile = make_profile(head | {"attribute": rows})
    weights = np.repeat([block.weight for block in profile.blocks], [block.questions for block in profile.blocks])
    keep = profile.blocks[0].true_share
    heavy, light = [], []
    for _ in range(SIGN_ROUNDS):
        asked = rng.multinomial(total, weights / weights.sum())[None]
        tallies = signs(profile, asked, np.full(asked.shape, (1 + (2 * reading - 1) * keep) / 2), rng)
        found = both_means(profile, tallies)[0]
        covered = covers(found, -10 + 60 * reading)
        heavy.append(covered[weights == 16].mean())
        light.append(covered[(weights == 1) & (asked[0] > 0)].mean())
    assert min(np.mean(heavy), np.mean(light)) >= LEAST


SHARES = {"at the ends": [1.0, 0.0, 0.0, 0.0], "between": [0.5, 0.3, 0.2, 0.0]}


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("reports", [[1], [2, 2], [5, 1], [60, 3, 1]], ids=str)
def test_shares_of_categories(reports: list[int], shares: str) -> None:
    """The states of each device are fixed counts; only the coins are drawn again."""
    rng = np.random.default_rng(23)
    profile = profile_of(CHOICES, kind="category", categories=["a", "b", "c", "d"])
    keep = profile.blocks[0].true_share
    device = np.repeat(np.arange(len(reports)), reports)
    states = np.concatenate([_fixed(np.roll(SHARES[shares], i), n) for i, n in enumerate(reports)])
    truths = true_shares(device, states, 4)
    attribute = np.repeat(np.arange(CHOICES), len(device))
    said_by, true = np.tile(device, CHOICES), np.tile(states, CHOICES)
    one = np.ones(len(true), np.int64)
    covered = []
    for _ in range(CHOICE_ROUNDS):
        said = np.where(rng.random(len(true)) < keep, true, rng.integers(0, 4, len(true)))
        tallies = table(said_by, 4 * attribute + said, one, 0 * one)
        covered.append(
            [
                covers(found, np.tile(truth, CHOICES)).reshape(CHOICES, 4).mean(axis=0)
                for found, truth in zip(both_means(profile, tallies), truths, strict=True)
            ]
        )
    assert np.mean(covered, axis=0).min() >= LEAST


@pytest.mark.slow
@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("reports", [[1], [5, 1], [60, 3, 1]], ids=str)
def test_shares_of_hashed_categories(reports: list[int], shares: str) -> None:
    """Four of 24 categories are looked at, one of which no device has."""
    rng = np.random.default_rng(24)
    profile = profile_of(HASHES, kind="hashed", domain=DOMAIN)
    device = np.repeat(np.arange(len(reports)), reports)
    states = np.concatenate([_fixed(np.roll(SHARES[shares], i), n) for i, n in enumerate(reports)])
    truths = true_shares(device, states, DOMAIN)
    covered = []
    for _ in range(HASH_ROUNDS):
        cells = np.concatenate([_hashed_cells(profile, block, states, rng) for block in range(len(profile.blocks))])
        one = np.ones(len(cells), np.int64)
        tallies = table(np.tile(device, HASHES), cells, one, 0 * one)
        covered.append(
            [
                covers(found, np.tile(truth, HASHES)).reshape(HASHES, DOMAIN)[:, [0, 1, 2, 23]].mean(axis=0)
                for found, truth in zip(both_means(profile, tallies), truths, strict=True)
            ]
        )
    assert np.mean(covered, axis=0).min() >= LEAST


def _fixed(shares: npt.ArrayLike, count: int) -> Ints:
    """Return so many states whose shares are as near as possible to these."""
    places = (np.arange(count) + 0.5) / count
    return np.searchsorted(np.cumsum(shares), places - 1e-12).astype(np.int64)


def true_shares(device: Ints, states: Ints, count: int) -> tuple[Floats, Floats]:
    """Return the true shares over reports and over devices."""
    own = [np.bincount(states[device == each], minlength=count) / np.sum(device == each) for each in np.unique(device)]
    return np.bincount(states, minlength=count) / len(states), np.mean(own, axis=0)


def _hashed_cells(profile: Profile, place: int, states: Ints, rng: np.random.Generator) -> Ints:
    """Return the cells of one report per state: a random hash, and the randomized symbol of the state under it."""
    block = profile.blocks[place]
    hashes = rng.integers(0, block.units, len(states))
    keep = rng.random(len(states)) < block.true_share
    symbols = np.where(
        keep, hashed(hashes, states, block.symbols, block.domain), rng.integers(0, block.symbols, len(states))
    )
    return np.asarray(block.first_cell + hashes * block.symbols + symbols)


READINGS: dict[str, Sequence[float]] = {
    "spread": [5, 15, 25, 35, 45, 55, 65, 75, 85, 95],
    "at the low end": [0],
    "at the high end": [100],
    "on a rung": [40],
    "just above a rung": [40.001],
}


@pytest.mark.slow
@pytest.mark.parametrize("per_rung", [1, 300])
@pytest.mark.parametrize("data", READINGS)
def test_medians_quantiles_and_shares_above_any_threshold(data: str, per_rung: int) -> None:
    rng = np.random.default_rng(25)
    profile = profile_of(LADDERS, kind="ladder", low=0, high=100, rungs=RUNGS)
    readings = np.array(READINGS[data])
    share = np.array([(readings > rung).mean() for rung in RUNGS])
    keep = profile.blocks[0].true_share
    chance = np.tile((1 + (2 * share - 1) * keep) / 2, LADDERS)[None]
    asked = np.full(chance.shape, per_rung)
    covered = []
    for _ in range(LADDER_ROUNDS):
        (found,) = estimates(profile, signs(profile, asked, chance, rng))
        covered += [_covered(each, readings) for each in distributions(found.estimates)]
    assert len(covered) == LADDERS * LADDER_ROUNDS
    assert np.mean(covered, axis=0).min() >= LEAST


def _covered(found: Any, readings: Floats) -> list[bool]:
    """Whether the intervals of quantiles and of shares above thresholds hold the truth."""
    told = []
    for part in (0.05, 0.25, 0.5, 0.75, 0.95):
        low, high = (np.quantile(readings, part, method=method) for method in ("lower", "higher"))
        quantile = found.quantile(part)
        told.append(bool(quantile.low <= high and low <= quantile.high))
    for threshold in (0.0, 33.3, 40.0, 71.0, 100.0):
        above, truth = found.share_above(threshold), float((readings > threshold).mean())
        told.append(bool(above.low <= truth + 1e-9 and truth - 1e-9 <= above.high))
    return told


@pytest.mark.parametrize("members", [[0], [1, 3], [0, 1, 2, 3]], ids=str)
def test_the_devices_of_a_tag(members: list[int]) -> None:
    """Four devices that differ in readings and in their number of reports. A tag has some of them."""
    rng = np.random.default_rng(26)
    profile = profile_of(SIGNS, kind="mean", low=0, high=1)
    assert questions_of(profile).count == SIGNS
    reports, readings = np.array([3, 10, 50, 200]), np.array([1.0, 0.0, 0.5, 0.9])
    keep = profile.blocks[0].true_share
    chance = np.repeat((1 + (2 * readings - 1) * keep)[:, None] / 2, SIGNS, axis=1)
    asked = np.repeat(reports[:, None], SIGNS, axis=1)
    truths = (np.average(readings[members], weights=reports[members]), readings[members].mean())
    tag = Tag("roof", frozenset(members))
    covered = [
        [
            covers(found, truth).mean()
            for found, truth in zip(
                both_means(profile, tag.part_of(signs(profile, asked, chance, rng))), truths, strict=True
            )
        ]
        for _ in range(SIGN_ROUNDS)
    ]
    assert np.mean(covered, axis=0).min() >= LEAST
