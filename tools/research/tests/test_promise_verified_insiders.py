# SPDX-License-Identifier: MIT
"""Insiders against verified coins do on the real engine what the exact figures say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from peel_core.coins import coin_names, opening_bytes, verify_openings
from peel_research.promise.verified import HARMONY, HASHING, KRR, harm, malformed_by_change
from peel_research.promise.verified_cheat import MalformedTable
from peel_research.promise.verified_insiders import Replay
from peel_research.promise.verified_insiders import replay as play
from peel_research.promise.verified_strategies import STRATEGIES, Hit, Insider, Unwanted

GAMES = 100
BY_NAME = {insider.name: insider for insider in STRATEGIES}
ANSWERS = {Unwanted.OTHER_ENTRY, Unwanted.OTHER_TABLE, Unwanted.EARLIER}
_played: dict[str, Replay] = {}


def replayed(insider: Insider) -> Replay:
    """Return a replay, from memory if another test has played it."""
    if insider.name not in _played:
        _played[insider.name] = play(insider, round(GAMES * max(insider.share, 0.1)) if insider.share < 1 else GAMES)
    return _played[insider.name]


@pytest.mark.parametrize("name", BY_NAME)
def test_the_replay_agrees_with_the_exact_figure(name: str) -> None:
    found = replayed(BY_NAME[name])
    assert 0 < found.standard_error < 0.5
    assert abs(found.harm - BY_NAME[name].exact) < 3 * found.standard_error


@pytest.mark.parametrize("name", BY_NAME)
def test_contradictions_expose_and_silence_does_not(name: str) -> None:
    insider = BY_NAME[name]
    contradicts = insider.unwanted in ANSWERS or (insider.hit != Hit.NOTHING and insider.policy.forges)
    assert (replayed(insider).exposed > 0) == contradicts
    assert replayed(insider).honest_exposed == 0


def test_a_replay_notices_another_bound() -> None:
    """With 4 audits of 32 an insider would do 1.93 times a liar's harm. The engine audits 8, and the replay says so."""
    insider = replace(BY_NAME["hit_and_run"], name="four audits", coin=replace(HARMONY, audits=4))
    found = play(insider, 400)
    assert insider.exact == pytest.approx(1.925)
    assert abs(found.harm - insider.exact) > 3 * found.standard_error
    assert abs(found.harm - float(harm(HARMONY, 1))) < 3 * found.standard_error


def test_exact_figures_are_those_of_the_bounds() -> None:
    assert BY_NAME["malformed_table"].exact == pytest.approx(float(harm(HARMONY, 5)))
    assert BY_NAME["all_in_one_bucket"].exact == pytest.approx(float(harm(HARMONY, 5, group=5)))
    assert BY_NAME["half_of_5000_categories"].exact == pytest.approx(float(harm(HASHING, 5)))
    assert BY_NAME["wide_categories"].exact == pytest.approx(float(harm(KRR, 5)))
    assert BY_NAME["hit_and_run"].exact == pytest.approx(1.65)
    assert BY_NAME["restored_database"].exact == pytest.approx(2.2 * 15 / 16)


def test_a_malformed_table_with_one_outcome_is_the_best() -> None:
    values = list(malformed_by_change(HARMONY).values())
    assert len(values) == HARMONY.change
    assert values[0] == 1.65
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(("keep", "change", "symbols"), [(8, 3, 2), (3, 1, 2), (8, 3, 16)])
def test_a_malformed_table_has_the_tree_of_the_core(keep: int, change: int, symbols: int) -> None:
    """The core accepts each of its openings at its own index, and no other."""
    names = coin_names(7, [5], [9], keep, change, symbols)
    size = keep + (symbols - 1) * change
    chance = np.random.default_rng(1)
    outcomes = chance.integers(0, symbols, size).tolist()
    table = MalformedTable(names[0].tobytes(), outcomes, [chance.bytes(13) for _ in range(size)])
    roots = np.frombuffer(table.root, np.uint8).reshape(1, -1)

    def opened(index: int, body: bytes) -> Any:
        return verify_openings(roots, names, [index], np.frombuffer(body, np.uint8).reshape(1, -1))[0]

    for index in range(size):
        body = table.opening(index, opening_bytes(size))
        assert opened(index, body) == outcomes[index]
        assert opened((index + 1) % size, body) < 0
        assert opened(index, bytes([body[0] ^ 1]) + body[1:]) < 0
