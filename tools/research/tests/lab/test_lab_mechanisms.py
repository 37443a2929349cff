# SPDX-License-Identifier: MIT
"""Every mechanism of the lab keeps its budget, samples what it says, and estimates without bias, with the variance that it states."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from lab_mechanisms import EACH, EPSILON, data, extremes, made
from numpy.typing import NDArray

from peel_research.lab.mechanisms import MECHANISMS, Laplace, Mechanism, Rappor

ROUNDS = 300
ROWS = 1000


def finite(kind: type[Mechanism]) -> bool:
    """Whether its reports can be listed; the others are held by their moments alone."""
    return kind.outputs is not Mechanism.outputs


def likelihoods(mechanism: Mechanism, reports: NDArray[Any], inputs: NDArray[Any]) -> NDArray[np.float64]:
    """Of each report, float64[reports, inputs]."""
    columns = [mechanism.log_likelihood(reports, np.repeat(value[None], len(reports), axis=0)) for value in inputs]
    return np.stack(columns, axis=1)


@EACH
@pytest.mark.parametrize("size", [3, 4])
def test_no_report_tells_two_inputs_apart_by_more_than_epsilon(kind: type[Mechanism], size: int) -> None:
    mechanism, rng = made(kind, size), np.random.default_rng(1)
    inputs = extremes(mechanism)
    reports = (
        mechanism.outputs() if finite(kind) else mechanism.perturb(inputs[rng.integers(len(inputs), size=4000)], rng)
    )
    logs = likelihoods(mechanism, reports, inputs)
    worst = (logs.max(axis=1) - logs.min(axis=1)).max()
    assert worst <= mechanism.report_epsilon + 1e-12
    assert worst > 0.99 * mechanism.report_epsilon, "a budget that is not used up is accuracy lost"
    assert mechanism.report_epsilon <= EPSILON


@pytest.mark.parametrize("kind", [each for each in MECHANISMS if finite(each)], ids=lambda kind: kind.name)
@pytest.mark.parametrize("size", [3, 4])
def test_reports_are_drawn_as_likely_as_stated(kind: type[Mechanism], size: int) -> None:
    """A chi-square over all reports that there can be, within 5 standard deviations and a little."""
    mechanism, rng = made(kind, size), np.random.default_rng(2)
    reports = mechanism.outputs()
    for value in extremes(mechanism)[:3]:
        expected = np.exp(mechanism.log_likelihood(reports, np.repeat(value[None], len(reports), axis=0)))
        assert expected.sum() == pytest.approx(1)
        drawn = mechanism.perturb(np.repeat(value[None], 40_000, axis=0), rng)
        places = (drawn.reshape(len(drawn), 1, -1) == reports.reshape(1, len(reports), -1)).all(axis=2)
        assert places.sum() == len(drawn), "a report that cannot be"
        counts = places.sum(axis=0)
        chi_square = np.sum((counts - len(drawn) * expected) ** 2 / (len(drawn) * expected))
        degrees = len(reports) - 1
        assert chi_square < degrees + 5 * np.sqrt(2 * degrees) + 10


@EACH
def test_likelihoods_are_those_of_the_reports(kind: type[Mechanism]) -> None:
    """The mean of P(z | other input) / P(z | input) over reports of the input is 1, if both are what they say."""
    mechanism, rng = made(kind), np.random.default_rng(6)
    one, other = (np.repeat(value[None], 40_000, axis=0) for value in extremes(mechanism)[:2])
    reports = mechanism.perturb(one, rng)
    ratios = np.exp(mechanism.log_likelihood(reports, other) - mechanism.log_likelihood(reports, one))
    assert ratios.std() > 0.1
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(ratios))


def test_all_reports_of_a_rappor_device_spend_its_budget_together() -> None:
    """However many reports: they are made of the permanent bits, which are epsilon-private, and not of the category."""
    rappor, rng = Rappor(EPSILON, 5), np.random.default_rng(7)
    kept = rappor.permanent(np.zeros(1, np.int64), rng)
    reports = rappor.instantaneous(np.repeat(kept, 4000, axis=0), rng)
    assert np.array_equal(reports.mean(axis=0) > (rappor.one + rappor.zero) / 2, kept[0])
    assert np.log((1 - rappor.flip) / rappor.flip) * 2 == pytest.approx(EPSILON)


@EACH
@pytest.mark.parametrize("form", ["sparse", "sparse_free"])
def test_the_sparse_form_has_the_statistic_as_its_expectation(kind: type[Mechanism], form: str) -> None:
    """E[s | z] = t(z), for each of a few reports, entry by entry."""
    mechanism, rng = made(kind), np.random.default_rng(3)
    reports = mechanism.perturb(data(mechanism, 6, rng), rng)
    t = mechanism.statistic(reports)
    for report, expected in zip(reports, t, strict=True):
        drawn = getattr(mechanism, form)(np.repeat(report[None], 20_000, axis=0), rng)
        error = (
            np.abs(drawn.value).max()
            * np.sqrt(np.maximum(np.bincount(drawn.index, minlength=mechanism.width), 1))
            / 20_000
        )
        assert np.all(np.abs(drawn.mean(mechanism.width) - expected) <= 5 * error)


@EACH
def test_a_frame_can_carry_the_sparse_form(kind: type[Mechanism]) -> None:
    """An index and a sign, nothing else: all magnitudes are the same."""
    mechanism, rng = made(kind), np.random.default_rng(4)
    drawn = mechanism.sparse(mechanism.perturb(data(mechanism, 500, rng), rng), rng)
    assert np.allclose(np.abs(drawn.value), mechanism.bound)
    assert drawn.index.min() >= 0
    assert drawn.index.max() < mechanism.width


@cache
def errors(kind: type[Mechanism]) -> dict[str, NDArray[np.float64]]:
    """Errors of estimates over seeds: plain, from sparse reports, and from those with a magnitude of their own; float64[rounds, size]."""
    mechanism, rng = made(kind), np.random.default_rng(5)
    values = data(mechanism, ROWS, rng)
    found: dict[str, list[NDArray[np.float64]]] = {"plain": [], "sparse": [], "sparse_free": []}
    for _ in range(ROUNDS):
        reports = mechanism.perturb(values, rng)
        found["plain"].append(mechanism.estimate(reports))
        found["sparse"].append(mechanism.estimate_sparse(mechanism.sparse(reports, rng)))
        found["sparse_free"].append(mechanism.estimate_sparse(mechanism.sparse_free(reports, rng)))
    bias = mechanism.bias(values) if isinstance(mechanism, Laplace) else 0.0
    truth = {"plain": mechanism.truth(values), "sparse": mechanism.truth(values) + bias}
    return {form: np.array(each) - truth["plain" if form == "plain" else "sparse"] for form, each in found.items()}


@EACH
@pytest.mark.parametrize("form", ["plain", "sparse", "sparse_free"])
def test_estimates_are_unbiased(kind: type[Mechanism], form: str) -> None:
    """The mean error over seeds is within 5 of its standard errors of 0; Laplace's stated bias is part of what is expected."""
    found = errors(kind)[form]
    standard_error = found.std(axis=0) / np.sqrt(ROUNDS)
    assert np.all(np.abs(found.mean(axis=0)) < 5 * standard_error)


@EACH
@pytest.mark.parametrize("form", ["plain", "sparse", "sparse_free"])
def test_errors_are_as_large_as_theory_says(kind: type[Mechanism], form: str) -> None:
    """Mean squared errors over seeds, within 5 of their standard errors: MSE(PEEL) = MSE(LDP) + Delta_n."""
    mechanism = made(kind)
    values = data(mechanism, ROWS, np.random.default_rng(5))
    expected = mechanism.variance(values)
    if form == "sparse":
        expected += mechanism.added_variance(values)
    elif form == "sparse_free":
        expected += mechanism.added_variance_free(values)
    squares = np.square(errors(kind)[form]).mean(axis=1)
    assert abs(squares.mean() - expected) < 5 * squares.std() / np.sqrt(ROUNDS)


@EACH
def test_what_makes_no_sense_is_refused(kind: type[Mechanism]) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        kind(0.0, 5)
    with pytest.raises(ValueError, match="size"):
        kind(1.0, 0)
