# SPDX-License-Identifier: MIT
"""PEEL as its paper writes it: what its wire loses, what its residual exposes and what it does not."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from peel_core import projection
from peel_research.lab.mechanisms import Harmony, Piecewise
from peel_research.lab.paper import Exposure, PaperCode, exposures, report_bits, signs_only, wire


@cache
def outcomes(k: int) -> dict[str, Exposure]:
    return {row.attack: row for row in exposures(k, seeds=2, messages=100)}


def test_the_pattern_is_the_papers() -> None:
    """Plus or minus sqrt(k - 1) at one place, minus or plus 1 / sqrt(k - 1) elsewhere, and Gamma takes it back."""
    code = PaperCode(5, seed=1, exact=True)
    decoded = code.codebook @ code.gamma.T
    assert np.allclose(decoded[3], [-0.5, -0.5, -0.5, 2, -0.5])
    assert np.allclose(decoded[8], [0.5, 0.5, 0.5, -2, 0.5])


def test_bits_are_those_of_the_formula() -> None:
    assert report_bits(252) == 2008
    assert len(np.unique(PaperCode(16, seed=1).codebook)) <= 2**4


@pytest.mark.parametrize("k", [8, 16, 64])
def test_the_wire_is_not_lossless(k: int) -> None:
    """Honest reports come back with a large residual, some as other reports; only if nothing is rounded do all come back."""
    figures = wire(k, seeds=10)
    assert figures.least_residual > 0.2
    assert figures.wrong > 0.01
    assert figures.exact_residual < 1e-8


def test_a_wide_wire_loses_less_and_still_cannot_tell_small_changes() -> None:
    figures = wire(252, seeds=2)
    assert figures.residual > 0.1
    assert outcomes(252)["noise on y, 1%"].exposed < 0.5


def test_ours_is_lossless() -> None:
    """The same question to the encoder that devices have: what is left is the rounding of the gateway's float32."""
    _, ours = projection.search_seed(252, 252)
    assert ours.decodes
    assert ours.honest_residual < wire(252, seeds=2).least_residual / 1000


@pytest.mark.parametrize("k", [8, 64])
@pytest.mark.parametrize("attack", ["another report (output poisoning)", "always one report", "replay", "negation"])
def test_what_stays_in_the_codebook_is_never_exposed(k: int, attack: str) -> None:
    """Not even by real numbers on the wire; and nearly all of it is believed."""
    outcome = outcomes(k)[attack]
    assert outcome.exposed == outcome.exposed_exact == 0
    assert outcome.unseen_exact > 0.8


@pytest.mark.parametrize("k", [8, 64])
def test_another_budget_leaves_the_very_same_message(k: int) -> None:
    """Normalising a report within itself takes away how much it weighs."""
    code = PaperCode(k, seed=1, exact=True)
    assert np.allclose(code.encode(3.7 * np.eye(k)), code.codebook[:k], atol=1e-12)
    assert outcomes(k)["another budget"].exposed_exact == 0


@pytest.mark.parametrize("attack", ["noise on y, 1%", "noise on y, 10%", "random message", "another Phi"])
def test_what_leaves_the_codebook_is_exposed_where_nothing_is_rounded(attack: str) -> None:
    """The residual's claim holds without rounding. On the wire that the paper describes, rounding hides small changes."""
    outcome = outcomes(64)[attack]
    assert outcome.exposed_exact == 1
    assert outcome.unseen_exact == 0
    assert outcomes(64)["noise on y, 1%"].exposed < 0.1


def test_no_honest_report_is_exposed_or_changed_by_an_exact_wire() -> None:
    for k in (8, 64):
        assert outcomes(k)["none"].exposed == outcomes(k)["none"].exposed_exact == 0
        assert outcomes(k)["none"].unseen_exact == 0


def test_reports_whose_magnitude_matters_are_biased_without_it() -> None:
    """Piecewise reports a number: with its sign alone the estimate is off; Harmony's has no magnitude to lose."""
    values = np.full((100_000, 2), 0.9)
    piecewise, harmony = Piecewise(2.0, 2), Harmony(2.0, 2)
    error = np.sqrt(piecewise.variance(values))
    figures = signs_only(piecewise, values)
    assert abs(figures.with_magnitude - figures.truth) < 5 * error
    assert abs(figures.from_signs - figures.truth) > 8 * error
    assert signs_only(harmony, values).from_signs == pytest.approx(signs_only(harmony, values).with_magnitude)
