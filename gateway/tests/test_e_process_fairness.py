# SPDX-License-Identifier: MIT
"""No bet is expected to gain from an honest device: the supermartingale property, in exact fractions."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import pytest
from e_process_reference import (
    RECENT,
    BlockPart,
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

from peel_core.odds import odds_of
from peel_gateway.mechanisms.bets import FREQUENCIES, PREDICTIONS, Alphabet, bets_on

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
    """Bets on what a report says about its unit. Those of other blocks get nothing, and must not change."""
    mine = reference.block_of(unit)
    return [
        (bet, stake if block is mine else Fraction(0))
        for block in reference.blocks
        for bet, stake in block_stakes(block, unit - mine.block.first_unit if block is mine else 0)
    ]


def block_stakes(block: BlockPart, unit: int) -> Stakes:
    """Bets on what a report says about one of the block's own units."""
    stakes = sets_stakes(block.symbol_sets) if block.symbol_sets else []
    if predictions := block.predictions:
        share = next_share(predictions.clock)
        names = [PREDICTIONS[min(i, RECENT)].name for i in range(len(predictions.bets))]
        capital = [predictions.predictions.capital.get(name, 0.0) for name in names]
        stakes += [(bet, share * Fraction(each)) for bet, each in zip(predictions.bets, capital, strict=True)]
        alone = share * Fraction(predictions.predictions.unit_capital) / 2
        stakes += [(bet, alone) for pair in predictions.units[unit : unit + 1] for bet in pair]
    if part := block.heavy_hitters:
        share, parameters = next_share(part.clock), part.heavy_hitters
        for lists, each in ((part.bets, parameters.capital), (part.avoided_bets, parameters.avoided_capital)):
            stakes += [(bet, share * Fraction(each.window) / len(bets)) for bets in lists for bet in bets]
    for frequencies in block.frequencies:
        share, capitals = next_share(frequencies.clock), frequencies.frequencies.capital
        named = zip(FREQUENCIES, frequencies.bets, strict=True)
        stakes += [(bet, share * Fraction(capitals.get(row.name, 0.0))) for row, bet in named]
    return stakes


def clone(reference: Reference) -> Reference:
    """An independent copy (deepcopy takes most of the time otherwise)."""
    copied = Reference.__new__(Reference)
    copied.__dict__ = {name: _copy(value) for name, value in vars(reference).items()}
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, (BlockPart, PredictionsPart, SetsPart, HeavyHittersPart, FrequenciesPart, Capital)):
        result = type(value).__new__(type(value))
        result.__dict__ = {name: _copy(each) for name, each in vars(value).items()}
        return result
    if isinstance(value, dict):
        return {key: _copy(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_copy(each) for each in value]
    return tuple(map(_copy, value)) if isinstance(value, tuple) else value


def honest_coin(alphabet: Alphabet, reading: Fraction, unit: int) -> list[Fraction]:
    """Return an honest device's probability of each symbol: a sign, a category, or a hashed category (SPEC 6.1 to 6.3)."""
    keep, change, symbols = alphabet.odds
    total = alphabet.odds.total
    if alphabet.mechanism == "harmony":
        tilt = reading * Fraction(keep - change, total)
        return [(1 - tilt) / 2, (1 + tilt) / 2]
    categories = alphabet.categories or symbols
    value = int(abs(reading) * categories) % categories
    value = hashed(unit, value, symbols, alphabet.digits) if alphabet.digits else value
    return [Fraction(keep if symbol == value else change, total) for symbol in range(symbols)]


def alphabet_of(mechanism: str, k: int, epsilon: float) -> Alphabet:
    """A small one."""
    units, symbols = {"harmony": (k, 2), "krr": (1, k + 1), "hashing": (9, 3)}[mechanism]
    hashed_into = {"categories": k, "digits": 2} if mechanism == "hashing" else {}
    odds = odds_of(round(epsilon * 2**20), symbols)
    questions = units if mechanism == "harmony" else 1
    return Alphabet(mechanism=mechanism, units=units, questions=questions, odds=odds, **hashed_into)


ALPHABETS = st.builds(
    alphabet_of, st.sampled_from(["harmony", "krr", "hashing"]), st.integers(2, 5), st.sampled_from([0.1, 1.0, 4.0])
)


@st.composite
def profiles(draw: st.DrawFn) -> tuple[list[Alphabet], list[int]]:
    """One block or several, and the weights of their questions."""
    alphabets = draw(st.lists(ALPHABETS, min_size=1, max_size=3))
    questions = sum(alphabet.questions for alphabet in alphabets)
    weight = st.sampled_from([1, 1, 2, 7, 300])
    return alphabets, draw(st.lists(weight, min_size=questions, max_size=questions))


@pytest.mark.slow
@given(profiles(), st.integers(0, 2**32), st.integers(0, 200), st.fractions(-1, 1))
@settings(max_examples=40)
def test_no_honest_device_is_expected_to_gain(
    profile: tuple[list[Alphabet], list[int]], seed: int, length: int, reading: Fraction
) -> None:
    """From any state, over all outcomes of the next event, in rational numbers: each bet grows by what is put in, at most."""
    alphabets, weights = profile
    reference = Reference(bets_on(alphabets, weights))
    coins = [(alphabet, unit) for alphabet in alphabets for unit in range(alphabet.units)]
    rng = random.Random(seed)
    bias = rng.random()
    for number in range(1, length + 1):
        unit = rng.randrange(len(coins))
        symbols = coins[unit][0].symbols
        symbol = unit % symbols if rng.random() < bias else rng.randrange(symbols)
        kind = rng.choice(["fresh", "fresh", "fresh", "tardy", "gap"])
        reference.play(Event(number, unit, symbol, rng.choice([-1, 0, 1]), kind))
    for x in (Fraction(-1), reading, Fraction(1)):
        for unit, coin in enumerate(coins):
            chances = honest_coin(coin[0], x, coin[1])
            outcomes = [
                (chance, Event(length + 1, unit, symbol, unit % 3 - 1, "tardy"))
                for symbol, chance in enumerate(chances)
            ]
            check_fair(reference, outcomes, partial(said_stakes, unit=unit))
    asked = [unit for unit, (alphabet, own) in enumerate(coins) if own < alphabet.questions]
    assigned = [Fraction(words, 2**32) for words in words_for(weights)]
    for kind, part in (("fresh", "reports"), ("tardy", "late"), ("gap", "gaps")):
        if part in reference.sets:
            outcomes = [
                (chance, Event(length + 1, unit, 0, 0, kind)) for unit, chance in zip(asked, assigned, strict=True)
            ]
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


def words_for(weights: list[int]) -> list[int]:
    """Return how many of the 2^32 words assign each question: the one whose slots floor(w W / 2^32) falls into."""
    edges = [-(-slot * 2**32 // sum(weights)) for slot in accumulate(weights, initial=0)]
    return [end - begin for begin, end in pairwise(edges)]


@given(st.lists(st.integers(1, 65_535), min_size=2, max_size=300), st.randoms(use_true_random=False))
def test_the_bound_of_a_set_is_the_sum_of_its_chances(weights: list[int], rng: random.Random) -> None:
    """Never less than the exact probability, and hardly more."""
    weights[0] = weights[1] % 65_535 + 1  # else all may be alike
    sets = bets_on([alphabet_of("harmony", len(weights), 1.0)], weights).reports
    assert sets is not None
    predicted = rng.sample(range(len(weights)), rng.randrange(1, len(weights)))
    exact = Fraction(sum(words_for(weights)[item] for item in predicted), 2**32)
    bound = Fraction(SetsPart(sets).bound(predicted))
    assert exact <= bound <= (exact + Fraction(2 * len(predicted), 2**32)) * (1 + Fraction(1, 2**44))


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
