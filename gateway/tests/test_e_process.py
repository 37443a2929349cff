# SPDX-License-Identifier: MIT
"""The statistics layer: honest devices never, whatever they measure; dishonest ones soon, whenever they turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from e_process_reference import hashed

from peel_core.hashing import hashed as core_hashed
from peel_core.odds import Odds, odds_of
from peel_gateway._kernels import lib
from peel_gateway.mechanisms.bets import BETS, PREDICTIONS, Alphabet, Bets, Capital, bets_on
from peel_gateway.mechanisms.categorical import hashing_bets, krr_bets
from peel_gateway.mechanisms.harmony import harmony_bets
from peel_gateway.screening.e_process import FRESH, GAP, TARDY, EProcess, Events, Evidence, in_words

ALPHA = 1e-6
Ints = npt.NDArray[np.int64]
Signs = Callable[[Ints], Ints]


def sign_odds() -> Odds:
    return odds_of(2**20, 2)


def choice_odds(k: int) -> Odds:
    return odds_of(2**20, k)


def events_of(
    unit: Ints, symbol: Ints, *, cohort: int = 0, kind: int | Ints = FRESH, row: int | Ints = 0, first: int = 1
) -> Events:
    """Events in order; numbers count up."""
    n = len(unit)
    return Events(
        row=np.broadcast_to(row, n),
        number=np.arange(first, first + n),
        unit=unit,
        symbol=symbol,
        cohort=np.full(n, cohort),
        kind=np.broadcast_to(kind, n),
    )


# ---- the table of bets ----


MECHANISMS = ("harmony", "krr", "hashing")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_bets_of_each_mechanism_share_one_capital(mechanism: str) -> None:
    used = {bet.part: bet for bet in BETS if mechanism in bet.capital}
    of_predictions = sum(bet.capital[mechanism].total for bet in PREDICTIONS if mechanism in bet.capital)
    numbered = [
        bet.capital[mechanism].total
        for bet in BETS
        if bet.number and bet not in PREDICTIONS and mechanism in bet.capital
    ]
    others = [bet.capital[mechanism].total for part, bet in used.items() if not bet.number and part != "LATE"]
    assert of_predictions + sum(numbered) + sum(others) == pytest.approx(1.0, abs=1e-12)


def test_the_table_has_every_bet_of_the_kernel() -> None:
    parts = [getattr(lib, f"PEEL_E_PROCESS_PART_{part}") for part in dict.fromkeys(bet.part for bet in BETS)]
    assert sorted(parts) == list(range(lib.PEEL_E_PROCESS_PARTS))
    predicted = [getattr(lib, f"PEEL_E_PROCESS_{bet.number}") for bet in PREDICTIONS]
    assert predicted == list(range(lib.PEEL_E_PROCESS_PREDICTIONS - lib.PEEL_E_PROCESS_WINDOWS + 1))
    assert all(set(bet.capital) <= set(MECHANISMS) for bet in BETS)


# ---- honest devices ----


def hard_readings(k: int, n: int, rng: np.random.Generator) -> dict[str, npt.NDArray[np.float64]]:
    """Readings per toss and attribute that are as hard on an honest device as we could think of, float64[n, k]."""
    sides = np.where(np.arange(k) % 2, 1.0, -1.0)
    turning = np.where(np.arange(n)[:, None] < n // 2, 1.0, -1.0)
    return {
        "all at the top": np.ones((n, k)),
        "all at the bottom": -np.ones((n, k)),
        "half and half": np.broadcast_to(sides, (n, k)),
        "turned around in the middle": turning * sides,
        "alternating": np.where(np.arange(n)[:, None] % 2, 1.0, -1.0) * np.ones(k),
        "wandering": np.clip(np.cumsum(rng.normal(0, 0.02, (n, k)), axis=0), -1, 1),
    }


@pytest.mark.parametrize("k", [1, 2, 4, 16])
def test_honest_devices_are_exposed_with_probability_alpha_at_most(k: int) -> None:
    """At alpha = 0.1, where it can be seen: 100 devices for each kind of readings, with losses that come late or never."""
    alpha, devices, n = 0.1, 100, 600
    rng = np.random.default_rng(k)
    e_process = EProcess(harmony_bets(k, sign_odds()), alpha)
    for name, readings in hard_readings(k, n, rng).items():
        unit = rng.integers(0, k, (devices, n))
        chance = (1 + readings[np.arange(n), unit] * sign_odds().true_share) / 2
        symbol = (rng.random((devices, n)) < chance).astype(np.int64)
        lost = rng.random((devices, n)) < 0.2
        tardy = lost & (rng.random((devices, n)) < 0.5)
        rows = np.repeat(np.arange(devices), n)
        states = e_process.new_states(devices)
        first = events_of(unit.ravel(), symbol.ravel(), kind=np.where(lost, GAP, FRESH).ravel(), row=rows, cohort=1)
        crossed = e_process.update(states, first) >= 0
        late = events_of(unit[tardy], symbol[tardy], kind=TARDY, row=np.nonzero(tardy)[0])
        crossed |= e_process.update(states, late) >= 0
        assert crossed.mean() <= alpha, name


@pytest.mark.parametrize("k", [2, 3, 16])
def test_honest_devices_with_categories_are_exposed_with_probability_alpha_at_most(k: int) -> None:
    """The same category always, any, and one after the other."""
    alpha, devices, n = 0.1, 200, 600
    rng = np.random.default_rng(k)
    e_process = EProcess(krr_bets(choice_odds(k)), alpha)
    rows = np.repeat(np.arange(devices), n)
    for value in (np.zeros(devices * n, np.int64), rng.integers(0, k, devices * n), np.arange(devices * n) % k):
        told = rng.random(devices * n) < choice_odds(k).true_share
        symbol = np.where(told, value, rng.integers(0, k, devices * n))
        crossed = (
            e_process.update(e_process.new_states(devices), events_of(np.zeros_like(symbol), symbol, row=rows)) >= 0
        )
        assert crossed.mean() <= alpha


def test_a_coin_a_little_above_its_bound_is_exposed_more_often_than_alpha() -> None:
    """The simulations above would notice a bound that is wrong by 0.06."""
    rng = np.random.default_rng(3)
    e_process = EProcess(harmony_bets(4, sign_odds()), 0.1)
    chance = (1 + sign_odds().true_share) / 2 + 0.06
    unit = rng.integers(0, 4, 100 * 600)
    symbol = (rng.random(len(unit)) < chance).astype(np.int64)
    crossed = (
        e_process.update(
            e_process.new_states(100), events_of(unit, symbol, row=np.repeat(np.arange(100), 600), cohort=1)
        )
        >= 0
    )
    assert crossed.mean() > 0.2


def alone(bets: Bets, name: str) -> Bets:
    """Return one bet of a single block with all of the capital."""
    (block,) = bets.blocks
    bare = replace(
        block, predictions=None, symbol_sets=None, heavy_hitters=None, frequencies=None, lasting_frequencies=None
    )
    if name == "one unit":
        assert block.predictions is not None
        only = replace(bare, predictions=replace(block.predictions, capital={}, unit_capital=1.0))
    elif name == "avoided categories":
        assert block.heavy_hitters is not None
        lists = replace(block.heavy_hitters, capital=Capital(), avoided_capital=Capital(windows=4, window=1 / 4))
        only = replace(bare, heavy_hitters=lists)
    else:
        assert block.frequencies is not None
        only = replace(bare, frequencies=replace(block.frequencies, capital={name: 1.0}))
    return Bets(blocks=(only,))


def lives_at_the_bound(name: str, rng: np.random.Generator, devices: int, n: int, beyond: float) -> tuple[Ints, Ints]:
    """Return units and symbols of devices that make a bet right as often as honest ones may, or more often than that."""
    if name != "avoided categories":
        unit = rng.integers(0, 4, devices * n)
        return unit, (rng.random(devices * n) < (1 + sign_odds().true_share) / 2 + beyond).astype(np.int64)
    unit = rng.integers(0, 243, devices * n)
    avoided = core_hashed(unit, np.full(len(unit), 77), 3, 200)
    noise = choice_odds(3).change / choice_odds(3).total
    said = rng.random(len(unit)) < noise - beyond
    return unit, np.where(said, avoided, (avoided + rng.integers(1, 3, len(unit))) % 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one unit", "own frequencies: too many", "avoided categories"])
def test_a_bet_with_all_of_the_capital_exposes_honest_devices_with_probability_alpha_at_most(name: str) -> None:
    """At alpha = 0.1, with coins exactly at the bound, and more often with coins beyond it: the bound is neither too low nor too high."""
    devices, n, rng = 300, 1500, np.random.default_rng(17)
    bets = hashing_bets(200, 5, choice_odds(3)) if name == "avoided categories" else harmony_bets(4, sign_odds())
    e_process, rows, exposed = EProcess(alone(bets, name), 0.1), np.repeat(np.arange(devices), n), []
    for beyond in (0.0, 0.08):
        unit, symbol = lives_at_the_bound(name, rng, devices, n, beyond)
        crossed = e_process.update(e_process.new_states(devices), events_of(unit, symbol, row=rows)) >= 0
        exposed.append(crossed.mean())
    assert exposed[0] <= 0.1
    assert exposed[1] > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["harmony", "hashing"])
def test_readings_chosen_against_the_bets_expose_honest_devices_with_probability_alpha_at_most(mechanism: str) -> None:
    """At alpha = 0.1. Each reading is the one whose symbol would leave the most capital."""
    devices, n, rng = 1000, 600, np.random.default_rng(23)
    odds, units, symbols = (sign_odds(), 4, 2) if mechanism == "harmony" else (choice_odds(3), 243, 3)
    e_process = EProcess(harmony_bets(4, odds) if mechanism == "harmony" else hashing_bets(200, 5, odds), 0.1)
    states, rows, crossed = e_process.new_states(devices), np.arange(devices), np.zeros(devices, np.bool_)
    for number in range(1, n):
        unit, truth = rng.integers(0, units, devices), rng.random(devices) < odds.true_share
        options = [events_of(unit, np.full(devices, each), row=rows, first=number) for each in range(symbols)]
        wanted = np.argmax([e_process.peek(states, each) for each in options], axis=0)
        symbol = np.where(truth, wanted, rng.integers(0, symbols, devices))
        going_on = ~crossed
        said = events_of(unit[going_on], symbol[going_on], row=rows[going_on], first=number)
        crossed |= e_process.update(states, said) >= 0
    assert crossed.mean() <= 0.1


# ---- dishonest ones ----

PLUS: Signs = np.ones_like


def mixed(unit: Ints) -> Ints:
    """Plus for every other attribute."""
    return unit % 2


@pytest.mark.parametrize("honest", [0, 1_000, 100_000])
@pytest.mark.parametrize(
    ("signs", "k", "most"), [(PLUS, 16, 150), (mixed, 16, 200), (PLUS, 252, 150), (mixed, 252, 420)]
)
def test_a_device_that_turns_is_exposed_as_soon_as_a_newcomer(honest: int, signs: Signs, k: int, most: int) -> None:
    """Without restarts, a bet that lost for 100,000 tosses would first have to win back its capital."""
    rng = np.random.default_rng(honest + k)
    e_process = EProcess(harmony_bets(k, sign_odds()), ALPHA)
    states = e_process.new_states(1)
    before = events_of(rng.integers(0, k, honest), rng.integers(0, 2, honest))
    assert e_process.update(states, before)[0] == -1
    unit = rng.integers(0, k, 1000)
    at = int(e_process.update(states, events_of(unit, signs(unit), first=honest + 1))[0])
    assert 0 <= at < most
    bet = e_process.explain(states[0])
    assert bet.events > bet.bound * bet.trials
    assert honest - 100 <= bet.since <= honest + 200


def test_turning_against_the_own_past() -> None:
    rng = np.random.default_rng(8)
    e_process = EProcess(harmony_bets(252, sign_odds()), ALPHA)
    states = e_process.new_states(1)
    unit = rng.integers(0, 252, 60_000)
    usual = (rng.random(len(unit)) < (1 + sign_odds().true_share) / 2) == unit % 2
    assert e_process.update(states, events_of(unit, usual.astype(np.int64)))[0] == -1
    unit = rng.integers(0, 252, 1000)
    at = int(e_process.update(states, events_of(unit, 1 - unit % 2, first=60_001))[0])
    assert 0 <= at < 200
    assert e_process.explain(states[0]).name == "against own past"


def test_contradicting_the_cohort() -> None:
    rng = np.random.default_rng(5)
    e_process = EProcess(harmony_bets(252, sign_odds()), ALPHA)
    states = e_process.new_states(1)
    unit = rng.integers(0, 252, 200)
    crossed = e_process.update(states, Events(**(vars(events_of(unit, unit % 2)) | {"cohort": 1 - 2 * (unit % 2)})))
    assert 0 <= crossed[0] < 80
    assert e_process.explain(states[0]).name == "disagree"


def test_one_attribute_alone() -> None:
    rng = np.random.default_rng(2)
    e_process = EProcess(harmony_bets(16, sign_odds()), ALPHA)
    states = e_process.new_states(1)
    unit = rng.integers(0, 16, 8000)
    symbol = np.where(unit == 3, 1, rng.integers(0, 2, len(unit)))
    at = int(e_process.update(states, events_of(unit, symbol))[0])
    assert 0 < np.count_nonzero(unit[: at + 1] == 3) < 130
    bet = e_process.explain(states[0])
    assert (bet.name, bet.index) == ("one unit", 3)


@pytest.mark.parametrize(("kind", "part"), [(FRESH, "reports"), (GAP, "gaps"), (TARDY, "late")])
def test_reports_gaps_and_late_reports_of_the_same_few_attributes(kind: int, part: str) -> None:
    """After a past in which all came alike."""
    rng = np.random.default_rng(kind)
    e_process = EProcess(harmony_bets(64, sign_odds()), ALPHA)
    states = e_process.new_states(1)
    assert e_process.update(states, events_of(rng.integers(0, 64, 2000), rng.integers(0, 2, 2000), kind=kind))[0] == -1
    unit = rng.choice([60, 61, 62], 3000)
    at = int(e_process.update(states, events_of(unit, rng.integers(0, 2, len(unit)), kind=kind, first=2001))[0])
    assert 0 < at < (1000 if part == "late" else 120)
    bet = e_process.explain(states[0])
    assert bet.name == f"{part}: too many"
    assert len({60, 61, 62} & set(bet.among)) >= 2


@pytest.mark.parametrize("honest", [0, 20_000])
@pytest.mark.parametrize(("k", "size", "most"), [(16, 1, 40), (16, 8, 150), (252, 10, 60), (252, 50, 150)])
def test_a_set_of_categories(honest: int, k: int, size: int, most: int) -> None:
    rng = np.random.default_rng(k + size)
    e_process = EProcess(krr_bets(choice_odds(k)), ALPHA)
    states = e_process.new_states(1)
    before = rng.integers(0, k, honest)
    assert e_process.update(states, events_of(np.zeros_like(before), before))[0] == -1
    chosen = rng.choice(k, size, replace=False)
    symbol = rng.choice(chosen, 2000)
    at = int(e_process.update(states, events_of(np.zeros_like(symbol), symbol, first=honest + 1))[0])
    assert 0 <= at < most
    bet = e_process.explain(states[0])
    assert bet.name == "symbols: too many"
    assert len(set(bet.among) & set(chosen.tolist())) >= 0.5 * len(bet.among)


def test_the_hash_is_the_core_s() -> None:
    """The reference's, and with it the kernel's."""
    for hash_ in range(81):
        expected = core_hashed(hash_, np.arange(70), 3, 70).tolist()
        assert [hashed(hash_, category, 3, 4) for category in range(70)] == expected


@pytest.mark.parametrize("honest", [0, 20_000])
@pytest.mark.parametrize(
    ("categories", "size", "most"), [(200, 1, 110), (200, 20, 260), (5000, 1, 140), (5000, 2, 330)]
)
def test_local_hashing_that_supports_a_few_categories(honest: int, categories: int, size: int, most: int) -> None:
    """By the symbol that most of them hash to, each time."""
    rng = np.random.default_rng(categories + size + honest)
    digits = 5 if categories == 200 else 8
    odds = choice_odds(3)
    e_process = EProcess(hashing_bets(categories, digits, odds), ALPHA)
    states = e_process.new_states(1)
    hashes = rng.integers(0, 3**digits, honest)
    told = np.array([hashed(each, 77, 3, digits) for each in hashes.tolist()], np.int64)
    symbol = np.where(rng.random(honest) < odds.true_share, told, rng.integers(0, 3, honest))
    assert e_process.update(states, events_of(hashes, symbol))[0] == -1
    chosen = rng.choice(categories, size, replace=False).tolist()
    hashes = rng.integers(0, 3**digits, 1000)
    told = np.array([[hashed(each, category, 3, digits) for category in chosen] for each in hashes.tolist()])
    symbol = (told[:, :, None] == np.arange(3)).sum(axis=1).argmax(axis=1)
    at = int(e_process.update(states, events_of(hashes, symbol, first=honest + 1))[0])
    assert 0 <= at < most
    bet = e_process.explain(states[0])
    if size <= 2:
        assert bet.name == "heavy hitters"
        assert set(bet.among) & set(chosen)


def hash_table(categories: int, digits: int) -> Ints:
    """Return the symbol of each category under each hash into three symbols, int64[3^digits, categories]."""
    return np.stack([core_hashed(hash_, np.arange(categories), 3, categories) for hash_ in range(3**digits)])


@pytest.mark.parametrize("honest", [0, 20_000])
@pytest.mark.parametrize(
    ("categories", "digits", "size", "most"), [(200, 5, 1, 300), (5000, 8, 1, 400), (5000, 8, 2, 400)]
)
def test_local_hashing_that_keeps_a_few_categories_from_being_counted(
    honest: int, categories: int, digits: int, size: int, most: int
) -> None:
    """And says anything else, so that it supports no category too often."""
    rng = np.random.default_rng(categories + size + honest)
    e_process = EProcess(hashing_bets(categories, digits, choice_odds(3)), ALPHA)
    states = e_process.new_states(1)
    hashes = rng.integers(0, 3**digits, honest)
    assert e_process.update(states, events_of(hashes, rng.integers(0, 3, honest)))[0] == -1
    chosen = rng.choice(categories, size, replace=False)
    hashes = rng.integers(0, 3**digits, 1000)
    told = np.stack([core_hashed(hashes, np.full(1000, category), 3, categories) for category in chosen.tolist()])
    allowed = (told[:, :, None] != np.arange(3)).all(axis=0)
    symbol = np.where(allowed, rng.random((1000, 3)), -1).argmax(axis=1)
    at = int(e_process.update(states, events_of(hashes, symbol, first=honest + 1))[0])
    assert 0 <= at < most
    bet = e_process.explain(states[0])
    assert bet.name == "avoided categories"
    assert set(bet.among) & set(chosen.tolist())
    assert bet.events > bet.bound * bet.trials


def test_many_attributes_pushed_while_the_others_make_the_bets_lose() -> None:
    """Only the bet on frequencies is not made about the others."""
    rng = np.random.default_rng(3)
    e_process = EProcess(harmony_bets(64, sign_odds()), ALPHA)
    states = e_process.new_states(1)
    unit = rng.integers(0, 64, 6000)
    often = np.array([np.count_nonzero(unit[:at] == each) for at, each in enumerate(unit.tolist())])
    symbol = np.where(unit < 36, unit % 2, often % 2)
    at = int(e_process.update(states, events_of(unit, symbol))[0])
    assert 0 <= at < 4000
    bet = e_process.explain(states[0])
    assert bet.name == "own frequencies: too many"
    assert bet.events > bet.bound * bet.trials


@pytest.mark.parametrize("honest", [0, 20_000])
@pytest.mark.parametrize(
    ("categories", "digits", "size", "most"),
    [(16, 3, 3, 1500), (16, 3, 6, 4000), (16, 3, 8, 6000), (200, 5, 3, 6000), (200, 5, 6, 12_000)],
)
def test_local_hashing_that_names_one_of_a_few_categories_without_noise(
    honest: int, categories: int, digits: int, size: int, most: int
) -> None:
    """Too sure of himself only under hashes that bring several of them together, and over all hashes that evens out."""
    rng = np.random.default_rng(categories + size + honest)
    odds, table = choice_odds(3), hash_table(categories, digits)
    e_process = EProcess(hashing_bets(categories, digits, odds), ALPHA)
    states = e_process.new_states(1)
    hashes = rng.integers(0, 3**digits, honest)
    told = rng.random(honest) < odds.true_share
    symbol = np.where(told, table[hashes, rng.integers(0, categories, honest)], rng.integers(0, 3, honest))
    assert e_process.update(states, events_of(hashes, symbol))[0] == -1
    chosen = rng.choice(categories, size, replace=False)
    hashes = rng.integers(0, 3**digits, most)
    symbol = table[hashes, rng.choice(chosen, most)]
    assert e_process.update(states, events_of(hashes, symbol, first=honest + 1))[0] >= 0
    bet = e_process.explain(states[0])
    assert bet.name in {"own frequencies: too many", "own frequencies: too few", "heavy hitters"}
    assert bet.events > bet.bound * bet.trials


def test_local_hashing_that_is_too_sure_where_a_set_falls_together() -> None:
    """And says anything elsewhere: no more often what most of the set hash to, over all hashes, than an honest device."""
    rng = np.random.default_rng(9)
    odds, table = choice_odds(3), hash_table(200, 5)
    votes = (table[:, rng.choice(200, 6, replace=False), None] == np.arange(3)).sum(axis=1)
    sure = votes.max(axis=1) >= np.sort(votes.max(axis=1))[-60]
    e_process = EProcess(hashing_bets(200, 5, odds), ALPHA)
    states = e_process.new_states(1)
    hashes = rng.integers(0, 243, 4000)
    symbol = np.where(sure[hashes], votes.argmax(axis=1)[hashes], rng.integers(0, 3, len(hashes)))
    assert e_process.update(states, events_of(hashes, symbol))[0] >= 0
    assert e_process.explain(states[0]).name == "own frequencies: too many"


@pytest.mark.slow
def test_honest_devices_that_hash_are_exposed_with_probability_alpha_at_most() -> None:
    """Whatever they read: always the same, anything, another one later, and whatever suits the hash."""
    alpha, devices, n = 0.1, 150, 600
    rng = np.random.default_rng(1)
    odds = choice_odds(3)
    e_process = EProcess(hashing_bets(200, 5, odds), alpha)
    table = hash_table(200, 5)
    rows = np.repeat(np.arange(devices), n)
    suiting = table.argmin(axis=1)
    for life in ("same", "any", "another", "suiting"):
        hashes = rng.integers(0, 243, devices * n)
        value = {
            "same": np.full(devices * n, 5),
            "any": rng.integers(0, 200, devices * n),
            "another": np.where(np.arange(devices * n) % n < n // 2, 5, 150),
            "suiting": suiting[hashes],
        }[life]
        told = rng.random(devices * n) < odds.true_share
        symbol = np.where(told, table[hashes, value], rng.integers(0, 3, devices * n))
        crossed = e_process.update(e_process.new_states(devices), events_of(hashes, symbol, row=rows)) >= 0
        assert crossed.mean() <= alpha


def test_a_category_that_never_comes() -> None:
    rng = np.random.default_rng(6)
    e_process = EProcess(krr_bets(choice_odds(8)), ALPHA)
    states = e_process.new_states(1)
    symbol = rng.integers(1, 8, 4000)
    at = int(e_process.update(states, events_of(np.zeros_like(symbol), symbol))[0])
    assert 0 < at < 1000
    bet = e_process.explain(states[0])
    assert (bet.name, bet.among) == ("symbols: too few", (0,))


# ---- several coins in one profile ----

MIXED = (
    Alphabet(mechanism="harmony", units=3, questions=3, odds=odds_of(2**20, 2)),
    Alphabet(mechanism="krr", units=1, odds=odds_of(2**20, 5)),
    Alphabet(mechanism="hashing", units=81, odds=odds_of(2**20, 3), categories=60, digits=4),
    Alphabet(mechanism="harmony", units=8, questions=8, odds=odds_of(2**19, 2)),
)
WEIGHTS = np.array([1, 2, 2, 4, 6, 1, 1, 1, 1, 1, 1, 3, 1])
FIRST_UNIT = np.array([0, 3, 4, 85])
BLOCK = np.array([0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3])
"""Of each question."""
TABLE = np.stack([core_hashed(hash_, np.arange(60), 3, 60) for hash_ in range(81)])


def mixed_life(rng: np.random.Generator, n: int, *, value: float = 1.0) -> tuple[Ints, Ints, Ints]:
    """Reports of an honest device with a constant reading for each question: block, unit and symbol, int64[n] each."""
    question = rng.choice(len(WEIGHTS), n, p=WEIGHTS / WEIGHTS.sum())
    block = BLOCK[question]
    hash_ = rng.integers(0, 81, n)
    unit = np.select([block == 2, block == 3], [4 + hash_, 80 + question], question)
    symbols, true_share = np.array([each.symbols for each in MIXED]), np.array([each.odds.true_share for each in MIXED])
    told = np.select([block == 1, block == 2], [int(2 * value), TABLE[hash_, int(30 * value)]], int(value > 0))
    noise = rng.integers(0, symbols[block])
    return block, unit, np.where(rng.random(n) < true_share[block], told, noise)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_honest_devices_with_several_coins_are_exposed_with_probability_alpha_at_most(value: float) -> None:
    """At alpha = 0.1, with losses that come late or never."""
    alpha, devices, n = 0.1, 200, 600
    rng = np.random.default_rng(4)
    e_process = EProcess(bets_on(MIXED, WEIGHTS.tolist()), alpha)
    _, unit, symbol = mixed_life(rng, devices * n, value=value)
    kind = rng.choice([FRESH, FRESH, FRESH, TARDY, GAP], devices * n)
    events = events_of(
        unit, np.where(kind == GAP, 0, symbol), kind=kind, row=np.repeat(np.arange(devices), n), cohort=1
    )
    assert (e_process.update(e_process.new_states(devices), events) >= 0).mean() <= alpha


@pytest.mark.parametrize("honest", [0, 20_000])
@pytest.mark.parametrize(
    ("block", "names", "most"),
    [
        (0, {"plus", "agree", "own recent past", "own past"}, 100),
        (1, {"symbols: too many"}, 80),
        (2, {"heavy hitters", "own past"}, 200),
        (3, {"plus", "own recent past", "own past"}, 100),
    ],
)
def test_an_insider_on_one_block_is_exposed_by_it(block: int, names: set[str], most: int, honest: int) -> None:
    """No noise in one block, honest in the others; also after an honest past."""
    rng = np.random.default_rng(honest + block)
    e_process = EProcess(bets_on(MIXED, WEIGHTS.tolist()), ALPHA)
    states = e_process.new_states(1)
    assert e_process.update(states, events_of(*mixed_life(rng, honest)[1:]))[0] == -1
    of, unit, symbol = mixed_life(rng, 5000)
    sure = np.select([of == 1, of == 2], [2, TABLE[np.clip(unit - 4, 0, 80), 30]], 1)
    crossed = int(e_process.update(states, events_of(unit, np.where(of == block, sure, symbol), first=honest + 1))[0])
    assert 0 < np.count_nonzero(of[: crossed + 1] == block) < most
    bet = e_process.explain(states[0])
    assert bet.block == block
    assert bet.name in names
    assert bet.events > bet.bound * bet.trials
    if bet.among:
        assert {1: 2, 2: 30}[block] in bet.among


def test_one_attribute_of_a_later_block_is_named_by_its_number_among_all() -> None:
    rng = np.random.default_rng(7)
    e_process = EProcess(bets_on(MIXED, WEIGHTS.tolist()), ALPHA)
    states = e_process.new_states(1)
    _, unit, symbol = mixed_life(rng, 30_000)
    symbol = np.where(unit == 91, 0, np.where(unit >= 85, rng.integers(0, 2, len(unit)), symbol))
    assert e_process.update(states, events_of(unit, symbol))[0] >= 0
    bet = e_process.explain(states[0])
    assert (bet.name, bet.block, bet.index) == ("one unit", 3, 91)


@pytest.mark.parametrize(("kind", "name"), [(FRESH, "reports: too many"), (GAP, "gaps: too many")])
def test_a_question_that_comes_more_often_than_it_weighs(kind: int, name: str) -> None:
    """A light one as often as the heaviest: a bound by the heaviest weights would not see it."""
    rng = np.random.default_rng(9)
    weights = WEIGHTS.copy()
    weights[11] = 6  # the attribute with number 7 of the last block
    e_process = EProcess(bets_on(MIXED, WEIGHTS.tolist()), ALPHA)
    question = rng.choice(len(weights), 20_000, p=weights / weights.sum())
    unit = np.select(
        [BLOCK[question] == 2, BLOCK[question] == 3], [rng.integers(4, 85, 20_000), 80 + question], question
    )
    states = e_process.new_states(1)
    symbol = honest_symbols(rng, unit)
    assert e_process.update(states, events_of(unit, symbol, kind=kind))[0] >= 0
    bet = e_process.explain(states[0])
    assert (bet.name, bet.block) == (name, None)
    assert 11 in bet.among


def honest_symbols(rng: np.random.Generator, unit: Ints) -> Ints:
    """Return noise alone, int64[n]."""
    block = np.searchsorted(FIRST_UNIT, unit, side="right") - 1
    return rng.integers(0, np.array([each.symbols for each in MIXED])[block])


# ---- words ----


def test_a_device_that_said_nothing_has_no_evidence() -> None:
    e_process = EProcess(harmony_bets(2, sign_odds()), ALPHA)
    assert e_process.log_capital(e_process.new_states(1))[0] == -np.inf
    with pytest.raises(ValueError, match="nothing was bet"):
        e_process.explain(e_process.new_states(1)[0])


def test_sentences() -> None:
    names = ["heat", "dust", "rain", "wind", "hail", "snow", "salt"]
    told = Evidence(name="one unit", index=1, events=57, trials=60, bound=0.7311, since=900)
    assert in_words(told, "attribute", names.__getitem__) == (
        "since number 900 57 of 60 reports of dust were the same sign; "
        "of an honest device each does with probability 0.7311 at most"
    )
    told = Evidence(name="symbols: too many", among=tuple(range(7)), events=60, trials=60, bound=0.5, since=1)
    assert "were heat or dust or rain or wind or hail or 2 others" in in_words(told, "category", names.__getitem__)
