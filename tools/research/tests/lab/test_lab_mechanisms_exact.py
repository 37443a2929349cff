# SPDX-License-Identifier: MIT
"""Expectations and variances of the lab's mechanisms without chance: sums over all reports, or integrals over them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lab_mechanisms import EACH, EPSILON, made
from numpy.typing import NDArray

from peel_research.lab.mechanisms import Laplace, Mechanism, Piecewise, Sphere

Floats = NDArray[np.float64]

POINTS = 20_001
"""Of an integral over one number; odd, so that none falls on an edge."""


def midpoints(low: float, high: float, count: int) -> tuple[Floats, float]:
    """Return the points at which an integral is sampled, and the width of each piece."""
    step = (high - low) / count
    return np.asarray(low + (np.arange(count) + 0.5) * step, np.float64), step


def all_reports(mechanism: Mechanism) -> tuple[NDArray[Any], Floats]:
    """Every report, or a fine grid of them, and what each one's density has to be multiplied with."""
    if isinstance(mechanism, Piecewise):
        numbers, step = midpoints(-mechanism.bound, mechanism.bound, POINTS)
        attribute = np.repeat(np.arange(mechanism.size), POINTS)
        return np.stack([attribute, np.tile(numbers, mechanism.size)], axis=1), np.full(len(attribute), step)
    if isinstance(mechanism, Sphere):
        assert mechanism.size == 2
        angle, _ = midpoints(0, 2 * np.pi, POINTS)
        return np.stack([np.cos(angle), np.sin(angle)], axis=1), np.full(POINTS, 1 / POINTS)
    if isinstance(mechanism, Laplace):
        assert mechanism.size == 2
        noisy, step = midpoints(-15 * mechanism.scale, 15 * mechanism.scale, 601)
        grid = np.stack(np.meshgrid(noisy, noisy), axis=-1).reshape(-1, 2)
        return grid, np.full(len(grid), step**2)
    reports = mechanism.outputs()
    return reports, np.ones(len(reports))


def some_inputs(mechanism: Mechanism) -> NDArray[Any]:
    if mechanism.kind == "categorical":
        return np.arange(mechanism.size)
    corner, inside = np.ones(mechanism.size), np.linspace(-0.9, 0.6, mechanism.size)
    return np.stack([corner, inside, -corner])


def estimates(mechanism: Mechanism, t: Floats) -> Floats:
    """Return the estimate from each report alone, float64[N, size]. `decode` is affine, so unit vectors determine it."""
    nothing = mechanism.decode(np.zeros(mechanism.width))
    matrix = np.stack([mechanism.decode(unit) for unit in np.eye(mechanism.width)]) - nothing
    return np.asarray(nothing + t @ matrix)


def small(kind: type[Mechanism], size: int) -> Mechanism:
    return made(kind, 2 if kind in (Sphere, Laplace) else size)


@EACH
@pytest.mark.parametrize("size", [3, 4])
def test_one_report_estimates_without_bias_and_varies_as_stated(kind: type[Mechanism], size: int) -> None:
    mechanism = small(kind, size)
    reports, weights = all_reports(mechanism)
    t = reports if kind is Laplace else mechanism.statistic(reports)  # its plain estimate is not clipped
    each = estimates(mechanism, t)
    for value in some_inputs(mechanism):
        chance = weights * np.exp(mechanism.log_likelihood(reports, np.repeat(value[None], len(reports), axis=0)))
        assert chance.sum() == pytest.approx(1, abs=1e-3)
        truth = mechanism.truth(value[None])
        assert np.allclose(chance @ each, truth, atol=2e-3)
        assert chance @ np.square(each - truth).mean(axis=1) == pytest.approx(mechanism.variance(value[None]), rel=2e-3)


@EACH
def test_what_sampling_adds_is_the_papers_sum(kind: type[Mechanism]) -> None:
    """sum_j t_j^2 (1/p_j - 1) over all reports, with the best p, and B^2 - sum_j t_j^2 with a constant magnitude B."""
    mechanism = Laplace(EPSILON, 2, tail=0.05) if kind is Laplace else small(kind, 4)
    reports, weights = all_reports(mechanism)
    t = mechanism.statistic(reports)
    norm, total = np.square(t).sum(axis=1), np.abs(t).sum(axis=1) ** 2
    assert total.max() <= mechanism.bound**2 * (1 + 1e-12)
    for value in some_inputs(mechanism):
        chance = weights * np.exp(mechanism.log_likelihood(reports, np.repeat(value[None], len(reports), axis=0)))
        assert chance @ norm == pytest.approx(mechanism.squared_norm(value[None]), rel=2e-3)
        assert chance @ total == pytest.approx(mechanism.squared_sum(value[None]), rel=2e-3)


def test_clipping_leaves_the_bias_that_is_stated() -> None:
    """With a tail that is large enough to be seen; at the default one it is below a thousandth of the noise's scale."""
    clipped = Laplace(EPSILON, 2, tail=0.05)
    reports, weights = all_reports(clipped)
    for value in some_inputs(clipped):
        chance = weights * np.exp(clipped.log_likelihood(reports, np.repeat(value[None], len(reports), axis=0)))
        bias = chance @ clipped.statistic(reports) - value
        assert np.abs(bias).max() > 0.01
        assert np.allclose(bias, clipped.bias(value[None]), atol=2e-3)
    usual = Laplace(EPSILON, 2)
    assert np.abs(usual.bias(np.ones((1, 2)))).max() <= usual.scale * usual.tail
