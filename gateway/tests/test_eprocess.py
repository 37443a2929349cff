# SPDX-License-Identifier: MIT
"""The statistics layer: honest coins never, dishonest ones soon."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from lab import Makers

from peel_gateway.screening import eprocess

ALPHA = 1e-6
LIMIT = -np.log(ALPHA)


def running_counts(
    index: npt.NDArray[np.int64], plus: npt.NDArray[np.bool_], k: int, cohort: int = 1
) -> npt.NDArray[np.int64]:
    """Counts after every toss of one device, int64[tosses, k, 6]."""
    counts = np.zeros((len(index), k, 6), np.int64)
    for j in range(k):
        mine = index == j
        columns = (mine & plus, mine & ~plus, mine & (plus == (cohort > 0)), mine & (plus != (cohort > 0)), mine)
        for column, events in enumerate(columns):
            counts[:, j, column] = np.cumsum(events)
    return counts


def first_crossing(profile: Any, counts: npt.NDArray[np.int64]) -> int:
    """How many reports until the device is exposed; a number beyond them when it is not."""
    past = eprocess.log_wealth(profile, counts) >= LIMIT
    return int(np.argmax(past)) + 1 if past.any() else len(counts) + 1


def test_a_silent_device_has_what_its_process_begins_with(profiles: Makers) -> None:
    for profile in (profiles[0](4), profiles[1](5)):
        wealth = np.exp(eprocess.log_wealth(profile, np.zeros((3, profile.k, 6), np.int64)))
        assert wealth == pytest.approx(np.full(3, 7 / 8 if profile.mechanism == "harmony" else 1))


@pytest.mark.parametrize(("share", "most"), [(1.0, 60), (0.95, 160), (0.88, 400), (0.82, 1300)])
def test_a_biased_coin_is_exposed(profiles: Makers, share: float, most: int) -> None:
    rng = np.random.default_rng(7)
    profile = profiles[0](4)
    needed = [
        first_crossing(profile, running_counts(rng.integers(0, 4, 4000), rng.random(4000) < share, 4)) for _ in range(9)
    ]
    assert np.median(needed) <= most
    assert max(needed) <= 4000


@pytest.mark.parametrize("face", [True, False])
def test_honest_coins_at_the_extremes_are_never_exposed(profiles: Makers, face: bool) -> None:
    """1.2 million tosses, the wealth looked at after each of them."""
    rng = np.random.default_rng(11)
    profile = profiles[0](4)
    chance = (2**31 + profile.rule) / 2**32
    for _ in range(30):
        plus = (rng.random(20_000) < chance) == face
        counts = running_counts(rng.integers(0, 4, 20_000), plus, 4, cohort=1 if face else -1)
        assert not eprocess.crossed(profile, counts, ALPHA).any()


def test_the_expected_wealth_of_an_honest_device_is_at_most_one(profiles: Makers) -> None:
    """The supermartingale property itself, by enumerating every outcome of a few tosses at the extreme reading."""
    profile = profiles[0](2)
    chance = (2**31 + profile.rule) / 2**32
    expected = 0.0
    for outcome in range(4**4):
        counts = np.zeros((1, 2, 6), np.int64)
        probability = 1.0
        for toss in range(4):
            index, minus = outcome >> (2 * toss) & 1, outcome >> (2 * toss + 1) & 1
            probability *= 0.5 * (1 - chance if minus else chance)
            counts[0, index, minus] += 1
            counts[0, index, 3 if minus else 2] += 1
            counts[0, index, 4] += 1
        expected += probability * float(np.exp(eprocess.log_wealth(profile, counts)[0]))
    assert 0.6 < expected <= 1 + 1e-9  # the bets on plus and agreement are fair, those on the other faces lose


def test_a_bias_on_one_attribute_only(profiles: Makers) -> None:
    rng = np.random.default_rng(2)
    profile = profiles[0](16)
    index = rng.integers(0, 16, 4000)
    plus = np.where(index == 3, True, rng.random(4000) < 0.5)
    assert first_crossing(profile, running_counts(index, plus, 16)) < 1600
    counts = running_counts(index, plus, 16)[-1]
    assert eprocess.strongest(profile, counts).index == 3


def test_contradicting_the_cohort_everywhere(profiles: Makers) -> None:
    """Plus on half of the attributes and minus on the others looks even; against the cohort it does not."""
    profile = profiles[0](16)
    counts = np.zeros((1, 16, 6), np.int64)
    counts[0, :8, 0] = counts[0, 8:, 1] = 5
    counts[0, :, 3] = counts[0, :, 4] = 5
    assert eprocess.crossed(profile, counts, ALPHA)[0]
    assert eprocess.strongest(profile, counts[0]).name == "disagree"


def test_keeping_back_all_but_one_attribute(profiles: Makers) -> None:
    profile = profiles[0](16)
    counts = np.zeros((1, 16, 6), np.int64)
    counts[0, 5, 4] = 12
    counts[0, 5, :2] = 6
    assert eprocess.crossed(profile, counts, ALPHA)[0]


def test_gaps_that_are_always_the_same_attribute(profiles: Makers) -> None:
    profile = profiles[0](16)
    counts = np.zeros((2, 16, 6), np.int64)
    counts[0, 5, 5] = 12
    counts[1, :, 5] = 12
    assert eprocess.crossed(profile, counts, ALPHA).tolist() == [True, False]


def test_late_reports_that_are_always_the_same_attribute(profiles: Makers) -> None:
    """What was settled as missing, evenly, and comes after all, but only where it suits the device."""
    profile = profiles[0](16)
    counts = np.zeros((2, 16, 6), np.int64)
    counts[:, :, 5] = 12
    counts[0, 5, :2] = 6
    counts[1, :, :2] = 1
    assert eprocess.crossed(profile, counts, ALPHA).tolist() == [True, False]
    bet = eprocess.strongest(profile, counts[0])
    assert (bet.name, bet.index, bet.events, bet.trials) == ("late reports: too many", 5, 12, 12)
    assert bet.bound == pytest.approx(1 / 16)


def test_honest_loss_that_comes_late_is_exposed_with_probability_alpha_at_most(profiles: Makers) -> None:
    """Each missing number's attribute is counted twice, as a gap and when it comes late: the processes share alpha, not their bets."""
    rng = np.random.default_rng(12)
    profile = profiles[0](4)
    exposed = 0
    for _ in range(300):
        counts = np.zeros((2000, 4, 6), np.int64)
        for j, mine in enumerate(np.eye(4, dtype=bool)[rng.integers(0, 4, 2000)].T):
            plus = rng.random(2000) < 0.5
            counts[:, j, 5] = np.cumsum(mine)
            counts[:, j, 0], counts[:, j, 1] = np.cumsum(mine & plus), np.cumsum(mine & ~plus)
        exposed += bool(eprocess.crossed(profile, counts, 0.05).any())
    assert exposed <= 0.05 * 300


def test_krr_at_its_bounds_and_beyond(profiles: Makers) -> None:
    rng = np.random.default_rng(4)
    profile = profiles[1](4)
    wrong = (2**31 - profile.rule) / (4 * 2**31)
    honest = [1 - 3 * wrong, wrong, wrong, wrong]
    for shares, exposed in (
        (honest, False),
        ([1, 0, 0, 0], True),
        ([0.5, 0.5, 0, 0], True),
        ([0.8, 0.1, 0.1, 0], True),
    ):
        values = rng.choice(4, 20_000, p=shares)
        counts = np.zeros((20_000, 4, 6), np.int64)
        for value in range(4):
            counts[:, value, 0] = np.cumsum(values == value)
        assert eprocess.crossed(profile, counts, ALPHA).any() == exposed


def test_the_shortcut_agrees_with_the_whole_sum(profiles: Makers) -> None:
    rng = np.random.default_rng(9)
    profile = profiles[0](4)
    counts = rng.integers(0, 60, (2000, 4, 6))
    counts[..., 4] = (counts[..., 0] + counts[..., 1]) * rng.random((2000, 4))  # the rest is late
    whole = eprocess.log_wealth(profile, counts) >= LIMIT
    assert (eprocess.crossed(profile, counts, ALPHA) == whole).all()
    assert 0 < whole.sum() < 2000
