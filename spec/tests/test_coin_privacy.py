# SPDX-License-Identifier: MIT
"""The privacy of verified coins, by counting: for every coin that a profile can have and every outcome that is opened.

The gateway sees the masked answer d and one outcome y_i, for an i of its choice (SPEC section 13.6). Mask and shift are uniform, so
a probability is a number of pairs (mask, shift) over g K. All comparisons are between integers.
"""

import importlib.util
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REFERENCE = Path(__file__).parents[1] / "reference.py"


def load_reference() -> ModuleType:
    """Import the file by its path, as it is deliberately not on the import path."""
    spec = importlib.util.spec_from_file_location("peel_spec_reference", REFERENCE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


ref: Any = load_reference()

COINS = [
    (keep, change, g)
    for g in range(2, ref.MAX_TABLE)
    for change in range(1, ref.MAX_TABLE)
    for keep in range(change + 1, ref.MAX_TABLE + 1 - (g - 1) * change)
]
"""Every coin with K <= 64: keep, change and g."""


def views(keep: int, change: int, g: int, i: int, answer: int) -> Counter[tuple[int, int]]:
    """Count the pairs of mask and shift by what the gateway sees, with SPEC section 13.1 word for word."""
    f, size = ref.pattern(keep, change, g), keep + (g - 1) * change
    return Counter(
        (ref.masked_answer(answer, mask, g), (mask + f[(shift + i) % size]) % g)
        for mask, shift in product(range(g), range(size))
    )


def test_every_coin_is_enumerated() -> None:
    sizes = {keep + (g - 1) * change for keep, change, g in COINS}
    assert sizes == set(range(3, 65))
    assert {g for _, _, g in COINS} == set(range(2, 64))
    assert len(COINS) == len(set(COINS)) > 2000
    assert (8, 3, 2) in COINS and (2, 1, 63) in COINS and (33, 31, 2) in COINS
    for keep, change, g in COINS:
        ref.check_coin(ref.Coin(1, 1, 1, keep, change, g))
    for keep, change, g in ((65, 1, 2), (2, 1, 64), (3, 3, 2), (34, 31, 2)):
        with pytest.raises(ref.RefusedError, match="coin"):
            ref.check_coin(ref.Coin(1, 1, 1, keep, change, g))


def test_the_ratio_is_exactly_the_odds_for_every_coin() -> None:
    """For every coin and every i, the counts of (d, y_i) are keep where y_i + d is the answer, and change elsewhere.

    Given the answer b and d, the mask is b - d: one of the g masks. So the number of pairs (mask, shift) with the view (d, y) is the
    number of shifts with f[(shift + i) mod K] = y + d - b. It depends on (y + d - b) mod g only, so that it is enough to count
    offsets for each i: the two tests below check this with every mask, shift and answer.
    """
    for keep, change, g in COINS:
        f = ref.pattern(keep, change, g)
        size = len(f)
        assert size == keep + (g - 1) * change
        expected = [keep] + [change] * (g - 1)
        for i in range(size):
            counts = [0] * g
            for shift in range(size):
                counts[f[(shift + i) % size]] += 1
            assert counts == expected, (keep, change, g, i)


SMALL = [(keep, change, g) for keep, change, g in COINS if keep + (g - 1) * change <= 12]
EDGES = [(33, 31, 2), (63, 1, 2), (2, 1, 16), (8, 2, 5)]


@pytest.mark.parametrize("part", range(4))
def test_the_ratio_counted_over_every_mask_shift_and_answer(part: int) -> None:
    """No symmetry is used here: everything that the gateway can see, for every answer."""
    for keep, change, g in (SMALL + EDGES)[part::4]:
        for i in range(keep + (g - 1) * change):
            seen = [views(keep, change, g, i, answer) for answer in range(g)]
            everything = set().union(*seen)
            assert len(everything) == g * g, "each pair (d, y_i) is possible under each answer"
            for view in everything:
                counts = [counter[view] for counter in seen]
                assert (min(counts), max(counts)) == (change, keep), (keep, change, g, i, view)


@pytest.mark.parametrize(("keep", "change", "g"), [(2, 1, 63), (34, 2, 16), (8, 3, 2), (23, 2, 16)])
def test_the_view_depends_on_the_answer_only_through_y_plus_d_minus_b(keep: int, change: int, g: int) -> None:
    """The symmetry that the test of every coin uses, for large coins and some i and answers."""
    size = keep + (g - 1) * change
    for i, answer in product((0, 1, size // 2, size - 1), (0, 1, g - 1)):
        for (masked, outcome), count in views(keep, change, g, i, answer).items():
            assert count == (keep if (outcome + masked - answer) % g == 0 else change)


@pytest.mark.parametrize(("keep", "change", "g"), [(2, 1, 2), (8, 3, 2), (3, 1, 3), (8, 2, 5), (2, 1, 16)])
def test_the_masked_answer_alone_is_uniform_and_so_is_the_outcome(keep: int, change: int, g: int) -> None:
    size = keep + (g - 1) * change
    for i, answer in product(range(size), range(g)):
        seen = views(keep, change, g, i, answer)
        for place in (0, 1):
            totals = Counter[int]()
            for view, count in seen.items():
                totals[view[place]] += count
            assert set(totals.values()) == {size} and len(totals) == g


@pytest.mark.parametrize(("keep", "change", "g"), [(2, 1, 2), (8, 3, 2), (3, 1, 3), (2, 1, 16), (34, 2, 16)])
def test_what_is_counted_is_the_coin_of_section_6_for_every_outcome(keep: int, change: int, g: int) -> None:
    """s = y_i + d keeps the answer with probability keep / K, for real tables made from seeds."""
    coin = ref.Coin(1, 1, 1, keep, change, g)
    for number in range(4):
        table = ref.coin_table(coin, ref.coin_seed(bytes(16), number))
        answer = number % g
        masked = ref.masked_answer(answer, table.mask, g)
        counted = Counter(ref.counted_answer(outcome, masked, g) for outcome in table.outcomes)
        assert counted == {s: keep if s == answer else change for s in range(g)}


@pytest.mark.parametrize("broken", ["no shift", "no mask"])
def test_a_table_without_mask_or_shift_is_not_private(broken: str) -> None:
    """The count finds a fault."""
    keep, change, g = 8, 3, 2
    f = ref.pattern(keep, change, g)
    masks, shifts = (range(g), [0]) if broken == "no shift" else ([0], range(len(f)))
    ratios = set()
    for i in range(len(f)):
        seen = [
            Counter(((b - m) % g, (m + f[(r + i) % len(f)]) % g) for m, r in product(masks, shifts)) for b in range(g)
        ]
        ratios |= {(seen[0][view], seen[1][view]) for view in seen[0] | seen[1]}
    assert any(a * change > keep * b for a, b in ratios)
