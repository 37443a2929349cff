# SPDX-License-Identifier: MIT
"""`peel bench promise` keeps the insider's harm within its targets, exposes him, and plays him as well as it claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from peel_core.hashing import hashed
from peel_core.kinds import CHOICE, HASHED, SIGN
from peel_gateway.screening.e_process import EProcess, Events
from peel_research.promise import honest, mixed
from peel_research.promise import measure as figures
from peel_research.promise.engine import Coalition
from peel_research.promise.picking import STRATEGIES as PICKING
from peel_research.promise.picking import Setting, pick
from peel_research.promise.wasting import hysteresis, sacrifice, sacrifice_on_engine, suppression_on_engine
from peel_tools.planning.arena import ALPHA, Arena, HarmonyArena, HashingArena, KrrArena
from peel_tools.planning.insider import STRATEGIES, exposed_after, in_order, one_attribute, ratios, turned

TARGETS = {
    (1.0, 252): {"ratio_1000": 1.7, "ratio_10000": 1.2, "sleeper_ratio_1000": 1.8, "sleeper_ratio_10000": 1.25},
    (0.5, 252): {"ratio_1000": 2.6, "ratio_10000": 1.4},
}


@pytest.mark.parametrize(("epsilon", "k"), TARGETS)
def test_an_insider_stays_within_the_promise(epsilon: float, k: int) -> None:
    arena = HarmonyArena(epsilon, k)
    rng = np.random.default_rng(11)
    measured = ratios(arena, arena.goals(rng), (1000, 10_000), rng)
    for name, target in TARGETS[epsilon, k].items():
        assert 1 < measured[name] <= target, name


def test_an_insider_in_the_long_run() -> None:
    arena = HarmonyArena(1.0, 252)
    measured = ratios(arena, [arena.mixed()], (100_000,), np.random.default_rng(12))
    assert 1 < measured["ratio_100000"] <= 1.06
    assert 1 < measured["sleeper_ratio_100000"] <= 1.08


def test_without_restart_windows_the_promise_would_be_broken() -> None:
    """So the sleeper is one who finds what there is to find."""
    arena = HarmonyArena(1.0, 252)
    (block,) = arena.e_process.bets.blocks
    assert block.predictions is not None
    blind = replace(block.predictions, capital={**block.predictions.capital, "own recent past": 0.0})
    arena.e_process = EProcess(replace(arena.e_process.bets, blocks=(replace(block, predictions=blind),)), ALPHA)
    measured = ratios(arena, [arena.mixed()], (1000, 10_000), np.random.default_rng(11))
    assert measured["sleeper_ratio_1000"] > 2
    assert measured["sleeper_ratio_10000"] > 1.5


def ignore_frequencies(arena: Arena) -> None:
    """Play without the bets on frequencies from now on."""
    (block,) = arena.e_process.bets.blocks
    blind = replace(block, frequencies=None, lasting_frequencies=None)
    arena.e_process = EProcess(replace(arena.e_process.bets, blocks=(blind,)), ALPHA)


@pytest.mark.parametrize("targets", [126, 154, 227])
def test_a_sacrifice_of_some_attributes_stays_within_the_promise(targets: int) -> None:
    found = sacrifice(HarmonyArena(1.0, 252), 10_000, targets, seed=11)
    assert found.overall <= 1.22
    assert 1 < found.targets <= 1.45


def test_without_bets_on_frequencies_a_sacrifice_would_break_the_promise() -> None:
    arena = HarmonyArena(1.0, 252)
    ignore_frequencies(arena)
    found = sacrifice(arena, 10_000, 154, seed=11)
    assert found.overall > 1.3
    assert found.targets > 2


def test_an_engine_counts_a_sacrifice_as_the_walk_does() -> None:
    """The engine assigns the attributes by the device's key."""
    played, counted = sacrifice(HarmonyArena(1.0, 64), 3000, 50, seed=1), sacrifice_on_engine(64, 3000, 50)
    assert counted is not None
    assert counted.overall == pytest.approx(played.overall, abs=0.1)
    assert counted.targets == pytest.approx(played.targets, abs=0.1)


@pytest.mark.slow
def test_hysteresis_about_one_attribute_stays_within_the_promise() -> None:
    assert 1 < hysteresis(HarmonyArena(1.0, 8), 40_000, seed=11) <= 1.07


@pytest.mark.parametrize("domain", [200, 5000])
def test_an_engine_exposes_who_never_says_what_a_category_hashes_to(domain: int) -> None:
    waited = suppression_on_engine(domain, most=1000, seed=11)
    assert waited is not None
    assert waited <= 400


@pytest.mark.parametrize("domain", [200, 5000])
def test_an_insider_who_suppresses_a_category_comes_down(domain: int) -> None:
    """He says it as seldom as the bets allow. Without the bet on avoided categories he would never have to say it."""
    arena, rng = HashingArena(1.0, domain), np.random.default_rng(11)
    found = ratios(arena, [arena.suppress(1, rng)], (1000, 10_000), rng, sleepers=False)
    assert 1 < found["ratio_10000"] < 1.35
    assert found["ratio_1000"] < 2


def weighing(arena: HashingArena, size: int, reports: int, price: float, rng: np.random.Generator) -> float:
    """Return an insider's effect on a set of categories, as a multiple of that of a liar who picks his lie by the hash.

    He knows for how many of them each symbol speaks under each hash, and looks one step ahead at what it would do to his capital: so he is
    sure of himself where they fall together, and makes the bets lose where it is all the same to him.
    """
    chosen = rng.choice(arena.domain, size, replace=False)
    told = hashed(np.arange(arena.hashes)[:, None], chosen, arena.symbols, arena.domain)
    speaks = (told[:, :, None] == np.arange(arena.symbols)).sum(axis=1)
    state, zero, total = arena.e_process.new_states(1), np.zeros(arena.symbols, np.int64), 0
    for number, hash_ in enumerate(arena.assign(rng, reports).tolist(), 1):
        options = in_order(zero + hash_, np.arange(arena.symbols), number)
        capital = arena.e_process.peek(state, options)
        worth = np.where(capital < 0.2 / ALPHA, speaks[hash_] - price * np.log(capital), -np.inf)
        said = int(worth.argmax()) if np.isfinite(worth).any() else int(capital.argmin())
        only = Events(**{name: column[said : said + 1] for name, column in vars(options).items()})
        assert arena.e_process.update(state, only)[0] == -1
        total += speaks[hash_, said]
    by_chance = size / arena.symbols
    return float((total / reports - by_chance) / (arena.truth * (speaks.max(axis=1).mean() - by_chance)))


def test_an_insider_who_is_sure_of_himself_where_categories_fall_together() -> None:
    """Is held by what is bet on each hash by itself; without it, he would go on like that."""
    arena = HashingArena(1.0, 16)
    assert 1 < weighing(arena, 6, 6000, 10.0, np.random.default_rng(1)) < 1.6
    ignore_frequencies(arena)
    assert weighing(arena, 6, 6000, 10.0, np.random.default_rng(1)) > 2


@pytest.mark.parametrize("domain", [16, 200])
@pytest.mark.parametrize(("noise", "harm"), [(0.3, 1.2), (0.5, 0.9)])
def test_noise_that_hides_who_names_one_of_six_categories_leaves_less_than_a_lie(
    domain: int, noise: float, harm: float
) -> None:
    """As THREAT_MODEL.md says: 30% is not enough to stay hidden, and with 50% all of them together move by less than a liar's."""
    arena, reports = HashingArena(1.0, domain), 12_000
    rng = np.random.default_rng(domain)
    for _ in range(4):
        chosen = rng.choice(domain, 6, replace=False)
        told = hashed(np.arange(arena.hashes)[:, None], chosen, arena.symbols, domain)
        speaks = (told[:, :, None] == np.arange(arena.symbols)).sum(axis=1)
        unit = arena.assign(rng, reports)
        named = told[unit, rng.integers(0, 6, reports)]
        said = np.where(rng.random(reports) < noise, rng.integers(0, arena.symbols, reports), named)
        exposed = arena.e_process.update(arena.e_process.new_states(1), in_order(unit, said, 1))[0] >= 0
        by_chance = 6 / arena.symbols
        liar = arena.truth * (speaks.max(axis=1).mean() - by_chance)
        assert (speaks[unit, said].mean() - by_chance) / liar < harm
        assert exposed == (noise < 0.5)


@pytest.mark.parametrize("arena", [HarmonyArena(1.0, 1), KrrArena(1.0, 16), HashingArena(1.0, 200)])
def test_harm_is_counted_in_units_of_a_liar(arena: Arena) -> None:
    """An honest coin with the most harmful reading does 1; always saying what is wanted does what the cap says."""
    rng = np.random.default_rng(3)
    for goal in arena.goals(rng)[:3]:
        unit = arena.assign(rng, 40_000)
        life = "same" if isinstance(arena, HarmonyArena) else "one of them"
        said = arena.live(rng, life, unit, goal)
        if isinstance(arena, KrrArena):
            wanted = np.isin(said, goal.wanted(rng, np.zeros(1000, np.int64)))
        else:
            wanted = said == goal.wanted(rng, unit)
        harm = np.where(wanted, goal.gain, goal.loss).mean()
        assert harm == pytest.approx(1, abs=0.25)
        assert goal.gain > 1


def test_harm_of_suppression_is_counted_in_units_of_a_liar() -> None:
    arena, rng = HashingArena(1.0, 200), np.random.default_rng(4)
    goal, unit = arena.suppress(1, rng), arena.assign(rng, 60_000)
    told = rng.random(len(unit)) < arena.truth
    said = np.where(told, goal.wanted(rng, unit), rng.integers(0, arena.symbols, len(unit)))
    harm = np.where(said == goal.other(rng, unit), goal.loss, goal.gain).mean()
    assert harm == pytest.approx(1, abs=0.05)
    assert goal.gain == pytest.approx(1 / arena.truth)


def test_one_attribute_is_judged_by_its_own_reports() -> None:
    measured = one_attribute(HarmonyArena(1.0, 16), (100, 1000), np.random.default_rng(5))
    assert 1 < measured["ratio_1000"] < measured["ratio_100"]
    assert measured["ratio_1000"] <= measured["sleeper_ratio_1000"] < 1.6


MOST = {
    "always_plus": 75,
    "sleeper_always_plus": 150,
    "sleeper_against_own_past": 150,
    "krr_8_of_16": 150,
    "krr_50_of_252": 150,
    "sleeper_krr_8_of_16": 150,
    "sleeper_krr_50_of_252": 150,
    "hashing_1_of_200": 150,
    "sleeper_hashing_1_of_200": 160,
    "hashing_without_1_of_200": 1000,
    "hashing_without_1_of_5000": 1000,
    "hashing_without_4_of_5000": 1000,
    "sleeper_hashing_without_1_of_200": 1000,
    "sleeper_hashing_without_1_of_5000": 1000,
    "sleeper_hashing_without_4_of_5000": 1000,
    "hashing_any_of_6_of_16": 3000,
    "hashing_any_of_6_of_200": 6000,
}


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_an_insider_who_ignores_his_capital_is_exposed(strategy: object) -> None:
    chosen = next(each for each in STRATEGIES if each is strategy)
    waited = exposed_after(chosen, np.random.default_rng(21))
    assert waited is not None
    assert waited <= MOST.get(chosen.name, 30_000)


def test_honest_devices_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tenth of the command's devices."""
    monkeypatch.setattr(honest, "DEVICES", 2)
    exposed, reports = honest.count_exposed(np.random.default_rng(8))
    assert exposed == 0
    assert reports > 300_000


def test_the_simulation_of_honest_devices_would_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that toss by a larger rule than the bets are made for."""
    monkeypatch.setattr(honest, "DEVICES", 2)
    toss = HarmonyArena.toss

    def bolder(self: HarmonyArena, rng: np.random.Generator, reading: np.ndarray) -> np.ndarray:
        return toss(self, rng, 1.3 * reading)

    monkeypatch.setattr(HarmonyArena, "toss", bolder)
    exposed, _ = honest.count_exposed(np.random.default_rng(8))
    assert exposed > 10


def test_a_walk_ends_where_the_device_is_exposed() -> None:
    """The walk ends even if both choices lead to exposure in the end."""
    arena = HarmonyArena(1.0, 1)
    goal = arena.goals(np.random.default_rng(0))[0]
    state = turned(arena, goal, "middle", 0, np.random.default_rng(0))
    unit = np.zeros(500, np.int64)
    plus = in_order(unit, unit + 1, 1)
    took, walked = arena.e_process.walk(state, plus, plus, ceiling=1 / ALPHA)
    assert 50 < walked < 80
    assert not took[walked:].any()


@pytest.mark.parametrize("strategy", sorted(PICKING.keys() - {"richest_window"}))
def test_no_delivery_beats_waiting_for_the_right_numbers(strategy: str) -> None:
    """An insider who chooses the order has no more of an attribute in a bucket than one who chooses the time."""
    few = Setting(k=16, reports=5)
    assert pick(few, strategy, held=30).share <= pick(few, "richest_window", held=30).share < 5


# ---- mixed profiles ----


@pytest.fixture(scope="module")
def setting() -> mixed.Mixed:
    return mixed.Mixed(mixed.mixed_profile(), np.random.default_rng(1))


def test_the_mixed_profile_has_every_form_and_unequal_weights(setting: mixed.Mixed) -> None:
    assert {block.form for block in setting.profile.blocks} == {SIGN, CHOICE, HASHED}
    assert setting.names == ["mean_above_weight1", "ladder_weight2", "category_weight16", "hashed_weight8"]
    assert setting.shares == pytest.approx(np.array([3, 8, 16, 8]) / 35)


@pytest.mark.parametrize(
    ("aimed", "most"),
    [([0], 1.6), ([1], 1.6), ([2], 1.5), ([3], 1.8), ([0, 1, 2, 3], 2.0)],
    ids=["light signs", "signs", "choice", "hashed", "all"],
)
def test_an_insider_on_a_mixed_profile_stays_within_the_promise(
    setting: mixed.Mixed, aimed: list[int], most: float
) -> None:
    found = mixed.harm(setting, aimed, (300, 1000), np.random.default_rng(2))
    assert 1 < found["ratio_1000"] < found["ratio_300"] < found["cap"]
    assert found["ratio_1000"] < found["sleeper_ratio_1000"] < most


def test_bets_that_do_not_see_a_block_would_let_its_insider_have_the_cap(setting: mixed.Mixed) -> None:
    """So the harm is bounded by the bets on that block, not by the walk."""
    blind = mixed.Mixed(setting.profile, np.random.default_rng(1))
    bets = blind.e_process.bets
    sign = replace(bets.blocks[0], predictions=None, frequencies=None, lasting_frequencies=None)
    blind.e_process = EProcess(replace(bets, blocks=(sign, *bets.blocks[1:])), ALPHA)
    found = mixed.harm(blind, [0], (1000,), np.random.default_rng(2))
    assert found["ratio_1000"] == pytest.approx(found["cap"], abs=0.01)


def test_hiding_minus_by_no_reading_and_gaps_is_no_better_than_a_biased_coin(setting: mixed.Mixed) -> None:
    found = mixed.hidden_minus(setting, (1000,), np.random.default_rng(3))
    assert 1 < found["ratio_1000"] < 1.6


EXPOSED = {
    "always_all_questions": 150,
    "always_choice_weight16": 200,
    "always_hashed_weight8": 700,
    "always_signs_weight2": 450,
    "always_signs_weight1": 1200,
    "minus_hidden_by_no_reading_and_gaps": 700,
    "light_question_favoured_by_gaps": 2000,
}


@pytest.mark.parametrize("name", mixed.PLAYS)
def test_an_engine_exposes_insiders_on_a_mixed_profile(name: str) -> None:
    """Not an honest device, and not one that says no reading to all other questions: a broken sensor looks the same."""
    waited = mixed.exposed_after(name, seed=5, most=EXPOSED.get(name, 600) * 2)
    assert (waited is not None) == (name in EXPOSED)
    assert waited is None or waited <= EXPOSED[name]


def test_a_light_question_fills_a_bucket_no_better_by_another_order_than_by_waiting() -> None:
    best = pick(mixed.LIGHT_SETTING, "richest_window", held=200).share
    assert all(pick(mixed.LIGHT_SETTING, name, held=200).share <= best < 20 for name in mixed.LIGHT_STRATEGIES)


def test_the_figures_have_every_part_in_the_documented_order() -> None:
    assert sorted(figures._SLOW_FIRST) == sorted(figures._PARTS)
    nobody = {"coalition 0.05": mixed_coalition(), "coalition 0.2": mixed_coalition(), "honest": (0, 10), "burst": 1.0}
    found = figures._together({name: nobody.get(name, {}) for name in figures._PARTS})
    assert list(found)[:4] == ["harmony", "krr", "hashing", "mixed"]
    assert found["honest_reports"] == 12 and found["mixed"]["slots"] == 35


def mixed_coalition() -> Coalition:
    return Coalition(slowest=70, honest_exposed=0, honest_reports=1)
