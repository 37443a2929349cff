# SPDX-License-Identifier: MIT
"""The coin, the index and kRR against their exact distributions: chi-square with fixed seeds."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.typing import NDArray

from peel_core import Profile, derive_keys, encode_many, index_many, make_profile, open_many, projection
from peel_core.batch import Keyring
from peel_core.kinds import SIGN
from peel_core.primitives import READING_ONE, Drbg

SEED = bytes(range(7, 71))
MASTER = bytes(range(32))


def harmony(k: int, epsilon: float = 1.0, width: int = 48, seed: int = 1) -> Profile:
    attributes = [{"name": f"a{i}", "kind": "mean", "low": 0, "high": 1} for i in range(k)]
    return make_profile(
        {
            "name": "test",
            "epsilon": epsilon,
            "verify": False,
            "width": max(width, k),
            "seed": seed,
            "quota": 10,
            "period": 1,
            "attribute": attributes,
        }
    )


def krr(k: int, epsilon: float) -> Profile:
    attribute = {"name": "state", "kind": "category", "categories": [f"c{i}" for i in range(k)]}
    return make_profile(
        {
            "name": "test",
            "epsilon": epsilon,
            "verify": False,
            "width": max(48, k),
            "seed": 1,
            "quota": 10,
            "period": 1,
            "attribute": [attribute],
        }
    )


def report(profile: Profile, readings: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int8]]:
    """Encode through the real path, open and reconstruct."""
    count = len(readings)
    ids = np.ones(count, np.uint32)
    keys = derive_keys(MASTER, "f", ids, 1, bytes(16))
    numbers = np.arange(1, count + 1)
    frames = encode_many(profile, ids, keys, numbers, readings, entropy=SEED)
    keyring = Keyring([profile], [1], 1, [0], keys.of([0]))
    opened = open_many(keyring, [frames.tobytes()])
    assert np.all(opened.code == 0)
    gamma = projection.reconstruction(profile.seed, profile.width)
    found, sign, residual = projection.reconstruct(gamma, opened.trits)
    assert residual.max() < 1e-3
    if profile.blocks[0].form == SIGN:
        assert np.array_equal(found, opened.unit)
    return found, sign


def chi_square(observed: NDArray[np.int64], expected: NDArray[np.float64]) -> float:
    return float(np.sum((observed - expected) ** 2 / expected))


@pytest.mark.parametrize("reading", [-READING_ONE, -10000, 0, 1, 20000, READING_ONE, 2 * READING_ONE])
def test_coin(reading: int) -> None:
    profile, count = harmony(4), 40_000
    _, sign = report(profile, np.full((count, 4), reading, np.int32))
    x = np.clip(reading, -READING_ONE, READING_ONE) / READING_ONE
    plus = (1 + x * profile.blocks[0].true_share) / 2
    observed = np.array([np.sum(sign == 1), np.sum(sign == -1)])
    assert chi_square(observed, count * np.array([plus, 1 - plus])) < 15.1  # one degree of freedom, p = 1e-4


@pytest.mark.parametrize("k", [2, 3, 16, 252, 1000])
def test_index_is_uniform(k: int) -> None:
    count = 200 * k
    ids = np.full(count, 77, np.uint32)
    keys = derive_keys(MASTER, "f", ids, 1, bytes(16))
    drawn = index_many(harmony(k), ids, keys, np.arange(1, count + 1))
    statistic = chi_square(np.bincount(drawn, minlength=k), np.full(k, count / k))
    freedom = k - 1
    assert statistic < freedom + 4 * np.sqrt(2 * freedom) + 10
    assert statistic > freedom - 4 * np.sqrt(2 * freedom) - 10


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (3, 0.5), (10, 2.0), (100, 4.0)])
def test_krr_distribution(k: int, epsilon: float) -> None:
    profile, count, truth = krr(k, epsilon), 60_000, k // 2
    found, sign = report(profile, np.full(count, truth, np.int32))
    assert np.all(sign == 1)
    other = profile.blocks[0].change / profile.blocks[0].odds.total
    expected = np.full(k, count * other)
    expected[truth] = count * (1 - (k - 1) * other)
    freedom = k - 1
    assert chi_square(np.bincount(found, minlength=k), expected) < freedom + 4 * np.sqrt(2 * freedom) + 10


def test_estimate_is_unbiased() -> None:
    """The mean of the signs times the cap is the reading, within five standard errors."""
    profile, count, x = harmony(2), 100_000, 9830
    _, sign = report(profile, np.full((count, 2), x, np.int32))
    estimate = sign.mean() * profile.blocks[0].cap
    standard_error = profile.blocks[0].cap / np.sqrt(count)
    assert abs(estimate - x / READING_ONE) < 5 * standard_error


def test_same_entropy_same_bytes_and_other_entropy_other_coins() -> None:
    profile = harmony(4)
    ids = np.ones(64, np.uint32)
    keys = derive_keys(MASTER, "f", ids, 1, bytes(16))
    readings = np.zeros((64, 4), np.int32)

    def encode(entropy: bytes) -> bytes:
        return encode_many(profile, ids, keys, np.arange(1, 65), readings, entropy=entropy).tobytes()

    assert encode(SEED) == encode(SEED)
    assert encode(SEED) != encode(SEED[::-1])


def test_threads_that_share_a_generator_get_every_word_once() -> None:
    draws, size = 400, 4096
    alone, shared = Drbg(SEED), Drbg(SEED)
    expected = Counter(alone.bytes(size) for _ in range(draws))
    with ThreadPoolExecutor(8) as threads:
        drawn = Counter(threads.map(shared.bytes, [size] * draws))
    assert drawn == expected
