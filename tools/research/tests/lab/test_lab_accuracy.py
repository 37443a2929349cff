# SPDX-License-Identifier: MIT
"""The table of accuracy: every mechanism that fits the data, measured through the encoder, as theory says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from peel_research.lab.accuracy import Accuracy, accuracy, through_the_encoder
from peel_research.lab.data import LabData, load_data
from peel_research.lab.mechanisms import MECHANISMS
from peel_research.lab.mechanisms.sampling import Sparse
from peel_research.lab.spread import Spread

SEEDS = 60


@pytest.fixture(scope="module")
def data() -> LabData:
    whole = load_data(None)
    return replace(whole, values=whole.values[::10], category=whole.category[::10])


@pytest.fixture(scope="module")
def rows(data: LabData) -> list[Accuracy]:
    return list(accuracy(data, seeds=SEEDS))


@pytest.mark.slow
def test_every_mechanism_has_a_row(rows: list[Accuracy]) -> None:
    assert [row.mechanism for row in rows] == [kind.name for kind in MECHANISMS]


@pytest.mark.slow
def test_measured_is_expected(rows: list[Accuracy]) -> None:
    """MSE(PEEL) = MSE(LDP) + Delta_n: means over seeds within two and a half of their 95% intervals, about 5 standard errors."""
    for row in rows:
        for form, theory in (("plain", row.plain_theory), ("free", row.free_theory), ("peel", row.peel_theory)):
            spread: Spread = getattr(row, form)
            assert abs(spread.mean - theory) < 2.5 * (spread.high - spread.mean), (row.mechanism, form)


@pytest.mark.slow
def test_peel_costs_nothing_where_reports_are_signs_or_categories(rows: list[Accuracy]) -> None:
    """Not approximately: the estimates through the encoder are the same. Piecewise loses its number, the dense ones all but one entry."""
    same = {row.mechanism for row in rows if row.peel == row.plain}
    assert same == {"harmony", "duchi-1", "rr", "krr", "hashing", "hadamard", "subset-1"}
    assert all((row.added == 0) == (row.mechanism in same) for row in rows)
    assert all(row.peel.mean > 1.5 * row.plain.mean for row in rows if row.mechanism not in same)


def test_the_encoder_returns_what_was_sent(rng: np.random.Generator) -> None:
    sent = Sparse(rng.integers(300, size=5000), rng.choice([-2.5, 2.5], size=5000))
    for carried in (300, 100):
        back = through_the_encoder(sent, carried, 2.5)
        assert np.array_equal(back.index, sent.index)
        assert np.array_equal(back.value, sent.value)


def test_what_does_not_fit_the_data_is_left_out(data: LabData) -> None:
    """Subsets of two categories are pointless; more than a frame tells apart can only be hashed."""
    two = replace(data, category=data.category % 2, categories=("no", "yes"))
    names = {row.mechanism for row in accuracy(two, seeds=2)}
    assert names == {kind.name for kind in MECHANISMS} - {"subset", "subset-1"}
    many = replace(data, category=data.category * 500, categories=tuple(str(place) for place in range(2000)))
    shares = {row.mechanism for row in accuracy(many, seeds=2) if row.kind == "categorical"}
    assert shares == {"rr", "hashing"}
