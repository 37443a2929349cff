# SPDX-License-Identifier: MIT
"""Estimates: unbiased, in units, and with intervals that cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lab import Lab, Makers

from peel_core import derive_keys, encode_many, open_many
from peel_core.batch import Keyring
from peel_core.projection import reconstruct, reconstruction
from peel_gateway.estimation.estimate import estimate, estimates
from peel_gateway.mechanisms.harmony import plain_means, ratio_means
from peel_gateway.mechanisms.intervals import wilson
from peel_gateway.mechanisms.krr import krr_frequencies


def harmony_counts(profile: Any, readings: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Plus and minus counts per attribute of one report for each row of readings on [-1, 1]."""
    index = rng.integers(0, profile.k, len(readings))
    chance = (1 + readings[np.arange(len(readings)), index] * profile.rule / 2**31) / 2
    plus = rng.random(len(readings)) < chance
    return np.bincount(index[plus], minlength=profile.k), np.bincount(index[~plus], minlength=profile.k)


@pytest.mark.parametrize("estimator", [ratio_means, plain_means])
def test_means_are_unbiased_and_their_intervals_cover(profiles: Makers, estimator: Any) -> None:
    """Readings differ between reports, as they do between devices: the truth is their mean, also of those not asked for an attribute."""
    rng = np.random.default_rng(1)
    profile = profiles[0](4)
    readings = np.clip(rng.normal([-0.7, 0.0, 0.4, 0.9], 0.4, (4000, 4)), -1, 1)
    truth = readings.mean(axis=0)
    errors, covered = [], []
    for _ in range(1500):
        mean, low, high = estimator(profile, *harmony_counts(profile, readings, rng))
        errors.append(mean - truth)
        covered.append((low <= truth) & (truth <= high))
    spread = np.std(errors, axis=0) / np.sqrt(len(errors))
    assert (np.abs(np.mean(errors, axis=0)) < 4 * spread).all()
    assert (np.mean(covered, axis=0) > 0.938).all()  # 0.95 less two standard errors of 1500 trials
    assert np.mean(covered) < 0.975


def test_the_published_estimator_has_less_variance(profiles: Makers) -> None:
    rng = np.random.default_rng(2)
    profile = profiles[0](4, epsilon=4.0)
    readings = np.full((2000, 4), 0.9)
    runs = [harmony_counts(profile, readings, rng) for _ in range(400)]
    ratio = np.std([ratio_means(profile, *run)[0] for run in runs])
    plain = np.std([plain_means(profile, *run)[0] for run in runs])
    assert ratio < 0.75 * plain


def test_frequencies_are_unbiased_and_their_intervals_cover(profiles: Makers) -> None:
    rng = np.random.default_rng(3)
    profile = profiles[1](4)
    truth = np.array([0.5, 0.3, 0.2, 0.0])
    values = np.repeat(np.arange(4), (truth * 3000).astype(int))
    keep = profile.rule / 2**31
    errors, covered = [], []
    for _ in range(800):
        sent = np.where(rng.random(len(values)) < keep, values, rng.integers(0, 4, len(values)))
        frequency, low, high = krr_frequencies(profile, np.bincount(sent, minlength=4))
        errors.append(frequency - truth)
        covered.append((low <= truth) & (truth <= high))
    spread = np.std(errors, axis=0) / np.sqrt(len(errors))
    assert (np.abs(np.mean(errors, axis=0)) < 4 * spread).all()
    assert (np.mean(covered, axis=0) > 0.935).all()


def test_the_real_encoder_is_estimated_without_bias(profiles: Makers, rng: np.random.Generator) -> None:
    """Reports through C: 40,000 of them, and the mean in its own unit."""
    profile = profiles[0](4)
    ids = np.ones(40_000, np.uint32)
    seal, index = derive_keys(b"k" * 32, "lab", ids[:1])
    keys = np.repeat(seal, len(ids), axis=0), np.repeat(index, len(ids), axis=0)
    readings = np.tile(np.array([-16384, 0, 8192, 32768], np.int32), (len(ids), 1))
    frames = encode_many(profile, ids, *keys, np.arange(1, len(ids) + 1), readings, entropy=rng.bytes(64))
    opened = open_many(Keyring([profile], [1], [0], seal, index), [frames.tobytes()])
    decoded, sign, _ = reconstruct(reconstruction(profile.seed, profile.width), opened.trits)
    plus = np.bincount(decoded[sign > 0], minlength=4)
    minus = np.bincount(decoded[sign < 0], minlength=4)
    none = np.zeros(4, np.int64)
    for figure, truth in zip(estimate(profile, plus, minus, none, none), (2.5, 5.0, 6.25, 10.0), strict=True):
        assert figure.unit == "C"
        assert abs(figure.published.value - truth) < 5 * 2.17 * 5 / np.sqrt(figure.n)  # type: ignore[operator]


def test_no_reports_no_figures(profiles: Makers) -> None:
    none = np.zeros(4, np.int64)
    for profile in (profiles[0](4), profiles[1](4)):
        for figure in estimate(profile, none, none, none, none):
            assert figure.n == 0
            assert figure.published.value is None and figure.plain.value is None


def test_wilson_against_published_values() -> None:
    """Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    low, high = wilson(np.array([81, 15, 0, 1]), np.array([263, 148, 20, 29]))
    assert low == pytest.approx([0.2553, 0.0624, 0.0, 0.0061], abs=6e-5)
    assert high == pytest.approx([0.3662, 0.1605, 0.1611, 0.1718], abs=6e-5)


def test_estimates_by_bucket_add_up(lab: Lab) -> None:
    for hour in range(3):
        lab.now = 1_700_000_400.0 + 3600 * hour
        lab.send(lab.frames(1, range(hour * 100 + 1, hour * 100 + 101), reading=0.5))
    buckets = estimates(lab.profiles[0], lab.store.tallies(lab.profiles[0].id, bucket_seconds=3600), 3600)
    (whole,) = lab.estimates()
    assert sum(bucket.n for bucket in buckets) == whole.n == 300
    assert all(bucket.seconds == 3600 for bucket in buckets) and whole.start is None
