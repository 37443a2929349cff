# SPDX-License-Identifier: MIT
"""No bet is expected to gain from an honest device: the supermartingale property, in exact fractions."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from e_process_reference import (
    RECENT,
    Capital,
    Event,
    FrequenciesPart,
    HeavyHittersPart,
    PredictionsPart,
    Reference,
    SetsPart,
    hashed,
    put_in,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from peel_core.primitives import rule
from peel_gateway.mechanisms.bets import PREDICTIONS
from peel_gateway.mechanisms.categorical import hashing_bets, krr_bets
from peel_gateway.mechanisms.harmony import harmony_bets

Stakes = list[tuple[Capital, Fraction]]
"""Bets, and what the next event puts into each."""


def next_share(clock: int) -> Fraction:
    """Of a capital of 1, what the next toss puts in."""
    b = (clock + 1).bit_length() - 1
    share = Fraction(1, 2**b * (b + 1) * (b + 2))
    assert float(share) == put_in(clock + 1)
    return share


def sets_stakes(part: SetsPart) -> Stakes:
    share = next_share(part.clock)
    capital = [part.sets.capital.past] + [part.sets.capital.window] * part.sets.capital.windows
    return [
        (bet, share * Fraction(each) / len(bets))
        for each, bets in zip(capital, part.bets, strict=True)
        for _, bet in bets
    ]


def assigned_stakes(reference: Reference, part: str) -> Stakes:
    """Bets on the unit that a number assigns."""
    return sets_stakes(reference.sets[part])


def said_stakes(reference: Reference, unit: int) -> Stakes:
    """Bets on what a report says about its unit."""
    stakes = sets_stakes(reference.sets["symbol_sets"]) if "symbol_sets" in reference.sets else []
    if predictions := reference.predictions:
        share = next_share(predictions.clock)
        names = [PREDICTIONS[min(i, RECENT)].name for i in range(len(predictions.bets))]
        capital = [predictions.predictions.capital.get(name, 0.0) for name in names]
        stakes += [(bet, share * Fraction(each)) for bet, each in zip(predictions.bets, capital, strict=True)]
        alone = share * Fraction(predictions.predictions.unit_capital)
        stakes += [(bet, alone) for bet in predictions.units[unit : unit + 1]]
    if part := reference.heavy_hitters:
        share = next_share(part.clock) * Fraction(part.heavy_hitters.capital.window)
        stakes += [(bet, share / len(bets)) for bets in part.bets for bet in bets]
    if frequencies := reference.frequencies:
        share = next_share(frequencies.clock) * Fraction(frequencies.frequencies.capital)
        stakes += [(bet, share) for bet in frequencies.bets]
    return stakes


def clone(reference: Reference) -> Reference:
    """An independent copy (deepcopy takes most of the time otherwise)."""
    copied = Reference.__new__(Reference)
    copied.__dict__ = {name: _copy(value) for name, value in vars(reference).items()}
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, (PredictionsPart, SetsPart, HeavyHittersPart, FrequenciesPart, Capital)):
        result = type(value).__new__(type(value))
        result.__dict__ = {name: _copy(each) for name, each in vars(value).items()}
        return result
    if isinstance(value, dict):
        return {key: _copy(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copy(each) for each in value]
    return (value[0], _copy(value[1])) if isinstance(value, tuple) and len(value) == 2 else value


def honest_coin(tau: Fraction, symbols: int, mechanism: str, reading: Fraction, unit: int, k: int) -> list[Fraction]:
    """Return an honest device's probability of each symbol: a sign, a category, or a hashed category (SPEC 6.1 to 6.3)."""
    if mechanism == "harmony":
        return [(1 - reading * tau) / 2, (1 + reading * tau) / 2]
    value = int(abs(reading) * k) % k
    value = hashed(unit, value, 3, 2) if mechanism == "hashing" else value
    return [(1 - tau) / symbols + (tau if symbol == value else 0) for symbol in range(symbols)]


@pytest.mark.slow
@given(
    st.sampled_from(["harmony", "krr", "hashing"]),
    st.integers(2, 5),
    st.sampled_from([0.1, 1.0, 4.0]),
    st.integers(0, 2**32),
    st.integers(0, 200),
    st.fractions(-1, 1),
)
@settings(max_examples=60)
def test_no_honest_device_is_expected_to_gain(
    mechanism: str, k: int, epsilon: float, seed: int, length: int, reading: Fraction
) -> None:
    """From any state, over all outcomes of the next event, in rational numbers: each bet grows by what is put in, at most."""
    units, symbols = {"harmony": (k, 2), "krr": (1, k + 1), "hashing": (9, 3)}[mechanism]
    the_rule = rule(round(epsilon * 2**20), symbols)
    games = {
        "harmony": lambda: harmony_bets(k, the_rule),
        "krr": lambda: krr_bets(symbols, the_rule),
        "hashing": lambda: hashing_bets(k, 3, 2, the_rule),
    }
    reference = Reference(games[mechanism]())
    rng = random.Random(seed)
    bias = rng.random()
    for number in range(1, length + 1):
        unit = rng.randrange(units)
        symbol = unit % symbols if rng.random() < bias else rng.randrange(symbols)
        kind = rng.choice(["fresh", "fresh", "fresh", "tardy", "gap"])
        reference.play(Event(number, unit, symbol, rng.choice([-1, 0, 1]), kind))
    for x in (Fraction(-1), reading, Fraction(1)):
        for unit in range(units):
            chances = honest_coin(Fraction(the_rule, 2**31), symbols, mechanism, x, unit, k)
            outcomes = [
                (chance, Event(length + 1, unit, symbol, unit % 3 - 1, "tardy"))
                for symbol, chance in enumerate(chances)
            ]
            check_fair(reference, outcomes, partial(said_stakes, unit=unit))
    assigned = [Fraction(words_for(unit, units), 2**32) for unit in range(units)]
    for kind, part in (("fresh", "reports"), ("tardy", "late"), ("gap", "gaps")):
        if part in reference.sets:
            outcomes = [(chance, Event(length + 1, unit, 0, 0, kind)) for unit, chance in enumerate(assigned)]
            check_fair(reference, outcomes, partial(assigned_stakes, part=part))


def check_fair(
    reference: Reference, outcomes: list[tuple[Fraction, Event]], e_process: Callable[[Reference], Stakes]
) -> None:
    """No bet is expected to grow by more than is put in, over all outcomes of an event."""
    assert sum(chance for chance, _ in outcomes) == 1
    before = e_process(reference)
    expected = [-held(bet) for bet, _ in before]
    for chance, event in outcomes:
        after = clone(reference)
        after.play(event)
        expected = [sum_ + chance * held(bet) for sum_, (bet, _) in zip(expected, e_process(after), strict=True)]
    for growth, (_, stake) in zip(expected, before, strict=True):
        assert growth <= stake


def held(capital: Capital) -> Fraction:
    return sum(map(Fraction, capital.held), Fraction(0))


def words_for(unit: int, units: int) -> int:
    """Return how many of the 2^32 words assign this unit: J = floor(w k / 2^32)."""
    return -(-(unit + 1) * 2**32 // units) - -(-unit * 2**32 // units)


@given(
    st.lists(st.floats(2.0**-40, 2.0**20, width=32), min_size=8, max_size=8),
    st.floats(1e-12, 1e3),
    st.floats(0.001, 0.999),
)
def test_a_bet_is_fair_at_its_bound(held: list[float], stake: float, bound: float) -> None:
    """Never better for us than fair, and hardly worse: by less than what cutting to floats takes."""
    after = []
    for right in (True, False):
        capital = Capital()
        capital.held = list(held)
        capital.play(stake * 8, right, bound, 1)
        after.append(sum(map(Fraction, capital.held)))
    expected = Fraction(bound) * after[0] + (1 - Fraction(bound)) * after[1]
    had = sum(Fraction(value) + Fraction(stake) for value in held)
    assert had * (1 - Fraction(1, 2**22)) <= expected <= had


def test_what_is_put_in_adds_up_to_the_capital() -> None:
    """Each block of 2^b tosses gets 1/((b+1)(b+2)), which adds up to 1 - 1/(B+1)."""
    assert sum(map(put_in, range(1, 2**12))) == pytest.approx(1 - 1 / 13)
    assert put_in(2**31) == put_in(2**32 - 1) == pytest.approx(1 / (2**31 * 32 * 33))
