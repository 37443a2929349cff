# SPDX-License-Identifier: MIT
"""The lab's attacks do what they say, and the engine makes of them what they say it does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from peel_core.hashing import hashed
from peel_core.kinds import KINDS
from peel_core.primitives import READING_ONE
from peel_gateway.engine.engine import Engine
from peel_gateway.model.verdict import Layer, Verdict
from peel_research.lab.aim import ANY_KIND, MIXED, Aim, aims_at_kinds
from peel_research.lab.arena import QUICK, Scale, play
from peel_research.lab.attacks import LAB_ATTACKS
from peel_research.lab.attacks.coins import biased
from peel_research.lab.attacks.paper import keep_probability, preserved_budgets
from peel_research.lab.attacks.record import Course, Needs, Place
from peel_research.lab.data import load_data
from peel_research.lab.exposure import planned
from peel_research.lab.fleet import Frames, Ints, LabFleet, profiles_for
from peel_research.world import World

DATA = load_data(None)
AIMS = {name: Aim.at(profile) for name, profile in profiles_for(DATA, 1.0).items()}
MIXED_AIMS = {aim.kind: aim for aim in aims_at_kinds(AIMS[MIXED].profile)}
SMALL = Scale(devices=20, reports=40, rounds=2, seeds=1)


def _course(aim: Aim, devices: int = 4, reports: int = 5000) -> Course:
    """An honest course of devices whose readings are at the upper end of the range, or category 1."""
    shape = (devices, reports)
    rng = np.random.default_rng(5)
    unit = rng.integers(0, aim.profile.units, shape)
    blank = Course(
        aim=aim,
        rng=rng,
        devices=np.arange(devices),
        assigned=unit,
        aimed=np.ones(shape, np.bool_),
        honest=(unit, np.ones(shape, np.int64)),
        unit=unit,
        value=np.full(shape, 1.0),
        index=unit,
        sign=np.ones(shape, np.int64),
        leaning=np.ones(aim.k, np.int64),
        sent=np.ones(shape, np.bool_),
        rule=np.full(shape, aim.block.rule),
    )
    return blank.tossed(np.full(devices, aim.profile.epsilon))


def test_every_attack_is_one_thing_and_explains_itself() -> None:
    for name, attack in LAB_ATTACKS.items():
        assert sum(way is not None for way in (attack.lie, attack.say, attack.turn)) == 1, name
        assert attack.help.endswith(".") and attack.why.endswith("."), name
    assert {attack.place for attack in LAB_ATTACKS.values()} == set(Place)
    assert {attack.needs for attack in LAB_ATTACKS.values()} == set(Needs)
    # The lab's profiles have no verified coins: test_simulation_coins.py attacks those.
    assert {attack.layer for attack in LAB_ATTACKS.values()} == {None, *Layer} - {Layer.WITHDRAWAL, Layer.COIN}


def test_an_honest_course_is_tossed_by_the_rule() -> None:
    plus = (_course(AIMS["harmony"]).sign > 0).mean()
    assert plus == pytest.approx(np.e / (1 + np.e), abs=0.02)  # all readings are at the upper end
    for mechanism in ("krr", "hashing"):
        course = _course(AIMS[mechanism])
        told = (course.index == course.symbol(1)).mean()
        assert told == pytest.approx(AIMS[mechanism].block.likeliest, abs=0.02)


def test_what_speaks_for_a_category_is_what_the_numbers_hash_makes_of_it() -> None:
    course = _course(AIMS["hashing"])
    block = course.aim.block
    for category in range(block.domain):
        expected = hashed(course.unit, category, block.symbols, block.domain)
        assert (course.symbol(category) == expected).all()
    assert (_course(AIMS["krr"]).symbol(2) == 2).all()


@pytest.mark.parametrize("devices", [2, 5, 50])
def test_rule_poisoning_preserves_the_sum_of_budgets(devices: int) -> None:
    budgets = preserved_budgets(devices, 1.0, np.random.default_rng(devices))
    assert budgets.sum() == pytest.approx(devices)
    assert budgets.min() > 0 and budgets.std() > 0.05


def test_output_poisoning_follows_its_kernel() -> None:
    """Probability proportional to exp(-eps |v - z|_1 / f) over all outputs: 2k signed entries, or k categories."""
    for mechanism, outputs in (("harmony", 2 * AIMS["harmony"].k), ("krr", AIMS["krr"].k)):
        course = _course(AIMS[mechanism])
        name = "output_poisoning_any_attribute" if mechanism == "harmony" else "output_poisoning_category"
        say = LAB_ATTACKS[name].say
        assert say is not None
        said = say(course)
        weights = np.exp(-np.array([0.0] + [2.0] * (outputs - 1)) / 2.0)
        kept = ((said.index == course.index) & (said.sign == course.sign)).mean()
        assert kept == pytest.approx(weights[0] / weights.sum(), abs=0.02)
        assert kept == pytest.approx(keep_probability(1.0, outputs - 1), abs=0.02)


def test_a_hidden_budget_is_not_in_the_frame_and_a_declared_one_is() -> None:
    course = _course(AIMS["harmony"])
    hidden, declared = (LAB_ATTACKS[f"another_budget_{how}"].say for how in ("hidden", "declared"))
    assert hidden is not None and declared is not None
    assert (hidden(course).rule == AIMS["harmony"].block.rule).all()
    assert declared(course).rule[0, 0] == 22 | 3 << 8, "the odds of epsilon 2"
    assert (hidden(course).sign > 0).mean() == pytest.approx((1 + np.tanh(1.0)) / 2, abs=0.02)


@pytest.mark.parametrize(
    "name", ["always_target_MGA", "noise_on_y", "negation", "replay", "real_devices_cloned", "rule_poisoning_declared"]
)
def test_what_is_wrong_with_a_single_report_is_exposed_at_once(name: str) -> None:
    attack = LAB_ATTACKS[name]
    trial = play(DATA, AIMS["harmony"], attack, SMALL, seed=3)
    assert attack.layer is not None
    assert trial.exposure == 1 and trial.by_layer()[attack.layer.label] > 0.7
    assert trial.attackers_exposed == trial.attackers and trial.delays == (1,) * trial.attackers
    assert trial.honest_refused == trial.honest_exposed == 0 and trial.honest_reports > 700
    assert trial.shifts.after == 0


def test_a_stuck_coin_is_exposed_by_statistics_and_its_harm_taken_back() -> None:
    trial = play(DATA, AIMS["harmony"], LAB_ATTACKS["biased_coin_always"], QUICK, seed=1)
    assert trial.attackers_exposed == trial.attackers == 1 and trial.exposure == 1
    assert 40 <= trial.delays[0] <= 90
    assert trial.shifts.undefended > trial.shifts.liar and trial.shifts.after == 0


def test_an_honest_report_that_is_refused_would_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three reports of honest devices are spoiled behind the arena's back."""
    encode = LabFleet.honest

    def spoiled(fleet: LabFleet, devices: Ints, numbers: Ints) -> Frames:
        frames = encode(fleet, devices, numbers)
        frames[[5, 70, 200], -1] ^= 1
        return frames

    monkeypatch.setattr(LabFleet, "honest", spoiled)
    trial = play(DATA, AIMS["harmony"], LAB_ATTACKS["biased_coin_always"], SMALL, seed=1)
    assert trial.honest_refused == 3 and trial.honest_exposed == 0


@pytest.mark.parametrize(
    ("name", "slowest"),
    [
        ("biased_coin_always", 90),
        ("half_of_the_categories", 90),
        ("always_one_symbol", 90),
        ("other_reports_kept_back", 90),
        ("biased_coin_sleeper", 160),
        ("adaptive_pattern_APA", 400),
        ("another_budget_declared", 1),
        ("noise_on_y", 1),
    ],
)
def test_local_hashing_exposes_what_it_should(name: str, slowest: int) -> None:
    trial = play(DATA, AIMS["hashing"], LAB_ATTACKS[name], QUICK, seed=2)
    assert trial.exposure == 1 and trial.attackers_exposed == trial.attackers == 1
    assert trial.delays[0] <= slowest
    assert trial.honest_refused == trial.honest_exposed == 0
    assert trial.shifts.undefended > 0 and trial.shifts.after == 0


def test_an_adaptive_pattern_promotes_its_targets_and_supports_as_many_categories_as_honest_reports() -> None:
    many = replace(DATA, categories=tuple("abcdefghijklmnop"))
    course = _course(Aim.at(profiles_for(many, 1.0)["hashing"]))
    say = LAB_ATTACKS["adaptive_pattern_APA"].say
    assert say is not None
    said = say(course)

    def supports(each: Course) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Of each category, the share of reports that support it."""
        return np.array([(each.index == each.symbol(category)).mean() for category in range(16)])

    crafted, honest = supports(said), supports(course)
    assert crafted[:4].mean() > honest[:4].mean() + 0.1
    assert crafted.sum() == pytest.approx(honest.sum(), abs=0.5)


def test_who_wastes_reports_pushes_one_attribute_by_more_than_a_lie_and_is_exposed() -> None:
    course = _course(AIMS["harmony"], reports=20_000)
    attack = LAB_ATTACKS["one_attribute_wasting_reports"]
    assert attack.say is not None
    said = attack.say(course)
    mine = course.unit == 0
    harm = said.sign[mine].mean() * AIMS["harmony"].block.cap
    assert harm == pytest.approx(55 / 93 * 11 / 5, abs=0.02)
    assert (said.sign[~mine] == course.sign[~mine]).all() and (said.index == course.unit).all()
    trial = play(DATA, AIMS["harmony"], attack, QUICK, seed=1)
    assert trial.exposure == 1 and trial.attackers_exposed == 1 and trial.shifts.after == 0


def test_supports_of_hashed_reports_are_counted_under_the_hash_of_their_number() -> None:
    """An always-target device moves the target's share by the cap, three times as far as a liar: under another hash, hardly at all."""
    trial = play(DATA, AIMS["hashing"], LAB_ATTACKS["biased_coin_always"], QUICK, seed=1)
    assert trial.shifts.undefended == pytest.approx(AIMS["hashing"].block.cap * trial.shifts.liar, rel=0.3)


@pytest.mark.parametrize("mechanism", ["harmony", "krr", "hashing"])
def test_a_lie_is_not_exposed_and_does_what_a_lie_does(mechanism: str) -> None:
    attack = replace(LAB_ATTACKS["false_reading_DIPA"], effort=20)
    trial = play(DATA, AIMS[mechanism], attack, SMALL, seed=1)
    assert trial.exposure == 0 and trial.attackers_exposed == 0
    assert trial.shifts.before == trial.shifts.after
    # Not as much as the worst lie: kRR's is about another than the worst category.
    assert 0.6 * trial.shifts.liar < trial.shifts.after < 1.25 * trial.shifts.liar
    assert trial.verdicts == {Verdict.ACCEPTED: trial.poisoned}


def test_output_poisoning_of_categories_is_not_exposed_and_does_less_than_a_lie() -> None:
    attack = replace(LAB_ATTACKS["output_poisoning_category"], effort=20)
    trial = play(DATA, AIMS["krr"], attack, SMALL, seed=1)
    assert trial.exposure == 0 and trial.shifts.after < trial.shifts.liar


def test_an_adaptive_insider_stays_unexposed_and_bounded() -> None:
    trial = play(DATA, AIMS["harmony"], replace(LAB_ATTACKS["adaptive_insider"], effort=50), SMALL, seed=1)
    assert trial.exposure == 0
    assert trial.shifts.liar < trial.shifts.after < 1.6 * trial.shifts.liar


def test_a_gateway_without_statistics_would_not_see_a_stuck_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the arena shows what the engine does, not what the attack says of itself."""
    monkeypatch.setattr("peel_research.world.Engine", partial(Engine, alpha=1e-200))
    trial = play(DATA, AIMS["harmony"], LAB_ATTACKS["biased_coin_always"], QUICK, seed=1)
    assert trial.exposure == 0 and trial.shifts.after > trial.shifts.liar


def test_with_one_attribute_there_is_no_other_to_attack(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("x\n" + "".join(f"{i * 7 % 16}\n" for i in range(48)))
    harmony = [
        attack.name for attack, aim in planned(load_data(tmp_path / "one.csv"), quick=False) if aim.profile.k == 1
    ]
    assert "biased_coin_always" in harmony
    assert not {"always_target_MGA", "random_report_ROPA", "output_poisoning_any_attribute"} & set(harmony)


def test_who_is_judged_by_one_attribute_alone_talks_more_the_more_there_are() -> None:
    attack = LAB_ATTACKS["always_target_when_assigned"]
    few, many = (
        Aim.at(profiles_for(replace(DATA, names=names), 1.0)["harmony"]) for names in (DATA.names[:2], DATA.names)
    )
    assert attack.numbers(few, 100) == 400 and attack.numbers(many, 100) == 1600


# ---- mixed profiles ----


def test_a_mixed_profile_has_every_kind_and_each_gets_its_share_of_reports() -> None:
    assert set(MIXED_AIMS) == set(KINDS)
    assert AIMS[MIXED].kind == ANY_KIND and AIMS[MIXED].rarity == 1
    assert all(3 < aim.rarity < 8 for aim in MIXED_AIMS.values())
    assert sum(1 / aim.rarity for aim in MIXED_AIMS.values()) == pytest.approx(1)


@pytest.mark.parametrize("kind", KINDS)
def test_an_aim_counts_its_own_units_and_columns(kind: str) -> None:
    """All columns of a kind, from 0 on; columns of other kinds are 0."""
    aim = MIXED_AIMS[kind]
    assert (aim.local_column(aim.columns) == np.arange(aim.k)).all()
    others = np.setdiff1d(np.arange(aim.profile.k), aim.columns)
    assert not aim.local_column(others).any()
    units = np.arange(aim.profile.units)
    mine = units[aim.assigned(units)]
    assert (aim.local_unit(mine) == np.arange(len(mine))).all()
    assert not aim.local_unit(units[~aim.assigned(units)]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_an_attack_on_one_kind_leaves_reports_about_others_honest(kind: str) -> None:
    aim = MIXED_AIMS[kind]
    with World.opened("lab", aim.profile, 4, seed=1, bucket_seconds=3600, days=1) as world:
        fleet = LabFleet(DATA, aim.profile, world.keyring, world.rng)
        course, _ = fleet.course(aim, np.arange(4), np.arange(1, 301))
    column, sign = course.answers()
    assert (column == course.honest[0]).all() and (sign == course.honest[1]).all(), "an honest course is honest"
    said = biased(1.0)(course)
    column, sign = said.answers()
    other = ~course.aimed
    assert 0.05 < course.aimed.mean() < 0.4
    assert (column[other] == course.honest[0][other]).all() and (sign[other] == course.honest[1][other]).all()
    assert np.isin(column[course.aimed], aim.columns).all() and (sign[course.aimed] == 1).all()


def test_every_attack_that_fits_a_form_is_planned_for_every_kind_of_it() -> None:
    plan = planned(DATA, quick=False)
    on_mixed = {name: {aim.kind for attack, aim in plan if attack.name == name and aim.profile.name == "lab_mixed"}
                for name in LAB_ATTACKS}  # fmt: skip
    for name, attack in LAB_ATTACKS.items():
        fitting = {kind for kind, aim in MIXED_AIMS.items() if aim.forms <= attack.forms}
        assert on_mixed[name] == ({ANY_KIND} if attack.whole or attack.turn else fitting), name
        assert on_mixed[name], name


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("biased_coin_always", kind) for kind in KINDS),
        *(("another_budget_declared", kind) for kind in KINDS),
        *(("always_target_MGA", kind) for kind in ("mean", "category", "hashed")),
        ("always_target_skipping_numbers", "category"),
        ("half_of_the_categories", "hashed"),
        ("minus_reports_kept_back", "above"),
    ],
)
def test_attacks_on_one_kind_of_a_mixed_profile_are_exposed(name: str, kind: str) -> None:
    attack = LAB_ATTACKS[name]
    trial = play(DATA, MIXED_AIMS[kind], attack, QUICK, seed=1)
    assert attack.layer is not None
    assert trial.exposure == 1 and trial.attackers_exposed == trial.attackers == 1
    assert (
        trial.by_layer()[attack.layer.label] > 0.05
    )  # the layer sees the share of reports that one of many questions has
    assert trial.honest_refused == trial.honest_exposed == 0 and trial.shifts.after == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_lie_about_one_kind_of_a_mixed_profile_is_a_lie(kind: str) -> None:
    attack = replace(LAB_ATTACKS["false_reading_DIPA"], effort=200)
    trial = play(DATA, MIXED_AIMS[kind], attack, SMALL, seed=1)
    assert trial.exposure == 0 and 0.5 * trial.shifts.liar < trial.shifts.after < 1.5 * trial.shifts.liar


@pytest.mark.parametrize(
    "name", ["noise_on_y", "output_poisoning_projected", "random_report_ROPA", "real_devices_cloned"]
)
def test_attacks_on_all_questions_of_a_mixed_profile_are_exposed(name: str) -> None:
    trial = play(DATA, AIMS[MIXED], LAB_ATTACKS[name], SMALL, seed=1)
    assert trial.exposure == 1 and trial.honest_refused == trial.honest_exposed == 0


def test_a_random_reading_of_a_ladder_is_above_lower_rungs_first() -> None:
    lie = LAB_ATTACKS["random_reading"].lie
    assert lie is not None
    readings = lie(MIXED_AIMS["ladder"], np.zeros((500, 4), np.int32), np.random.default_rng(1))
    assert set(np.unique(readings)) == {-READING_ONE, READING_ONE}
    assert (np.diff(readings, axis=1) <= 0).all() and len(np.unique(readings, axis=0)) == 5
