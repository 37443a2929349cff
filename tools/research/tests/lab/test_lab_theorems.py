# SPDX-License-Identifier: MIT
"""The paper's theorems, by numbers: sampling leaves linear queries unbiased, adds Delta_n, and adds least where the paper says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lab_mechanisms import EACH, data, made
from numpy.typing import NDArray

from peel_research.lab.mechanisms import Harmony, Krr, Mechanism, Oue, Piecewise
from peel_research.lab.mechanisms.sampling import added, constant, drawn, least_added, most_added, proportional

ROWS, WIDTH, DRAWS = 4, 6, 60_000


def statistics(rng: np.random.Generator) -> NDArray[np.float64]:
    """Uneven ones, one of them zero."""
    t = rng.normal(size=(ROWS, WIDTH)) * np.geomspace(0.1, 3, WIDTH)
    t[:, 2] = 0
    return t


def chances(name: str, t: NDArray[Any], weights: NDArray[Any]) -> NDArray[np.float64]:
    sizes = {"even": np.ones_like(t), "squares": t**2 + 0.01, "best": np.abs(weights * t), "plain": np.abs(t)}[name]
    return np.asarray(sizes / sizes.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", ["even", "squares", "best", "plain"])
def test_whatever_the_probabilities_the_expectation_stays_and_the_formula_holds(name: str) -> None:
    rng = np.random.default_rng(1)
    weights, rows = np.linspace(0.5, 2, WIDTH), statistics(rng)
    p = chances(name, rows, weights)
    formula = added(rows, p, weights)
    for t, chance, expected in zip(rows, p, formula, strict=True):
        repeated = np.repeat(t[None], DRAWS, axis=0)
        sparse = drawn(repeated, chance, rng)
        dense = np.zeros((DRAWS, WIDTH))
        dense[np.arange(DRAWS), sparse.index] = sparse.value
        error = dense.std(axis=0) / np.sqrt(DRAWS)
        assert np.all(np.abs(dense.mean(axis=0) - t) <= 5 * error)
        squares = np.square(weights * (dense - t)).sum(axis=1)
        assert abs(squares.mean() - expected) <= 5 * squares.std() / np.sqrt(DRAWS)


def test_no_probabilities_add_less_than_those_proportional_to_the_weighted_magnitudes() -> None:
    rng = np.random.default_rng(2)
    weights, t = np.linspace(0.5, 2, WIDTH), statistics(rng)
    best = chances("best", t, weights)
    assert np.allclose(added(t, best, weights), least_added(t, weights))
    for _ in range(500):
        tried = np.where(t != 0, best * np.exp(rng.normal(scale=0.3, size=t.shape)), 0)
        assert np.all(added(t, tried / tried.sum(axis=1, keepdims=True), weights) >= least_added(t, weights))


def test_the_upper_bound_is_one_and_is_reached() -> None:
    t = statistics(np.random.default_rng(3))
    assert np.all(least_added(t) <= most_added(t))
    flat = np.array([[1.0, -1.0, 1.0, 1.0]])
    assert least_added(flat) == pytest.approx(most_added(flat))


@EACH
def test_delta_is_the_formula_over_the_mechanisms_own_reports(kind: type[Mechanism]) -> None:
    """The closed form against the paper's expression, averaged over 30,000 reports of the mechanism."""
    mechanism, rng = made(kind), np.random.default_rng(4)
    values = data(mechanism, 30_000, rng)
    t = mechanism.statistic(mechanism.perturb(values, rng))
    norm = np.square(t).sum(axis=1)
    sums = np.square(np.abs(t).sum(axis=1))
    assert abs(norm.mean() - mechanism.squared_norm(values)) <= 5 * norm.std() / np.sqrt(len(t)) + 1e-9
    assert abs(sums.mean() - mechanism.squared_sum(values)) <= 5 * sums.std() / np.sqrt(len(t)) + 1e-9
    assert sums.max() <= mechanism.bound**2 * (1 + 1e-9)
    assert mechanism.added_variance_free(values) <= mechanism.added_variance(values) * (1 + 1e-9)


@EACH
def test_nothing_is_added_to_what_is_sparse_already(kind: type[Mechanism]) -> None:
    mechanism, rng = made(kind), np.random.default_rng(5)
    values = data(mechanism, 200, rng)
    assert (mechanism.added_variance_free(values) == pytest.approx(0, abs=1e-12)) == mechanism.natural
    if mechanism.natural:
        reports = mechanism.perturb(values, rng)
        restored = mechanism.estimate_sparse(mechanism.sparse_free(reports, rng))
        assert np.allclose(restored, mechanism.estimate(reports))


def test_a_number_that_no_frame_carries_is_not_free() -> None:
    """Piecewise is 1-sparse and adds nothing to itself; with its sign alone it falls behind Harmony, which is made of signs."""
    values = np.random.default_rng(6).uniform(-1, 1, (100, 5))
    piecewise, harmony = Piecewise(1.0, 5), Harmony(1.0, 5)
    assert piecewise.added_variance_free(values) == 0
    assert piecewise.variance(values) + piecewise.added_variance(values) > 2 * harmony.variance(values)


def test_a_constant_magnitude_must_suffice() -> None:
    with pytest.raises(ValueError, match="beyond the bound"):
        constant(np.ones((1, 3)), 2.0, np.random.default_rng(7))


def test_a_report_of_zeros_stays_zero() -> None:
    rng = np.random.default_rng(8)
    assert proportional(np.zeros((5, 3)), rng).value.tolist() == [0.0] * 5
    assert abs(constant(np.zeros((40_000, 3)), 1.0, rng).value.mean()) < 5 / 200


def test_the_published_variances_come_out() -> None:
    """Wang et al. 2017: OUE's 4 e^eps / (e^eps - 1)^2 and kRR's (k - 2 + e^eps) / (e^eps - 1)^2, of a rare category and a report."""
    e, rows = np.e, np.zeros(1, np.int64)
    oue = Oue(1.0, 1000)
    assert oue.variance(rows) == pytest.approx(4 * e / (e - 1) ** 2, rel=2e-3)
    krr, odds = Krr(1.0, 1000), 8 / 3  # of epsilon 1: devices toss with these
    assert krr.variance(rows) == pytest.approx((1000 - 2 + odds) / (odds - 1) ** 2, rel=2e-3)
