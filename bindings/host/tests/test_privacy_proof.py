# SPDX-License-Identifier: MIT
"""The LDP guarantee as a statement about integers: the draws of C's coin are counted, and their odds compared with e^epsilon."""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from peel_core import ProfileError, hash_family, hashing
from peel_core.odds import EPSILON_MAX, EPSILON_ONE, Odds, odds_of, variance_cost
from peel_core.primitives import NO_READING, CoreBlock, Drbg, perturb

#: An even and a geometric grid from 0.005 to 5.58, between which every epsilon has odds.
GRID = sorted(
    set(range(EPSILON_ONE // 200, 558 * EPSILON_ONE // 100, 39_973))
    | {int(EPSILON_ONE * 0.005 * 1.05**i) for i in range(143)}
)
COINS = [
    Odds(8, 3, 2),
    Odds(8, 3, 3),
    Odds(13, 8, 5),
    Odds(22, 3, 10),
    Odds(255, 254, 3),
    Odds(2, 1, 4),
    Odds(255, 1, 13),
]


def exp_bounds(epsilon: int) -> tuple[Decimal, Decimal]:
    """Return rational bounds below and above e^(epsilon / 2^20)."""
    with localcontext(prec=60):
        value = (Decimal(epsilon) / EPSILON_ONE).exp()
        slack = Decimal(10) ** -55 * value
        return value - slack, value + slack


@pytest.mark.parametrize("outcomes", [2, 3, 10, 127, 1024])
def test_odds_are_private_and_precise_on_a_dense_grid(outcomes: int) -> None:
    for epsilon in GRID:
        odds, (below, _) = odds_of(epsilon, outcomes), exp_bounds(epsilon)
        assert 1 <= odds.change < odds.keep <= 255
        assert odds.keep <= odds.change * below, epsilon
        assert variance_cost(odds, epsilon) <= (0.05 if outcomes == 2 else 0.1) + 1e-9, epsilon


@pytest.mark.parametrize("epsilon", [EPSILON_ONE // 10, EPSILON_ONE, 4 * EPSILON_ONE])
def test_odds_are_private_for_every_number_of_outcomes(epsilon: int) -> None:
    below, _ = exp_bounds(epsilon)
    for outcomes in range(2, 1025, 7):
        odds = odds_of(epsilon, outcomes)
        assert odds.keep <= odds.change * below


def test_a_limit_of_the_total_gives_other_odds_or_none() -> None:
    assert odds_of(EPSILON_ONE, 2) == Odds(8, 3, 2) == odds_of(EPSILON_ONE, 2, most=11)
    with pytest.raises(ProfileError, match="total of at most 10, which verified coins need; use "):
        odds_of(EPSILON_ONE, 2, most=10)


@pytest.mark.parametrize(
    ("epsilon", "nearest"), [(1, "0.01"), (EPSILON_MAX, "5.58"), (EPSILON_MAX + 1, "5.58"), (0, "0.01")]
)
def test_an_epsilon_without_odds_names_the_nearest_that_has(epsilon: int, nearest: str) -> None:
    with pytest.raises(ProfileError, match=f"use {nearest}, the nearest") as caught:
        odds_of(epsilon, 2)
    assert caught.value.key == "epsilon"
    assert odds_of(int(Decimal(nearest) * EPSILON_ONE), 2)


def dealt(*words: int) -> Drbg:
    """Return a generator that gives exactly these words (four at most), to try any draw in C."""
    drbg = Drbg(bytes(range(32)))
    block = b"".join(word.to_bytes(4, "little") for word in words)
    with drbg.state() as state:
        state.block = list(block.rjust(16, b"\0"))
        state.left = len(block)
    return drbg


def sign_of(odds: Odds, reading: int, v: int, u: int) -> int:
    """Return 1 for plus, 0 for minus."""
    block = CoreBlock(1, 1, 1, 1, 0, odds.keep, odds.change)
    return 1 - perturb([block], 48, (0, 0), [reading], dealt(v, u))[1]


def chosen(odds: Odds, value: int, *words: int) -> int:
    block = CoreBlock(2, 1, 1, odds.outcomes, 0, odds.keep, odds.change)
    index, minus = perturb([block], 48, (0, 0), [value], dealt(*words))
    assert minus == 0
    return index


@pytest.mark.parametrize("odds", COINS, ids=str)
def test_the_coin_in_c_has_the_odds_by_count(odds: Odds) -> None:
    """Of all K draws, exactly `keep` keep an answer and `change` turn it into each other one: the ratio is keep / change."""
    table = [[0] * odds.outcomes for _ in range(odds.outcomes)]  # table[value][outcome]
    for value in range(odds.outcomes):
        for u in range(odds.total):
            table[value][chosen(odds, value, u)] += 1
    for value, row in enumerate(table):
        assert row == [odds.keep if outcome == value else odds.change for outcome in range(odds.outcomes)]
    for outcome in range(odds.outcomes):
        chances = [row[outcome] for row in table]
        assert Fraction(max(chances), min(chances)) == Fraction(odds.keep, odds.change)


@pytest.mark.parametrize("odds", COINS, ids=str)
def test_the_coin_in_c_draws_below_its_total(odds: Odds) -> None:
    """Words above the mask count by their low bits, and draws at or above K are repeated: what is left is uniform."""
    mask = 2 ** (odds.total - 1).bit_length() - 1
    for u in (0, odds.keep - 1, odds.keep, odds.total - 1):
        assert chosen(odds, 1, 2**32 - 1 - mask + u) == chosen(odds, 1, u)
    for refused in {odds.total, mask} - {odds.total - 1, mask + 1}:
        assert chosen(odds, 1, refused, refused, odds.keep) == chosen(odds, 1, odds.keep)


READINGS = [*range(-32768, 32769, 2570), -32767, -1, 0, 1, 32767, 32768, 40000, -40000, 2**31 - 1, 1 - 2**31]


@pytest.mark.parametrize(
    "odds", [odds for odds in COINS if odds.outcomes == 2] + [Odds(255, 254, 2), Odds(2, 1, 2)], ids=str
)
def test_a_sign_in_c_has_exactly_the_specified_probability(odds: Odds) -> None:
    """Count the words that round a reading up by the two at its threshold, and all draws for each rounding.

    The probability of a plus is linear in the reading, and the largest is keep / change times the smallest, exactly.
    """
    chances = []
    for reading in READINGS:
        up = (max(-32768, min(32768, reading)) + 32768) * 2**16  # words below this one round up
        words = [word for word in (0, up - 1, up, 2**32 - 1) if 0 <= word < 2**32]
        assert [sign_of(odds, reading, word, 0) for word in words] == [int(word < up) for word in words], reading
        kept, changed = (
            sum(sign_of(odds, reading, word, u) for u in range(odds.total)) if weight else 0
            for word, weight in ((0, up), (2**32 - 1, 2**32 - up))
        )
        plus = Fraction(up * kept + (2**32 - up) * changed, 2**32 * odds.total)
        x = Fraction(max(-32768, min(32768, reading)), 2**15)
        assert plus == Fraction(1, 2) + Fraction(odds.keep - odds.change, 2 * odds.total) * x
        chances.append(plus)
    assert max(chances) / min(chances) == Fraction(odds.keep, odds.change)
    assert (1 - min(chances)) / (1 - max(chances)) == Fraction(odds.keep, odds.change)


@pytest.mark.parametrize("word", [0, 2**31, 2**32 - 1])
def test_a_missing_reading_gives_one_symbol_whatever_the_coin(word: int) -> None:
    blocks = [CoreBlock(1, 1, 1, 1, 0, 3, 1), CoreBlock(2, 1, 1, 3, 0, 3, 1), CoreBlock(3, 1, 1, 2, 5, 3, 1)]
    for slot in range(3):
        words = (slot << 32) // 3 + 1, 99
        for others in (-5, 0, 32768):
            readings = [NO_READING if place == slot else others for place in range(3)]
            assert perturb(blocks, 7, words, readings, dealt(word, 1, 1)) == (6, 0)


@pytest.mark.parametrize(
    ("epsilon", "domain"),
    [(EPSILON_ONE // 4, 5), (EPSILON_ONE, 10), pytest.param(2 * EPSILON_ONE, 50, marks=pytest.mark.slow)],
)
def test_hashing_in_c_has_the_odds_by_count(epsilon: int, domain: int) -> None:
    """For every hash and category, all draws of C's coin are counted, as for a choice."""
    odds = odds_of(epsilon, hash_family.symbols(epsilon))
    k = odds.outcomes
    blocks = [CoreBlock(3, 1, 1, k, domain, odds.keep, odds.change)]
    count = hash_family.hash_count(k, domain)
    for hash_ in range(count):
        word = -(-hash_ * 2**32 // count)  # the first word that assigns this hash
        for category in range(domain):
            row = [0] * k
            for u in range(odds.total):
                row[perturb(blocks, 48, (0, word), [category], dealt(u))[0]] += 1
            value = int(hashing.hashed(hash_, category, k, domain))
            assert row == [odds.keep if outcome == value else odds.change for outcome in range(k)]
