# SPDX-License-Identifier: MIT
"""The LDP guarantee as a statement about integers, compared with e^epsilon to 60 digits."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest

from peel_core import hash_family, hashing
from peel_core.primitives import EPSILON_ONE, NO_READING, RULE_ONE, CoreBlock, Drbg, perturb, rule

#: 0.001 to 16: every power-of-two neighbourhood, an even grid, and a geometric one.
GRID = sorted(
    {max(1, (1 << bit) + d) for bit in range(25) for d in (-1, 0, 1) if (1 << bit) + d <= 16 * EPSILON_ONE}
    | set(range(EPSILON_ONE // 1000, 16 * EPSILON_ONE + 1, 9973))
    | {int(EPSILON_ONE * 0.001 * 1.01**i) for i in range(973)}
)


def exp_bounds(epsilon: int) -> tuple[Decimal, Decimal]:
    """Return rational bounds below and above e^(epsilon / 2^20)."""
    with localcontext() as context:
        context.prec = 60
        value = (Decimal(epsilon) / EPSILON_ONE).exp()
        slack = Decimal(10) ** -55 * value
        return value - slack, value + slack


def is_private(rule_: int, k: int, bound: Decimal) -> bool:
    """Whether (2^31 + (k-1) R) / (2^31 - R) <= bound, without division."""
    with localcontext() as context:
        context.prec = 90
        return Decimal(RULE_ONE + (k - 1) * rule_) <= Decimal(RULE_ONE - rule_) * bound


def test_harmony_is_private_and_tight_on_a_dense_grid() -> None:
    assert len(GRID) > 2500
    assert GRID[-1] == 16 * EPSILON_ONE
    for epsilon in GRID:
        below, above = exp_bounds(epsilon)
        tau = rule(epsilon, 2)
        assert is_private(tau, 2, below), epsilon
        assert not is_private(tau + 1, 2, above), epsilon


@pytest.mark.parametrize("epsilon", [1049, EPSILON_ONE // 10, EPSILON_ONE, 4 * EPSILON_ONE, 16 * EPSILON_ONE])
def test_krr_is_private_and_tight_for_every_k(epsilon: int) -> None:
    below, above = exp_bounds(epsilon)
    for k in range(2, 1025):
        keep = rule(epsilon, k)
        assert is_private(keep, k, below), k
        assert not is_private(keep + 1, k, above), k


def dealt(*words: int) -> Drbg:
    """Return a generator that gives exactly these words (four at most), to try any of 2^32 coins in C."""
    drbg = Drbg(bytes(range(32)))
    block = b"".join(word.to_bytes(4, "little") for word in words)
    with drbg.state() as state:
        state.block = list(block.rjust(16, b"\0"))
        state.left = len(block)
    return drbg


def is_plus(reading: int, tau: int, coin: int) -> bool:
    return perturb([CoreBlock(1, 1, 1, 1, 0, tau)], 48, (0, 0), [reading], dealt(coin))[1] == 0


def chosen(keep: int, k: int, value: int, *words: int) -> tuple[int, int]:
    return perturb([CoreBlock(2, 1, 1, k, 0, keep)], 48, (0, 0), [value], dealt(*words))


def plus_coins(reading: int, tau: int) -> int:
    """Count the coins of 2^32 that C turns into a plus, by bisection. Small coins are plus and large ones minus."""
    low, high = 0, 2**32  # coin low - 1 is plus, coin high is minus
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if is_plus(reading, tau, middle) else (low, middle)
    return low


@pytest.mark.parametrize("epsilon", [1049, EPSILON_ONE // 3, EPSILON_ONE, 16 * EPSILON_ONE])
def test_the_coin_in_c_has_exactly_the_specified_probability(epsilon: int) -> None:
    """For every reading of a fine grid and both ends, try the coins just below and at the threshold, and the extreme ones."""
    tau = rule(epsilon, 2)
    for reading in [*range(-32768, 32769, 257), -32767, -1, 0, 1, 32767, 32768, 40000, -40000, 2**31 - 1, 1 - 2**31]:
        size = min(abs(reading), 32768)
        threshold = RULE_ONE + (size * tau >> 15) * (1 if reading >= 0 else -1)
        assert RULE_ONE - tau <= threshold <= RULE_ONE + tau
        found = [is_plus(reading, tau, coin) for coin in (0, threshold - 1, threshold, 2**32 - 1)]
        assert found == [True, True, False, False], reading


def test_the_coin_in_c_is_private_by_count() -> None:
    """Counted in C: the most and the least likely plus differ by a factor of at most e^epsilon, and so do the minuses."""
    for epsilon in (EPSILON_ONE // 10, EPSILON_ONE, 4 * EPSILON_ONE):
        tau, (below, _) = rule(epsilon, 2), exp_bounds(epsilon)
        counts = [plus_coins(reading, tau) for reading in (-32768, -1234, 0, 777, 32768)]
        assert counts == sorted(counts)
        assert Decimal(counts[-1]) <= Decimal(counts[0]) * below
        assert Decimal(2**32 - counts[0]) <= Decimal(2**32 - counts[-1]) * below


@pytest.mark.parametrize(
    ("epsilon", "k"),
    [(EPSILON_ONE, 2), (EPSILON_ONE, 3), (2 * EPSILON_ONE, 5), (EPSILON_ONE // 4, 8), (4 * EPSILON_ONE, 13)],
)
def test_krr_in_c_is_private_by_enumeration(epsilon: int, k: int) -> None:
    """Try every value, every replacement, and the coins on both sides of the threshold; weigh C's table of outcomes exactly."""
    keep, (below, _) = rule(epsilon, k), exp_bounds(epsilon)
    table = [[0] * k for _ in range(k)]  # table[value][outcome], in units of 1 / (k 2^32)
    for value in range(k):
        for replacement in range(k):
            kept = [chosen(keep, k, value, coin, replacement) for coin in (0, 2 * keep - 1)]
            left = [chosen(keep, k, value, coin, replacement) for coin in (2 * keep, 2**32 - 1)]
            assert kept == [(value, 0)] * 2
            assert left == [(replacement, 0)] * 2
            table[value][kept[0][0]] += 2 * keep
            table[value][left[0][0]] += 2**32 - 2 * keep
    assert all(sum(row) == k * 2**32 for row in table)
    for outcome in range(k):
        chances = [row[outcome] for row in table]
        assert Decimal(max(chances)) <= Decimal(min(chances)) * below


def test_krr_in_c_rejects_replacements_beyond_k() -> None:
    """A word that masks to k or more is skipped, so the replacement is uniform."""
    assert chosen(1, 5, 0, 2**32 - 1, 7, 5, 3) == (3, 0)


@pytest.mark.parametrize("coin", [0, 2**31, 2**32 - 1])
def test_a_missing_reading_gives_one_symbol_whatever_the_coin(coin: int) -> None:
    blocks = [CoreBlock(1, 1, 1, 1, 0, 2**30), CoreBlock(2, 1, 1, 3, 0, 2**30), CoreBlock(3, 1, 1, 2, 5, 2**30)]
    for slot in range(3):
        words = (slot << 32) // 3 + 1, 99
        for others in (-5, 0, 32768):
            readings = [NO_READING if place == slot else others for place in range(3)]
            assert perturb(blocks, 7, words, readings, dealt(coin, 1)) == (6, 0)


@pytest.mark.parametrize(
    ("epsilon", "domain"),
    [(EPSILON_ONE // 4, 5), (EPSILON_ONE, 10), pytest.param(2 * EPSILON_ONE, 50, marks=pytest.mark.slow)],
)
def test_hashing_in_c_is_private_by_enumeration(epsilon: int, domain: int) -> None:
    """For every hash, weigh C's table of outcomes of all categories exactly, as for kRR."""
    k = hash_family.symbols(epsilon)
    keep, (below, _) = rule(epsilon, k), exp_bounds(epsilon)
    blocks = [CoreBlock(3, 1, 1, k, domain, keep)]
    count = hash_family.hash_count(k, domain)
    for hash_ in range(count):
        word = -(-hash_ * 2**32 // count)  # the first word that assigns this hash
        chances = [[0] * domain for _ in range(k)]  # chances[outcome][category], in units of 1 / (k 2^32)
        for category in range(domain):
            value = int(hashing.hashed(hash_, category, k, domain))
            for replacement in range(k):
                kept, left = (
                    [perturb(blocks, 48, (0, word), [category], dealt(coin, replacement)) for coin in coins]
                    for coins in ((0, 2 * keep - 1), (2 * keep, 2**32 - 1))
                )
                assert kept == [(value, 0)] * 2
                assert left == [(replacement, 0)] * 2
                chances[value][category] += 2 * keep
                chances[replacement][category] += 2**32 - 2 * keep
        assert all(sum(each) == k * 2**32 for each in zip(*chances, strict=True))
        assert all(Decimal(max(each)) <= Decimal(min(each)) * below for each in chances)


@pytest.mark.parametrize("epsilon", GRID[::40])
def test_hashing_is_private_and_tight_for_the_symbols_of_every_epsilon(epsilon: int) -> None:
    below, above = exp_bounds(epsilon)
    k = hash_family.symbols(epsilon)
    assert is_private(rule(epsilon, k), k, below)
    assert not is_private(rule(epsilon, k) + 1, k, above)
