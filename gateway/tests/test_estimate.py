# SPDX-License-Identifier: MIT
"""Estimates: unbiased, in units, within their range, over reports and over devices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lab import Lab, Makers

from peel_core import derive_keys, encode_many, open_many
from peel_core.batch import Keyring
from peel_core.projection import reconstruct, reconstruction
from peel_gateway.estimation.estimate import Choice, anonymous, changes, estimates
from peel_gateway.mechanisms.harmony import plain_means
from peel_gateway.model.tables import DeviceTallyTable
from peel_gateway.queries.estimates import EstimateQuestion, estimate_tables
from peel_gateway.queries.parameters import QueryError


def tallies(device: Any, index: Any, plus: Any, minus: Any, withdrawn: Any = 0) -> DeviceTallyTable:
    """Rows in one bucket; what is given once holds for all."""
    columns = np.broadcast_arrays(0, device, index, plus, minus, withdrawn)
    return DeviceTallyTable(*(np.array(column, np.int64).ravel() for column in columns))


def estimate(profile: Any, *rows: Any, **options: Any) -> tuple[Any, ...]:
    """A profile's estimates from rows; not typed, since those without reports have no values."""
    (found,) = estimates(profile, tallies(*rows), **options)
    return found.estimates


def harmony_counts(profile: Any, readings: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Plus and minus counts per attribute of one report for each row of readings on [-1, 1]."""
    index = rng.integers(0, profile.k, len(readings))
    chance = (1 + readings[np.arange(len(readings)), index] * profile.blocks[0].true_share) / 2
    plus = rng.random(len(readings)) < chance
    return np.bincount(index[plus], minlength=profile.k), np.bincount(index[~plus], minlength=profile.k)


def krr_counts(profile: Any, values: Any, rng: np.random.Generator) -> Any:
    """Return how many reports name each category, with one report for each value."""
    keep = rng.random(len(values)) < profile.blocks[0].true_share
    return np.bincount(np.where(keep, values, rng.integers(0, profile.k, len(values))), minlength=profile.k)


def assert_right(errors: Any, covered: Any, least: float) -> None:
    """No bias beyond four standard errors, and coverage no less than `least`."""
    spread = np.std(errors, axis=0) / np.sqrt(len(errors))
    assert (np.abs(np.mean(errors, axis=0)) < 4 * spread).all()
    assert (np.mean(covered, axis=0) > least).all()
    assert np.mean(covered) < 0.98


@pytest.mark.slow
def test_means_are_unbiased_and_their_intervals_cover(profiles: Makers) -> None:
    """Readings differ between reports, as they do between devices: the truth is their mean, also of those not asked for an attribute."""
    rng = np.random.default_rng(1)
    profile = profiles[0](4)
    readings = np.clip(rng.normal([-0.7, 0.0, 0.4, 0.9], 0.4, (4000, 4)), -1, 1)
    truth = 5 + 5 * readings.mean(axis=0)
    errors, covered = [], []
    for _ in range(1500):
        found = estimate(profile, 1, range(4), *harmony_counts(profile, readings, rng))
        errors.append([row.published.unclipped.value for row in found] - truth)
        covered.append(
            [
                row.published.within.low <= mean <= row.published.within.high
                for row, mean in zip(found, truth, strict=True)
            ]
        )
    assert_right(errors, covered, 0.938)  # 0.95 less two standard errors of 1500 trials


def test_plain_means_are_unbiased_and_their_intervals_cover(profiles: Makers) -> None:
    rng = np.random.default_rng(2)
    profile = profiles[0](4)
    readings = np.clip(rng.normal([-0.6, 0.0, 0.3, 0.5], 0.3, (4000, 4)), -1, 1)
    truth = readings.mean(axis=0)
    errors, covered = [], []
    for _ in range(1500):
        plus, minus = (each.astype(float) for each in harmony_counts(profile, readings, rng))
        mean, low, high = plain_means(profile.blocks[0], profile.slots, float((plus + minus).sum()), plus, minus)
        errors.append(mean - truth)
        covered.append((low <= truth) & (truth <= high))
    assert_right(errors, covered, 0.938)


def test_the_published_estimator_has_less_variance(profiles: Makers) -> None:
    rng = np.random.default_rng(3)
    profile = profiles[0](4, epsilon=4.0)
    readings = np.full((2000, 4), 0.8)
    runs = [estimate(profile, 1, range(4), *harmony_counts(profile, readings, rng)) for _ in range(200)]
    ratio = np.std([row.published.within.value for run in runs for row in run])
    plain = np.std([row.plain.value for run in runs for row in run])
    assert ratio < 0.75 * plain


@pytest.mark.slow
def test_frequencies_are_unbiased_and_their_intervals_cover(profiles: Makers) -> None:
    rng = np.random.default_rng(4)
    profile = profiles[1](4)
    truth = np.array([0.5, 0.3, 0.2, 0.0])
    values = np.repeat(np.arange(4), (truth * 3000).astype(int))
    errors, covered = [], []
    for _ in range(800):
        found = estimate(profile, 1, range(4), krr_counts(profile, values, rng), 0)
        errors.append([row.published.unclipped.value for row in found] - truth)
        covered.append(
            [
                row.published.within.low <= mean <= row.published.within.high
                for row, mean in zip(found, truth, strict=True)
            ]
        )
        assert all(row.plain == row.published.within for row in found)
    assert_right(errors, covered, 0.935)


def test_the_real_encoder_is_estimated_without_bias(profiles: Makers, rng: np.random.Generator) -> None:
    """Reports through C: 40,000 of them, and the mean in its own unit."""
    profile = profiles[0](4)
    ids = np.ones(40_000, np.uint32)
    keys = derive_keys(b"k" * 32, "lab", ids, 1, bytes(16))
    readings = np.tile(np.array([-16384, 0, 8192, 32768], np.int32), (len(ids), 1))
    frames = encode_many(profile, ids, keys, np.arange(1, len(ids) + 1), readings, entropy=rng.bytes(64))
    opened = open_many(Keyring([profile], [1], 1, [0], keys.of([0])), [frames.tobytes()])
    decoded, sign, _ = reconstruct(reconstruction(profile.seed, profile.width), opened.trits)
    plus = np.bincount(decoded[sign > 0], minlength=4)
    minus = np.bincount(decoded[sign < 0], minlength=4)
    for row, truth in zip(estimate(profile, 1, range(4), plus, minus), (2.5, 5.0, 6.25, 10.0), strict=True):
        assert row.about.unit == "C"
        assert abs(row.published.unclipped.value - truth) < 7 * 2.17 * 5 / np.sqrt(row.n)


def test_no_reports_no_figures(profiles: Makers) -> None:
    for profile in (profiles[0](4), profiles[1](4)):
        for row in estimate(profile, [], [], [], []):
            assert row.n == row.devices == row.published.effective == 0
            assert row.published.within.value is row.published.influence is row.published.edge is None
            assert row.over_devices.within.value is row.plain.value is row.before.value is None


def test_no_reports_no_buckets(profiles: Makers) -> None:
    assert estimates(profiles[0](3), tallies([], [], [], []), 300) == []


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_no_value_outside_its_interval_and_no_empty_interval(profiles: Makers, kind: int, epsilon: float) -> None:
    """Whatever was reported, by however few, weighed down or not: low <= value <= high within the range, and low < high."""
    rng = np.random.default_rng(5)
    profile = profiles[kind](4, epsilon=epsilon)
    for _ in range(60):
        devices = rng.integers(1, 6)
        plus, minus = rng.integers(0, 2 ** rng.integers(1, 9), (2, devices, 4)) * rng.integers(0, 2, (2, devices, 4))
        minus = minus if kind == 0 else np.zeros_like(minus)
        rows = (np.arange(1, devices + 1)[:, None], np.arange(4), plus, minus)
        for row in estimate(profile, *rows, share_cap=rng.choice([1.0, 0.3])):
            figures = [figure for figure in (row.published, row.over_devices) if row.n]
            for inner in [row.plain, row.before][: 2 * bool(row.n)] + [figure.within for figure in figures]:
                assert row.range[0] <= inner.low <= inner.value <= inner.high <= row.range[1]
                assert inner.low < inner.high
            for figure in figures:
                outer = figure.unclipped
                assert outer.low <= outer.value <= outer.high
                moved = outer.value != figure.within.value
                assert (figure.edge == "value") == moved
                assert moved or (figure.edge == "interval") == (outer.low < row.range[0] or outer.high > row.range[1])


def test_a_category_that_was_reported_is_never_nought_for_certain(profiles: Makers) -> None:
    """3 of 1000 reports say c3, where 175 would by chance alone: the estimate is below 0, and the interval must still say something."""
    *_, rare = estimate(profiles[1](4), 1, range(4), [400, 300, 297, 3], 0)
    assert rare.published.within.value == rare.published.within.low == 0
    assert 0.01 < rare.published.within.high < 0.2
    assert rare.published.edge == "value"
    assert rare.published.unclipped.high < 0


def test_a_mean_over_devices_is_not_one_over_reports(profiles: Makers) -> None:
    """Device 1 has 3300 reports of a low reading, nine others 110 each of a high one: multiples of 11, so that counts are whole."""
    profile = profiles[0](4)
    share = (1 + np.array([-0.8, *[0.6] * 9]) * profile.blocks[0].true_share) / 2
    reports = np.array([3300, *[110] * 9])
    plus = np.round(share * reports).astype(int)
    row = estimate(profile, range(1, 11), 0, plus, reports - plus)[0]
    assert (row.n, row.devices) == (4290, 10)
    assert (row.published.over, row.over_devices.over) == ("reports", "devices")
    assert row.published.within.value == pytest.approx(5 + 5 * (3300 * -0.8 + 990 * 0.6) / 4290, abs=0.05)
    assert row.over_devices.within.value == pytest.approx(5 + 5 * (-0.8 + 9 * 0.6) / 10, abs=0.05)
    assert row.published.effective == 4290
    assert row.over_devices.effective == pytest.approx(100 / (1 / 3300 + 9 / 110))
    (held, *_), (equal, *_) = (
        estimate(profile, range(1, 11), 0, plus, reports - plus, share_cap=cap) for cap in (0.25, 0)
    )
    assert held.published.within.value == pytest.approx(5 + 5 * (0.25 * -0.8 + 0.75 * 0.6), abs=0.05)
    assert (held.published.influence_share, held.published.influence_device) == (pytest.approx(0.25), 1)
    assert equal.published.within.value == pytest.approx(row.over_devices.within.value)


def test_with_verified_coins_devices_weigh_pro_rata(profiles: Makers) -> None:
    """A device that fell silent after 10 good reports weighs a tenth of one with 100, and one with 3000 twice as much as those."""
    profile = replace(profiles[0](4), offline=3600)
    reports = np.array([10, *[100] * 6, 3000])
    plus = np.array([10, *[50] * 6, 1500])
    (row, *_) = estimate(profile, range(1, 9), 0, plus, reports - plus)
    part = np.array([0.05, *[0.5] * 6, 1])
    cap = profile.blocks[0].cap
    assert row.over_devices.unclipped.value == pytest.approx(5 + 5 * cap * part[0] / part.sum())
    assert row.over_devices.effective == pytest.approx(part.sum() ** 2 / (part**2 / reports).sum())
    share = 1 / part.sum()
    assert (row.over_devices.influence_share, row.over_devices.influence_device) == (pytest.approx(share), 8)
    assert row.over_devices.influence == pytest.approx(10 * cap * share)
    span = tallies(range(1, 9), 0, plus, reports - plus)
    (change, *_) = changes(profile, span, span, known=True)
    assert change.over_devices is not None
    assert change.over_devices.before.value == change.over_devices.after.value == row.over_devices.within.value
    once = estimate(profiles[0](4), range(1, 9), 0, plus, reports - plus)[0]
    assert once.over_devices.unclipped.value == pytest.approx(5 + 5 * cap / 8), "other coins: each device once"


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("cap", [1.0, 0.3])
def test_influence_is_how_far_the_reports_of_one_device_reach(profiles: Makers, kind: int, cap: float) -> None:
    """Replace the reports of any device by all that is possible: none moves a figure further, and the one that is named moves it as far."""
    rng = np.random.default_rng(6)
    profile = profiles[kind](4)
    device, index = np.repeat(np.arange(1, 6), 4), np.tile(np.arange(4), 5)
    reports = rng.integers(1, 40, 20)
    plus = rng.integers(0, reports + 1) if kind == 0 else reports
    found = estimate(profile, device, index, plus, reports - plus, share_cap=cap)
    reached = np.zeros((6, 4))
    for who in range(1, 6):
        for figure in range(4):
            values = []
            for speaks in (False, True):
                changed = np.where(device == who, reports * speaks, plus)
                cells = index
                if kind == 1:  # all that it says is this category, or another one
                    changed, cells = reports, np.where(device == who, figure if speaks else (figure + 1) % 4, index)
                row = estimate(profile, device, cells, changed, reports - changed, share_cap=cap)[figure]
                values.append(row.published.unclipped.value)
            reached[who, figure] = values[1] - values[0]
    for figure, row in enumerate(found):
        assert row.published.influence == pytest.approx(reached[:, figure].max())
        assert row.published.influence_device == reached[:, figure].argmax()
        scale = profile.blocks[0].cap * (row.range[1] - row.range[0])
        assert row.published.influence == pytest.approx(scale * row.published.influence_share)
        assert row.over_devices.influence == pytest.approx(scale / 5)
        assert row.over_devices.influence_device is None


def test_what_reports_say_changes_no_weight(profiles: Makers) -> None:
    rng = np.random.default_rng(7)
    reports = rng.integers(1, 300, 12)
    seen = set()
    for _ in range(5):
        plus = rng.integers(0, reports + 1)
        row = estimate(profiles[0](4), range(12), 0, plus, reports - plus, share_cap=0.15)[0]
        seen.add((row.published.effective, row.published.influence_share, row.published.influence_device))
    assert len(seen) == 1


def test_withdrawn_devices_leave_every_figure(profiles: Makers) -> None:
    row = estimate(profiles[0](4), [1, 2, 3], 0, [10, 20, 500], [10, 10, 0], [0, 0, 1], share_cap=0.5)[0]
    without = estimate(profiles[0](4), [1, 2], 0, [10, 20], [10, 10], share_cap=0.5)[0]
    assert (row.n, row.devices, row.withdrawn) == (50, 2, 500)
    assert (row.published, row.over_devices, row.plain) == (without.published, without.over_devices, without.plain)
    assert row.before.value == 10 > row.published.within.value > without.before.low


def test_tallies_without_devices_give_the_same_means_over_reports(lab: Any) -> None:
    lab.send([frame for device in (1, 2, 3) for frame in lab.frames(device, range(1, 50 * device), reading=0.5)])
    lab.send(lab.frames(3, [900], odds=(5, 1)))
    profile = lab.profiles[0]
    (known,) = estimates(profile, lab.store.device_tallies(profile.id))
    (quick,) = estimates(profile, anonymous(lab.store.tallies(profile.id)), known=False)
    assert (quick.n, quick.withdrawn, quick.devices) == (known.n, known.withdrawn, None) == (148, 149, None)
    for one, other in zip(known.estimates, quick.estimates, strict=True):
        assert (one.n, one.withdrawn, one.plain, one.before) == (other.n, other.withdrawn, other.plain, other.before)
        assert (one.published.within, one.published.unclipped) == (other.published.within, other.published.unclipped)
        assert other.devices is None and other.over_devices is None
        assert other.published.influence is None and other.published.influence_device is None


def test_estimates_by_bucket_add_up(lab: Lab) -> None:
    for hour in range(3):
        lab.now = 1_700_000_400.0 + 3600 * hour
        lab.send(lab.frames(1, range(hour * 100 + 1, hour * 100 + 101), reading=0.5))
    buckets = estimates(lab.profiles[0], lab.store.device_tallies(lab.profiles[0].id, bucket_seconds=3600), 3600)
    (whole,) = lab.estimates()
    assert sum(bucket.n for bucket in buckets) == whole.n == 300
    assert all(bucket.seconds == 3600 for bucket in buckets) and whole.start is None


def test_an_answer_that_would_fill_the_memory_is_refused(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for hour in range(3):
        lab.now = 1_700_000_400.0 + 3600 * hour
        lab.send(lab.frames(1, range(hour * 100 + 1, hour * 100 + 11)))
    monkeypatch.setattr("peel_gateway.queries.estimates.MOST_FIGURES", 11)
    for devices in (True, False):
        question = EstimateQuestion(lab.profiles[0], None, None, 3600, devices, Choice())
        with pytest.raises(QueryError, match="bucket: 3 buckets have 12 figures, more than 11"):
            estimate_tables(lab.store, question, 1.0)
        assert len(estimate_tables(lab.store, replace(question, choice=Choice(name="a1")), 1.0)) == 3
        assert len(estimate_tables(lab.store, replace(question, bucket_seconds=None), 1.0)) == 1
