# SPDX-License-Identifier: MIT
"""Profiles that mix every kind of attribute: estimates of all of them, and attackers on each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lab import Lab, MakeLab

from peel_core import Profile, index_many, make_profile
from peel_core.kinds import CHOICE, HASHED, SIGN
from peel_core.projection import search_seed
from peel_gateway.engine.recount import recount
from peel_gateway.estimation.distribution import distributions
from peel_gateway.estimation.estimate import Estimates

ATTRIBUTES: list[dict[str, Any]] = [
    {"name": "temperature", "kind": "mean", "unit": "°C", "low": -10, "high": 50, "weight": 2},
    {"name": "temperature", "kind": "above", "unit": "°C", "thresholds": [26, 30]},
    {"name": "co2", "kind": "ladder", "unit": "ppm", "low": 400, "high": 2000, "rungs": [600, 800, 1000, 1400]},
    {"name": "door", "kind": "category", "categories": ["open", "shut", "ajar"]},
    {"name": "error", "kind": "hashed", "domain": 50},
]


@pytest.fixture(scope="module")
def room() -> Profile:
    """A room: temperature, CO2, door and error code."""
    table = {"name": "room", "epsilon": 1, "verify": False, "quota": 100_000, "period": 60}
    return make_profile(table | {"seed": search_seed(48, 48)[0], "attribute": ATTRIBUTES})


def answers(profile: Profile, temperature: float, co2: float, door: int, error: int) -> list[int]:
    """The readings as a device gives them to the core: one per question."""
    physical = {"temperature": temperature, "co2": co2, "door": door, "error": error}
    found = []
    for question in profile.questions:
        attribute = profile.attributes[question.attribute]
        value = physical[attribute.name]
        if question.form != SIGN:
            found.append(int(value))
        elif question.threshold is None:
            share = (2 * value - attribute.low - attribute.high) / (attribute.high - attribute.low)
            found.append(round(32768 * share))
        else:
            found.append(32768 if value > question.threshold else -32768)
    return found


def report_all(lab: Lab, rng: np.random.Generator, each: int) -> dict[str, int]:
    """Every device reports so often; 21 °C in half of the rooms and 28 °C in the others."""
    verdicts: dict[str, int] = {}
    for start in range(1, each + 1, 50):
        lab.now += 50
        frames = []
        for device in lab.ids.tolist():
            warm = device % 2
            readings = [
                answers(lab.profiles[0], 28 if warm else 21, rng.uniform(500, 1300), int(rng.random() < 0.75), 7)
                for _ in range(50)
            ]
            frames += lab.frames(device, range(start, start + 50), readings=readings)
        for verdict, count in lab.send(frames).items():
            verdicts[verdict] = verdicts.get(verdict, 0) + count
    return verdicts


def covered(found: Estimates, name: str, truth: float) -> bool:
    (row,) = (row for row in found.estimates if row.name == name)
    interval = row.published.within
    assert interval.low is not None and interval.high is not None
    return interval.low <= truth <= interval.high


def test_every_kind_is_estimated_and_no_honest_device_is_exposed(
    make_lab: MakeLab, room: Profile, rng: np.random.Generator
) -> None:
    lab = make_lab(room, devices=40)
    verdicts = report_all(lab, rng, 500)
    assert verdicts == {"accepted": 20_000}
    (found,) = lab.estimates()
    truths = {
        "temperature": 24.5, "temperature > 26": 0.5, "temperature > 30": 0.0, "co2 > 800": 500 / 800,
        "door: open": 0.25, "door: shut": 0.75, "door: ajar": 0.0, "error: 7": 1.0, "error: 8": 0.0,
    }  # fmt: skip
    assert sum(covered(found, name, truth) for name, truth in truths.items()) >= len(truths) - 1
    (co2,) = distributions(found.estimates)
    median = co2.quantile(0.5)
    assert median.low is not None and median.high is not None
    assert median.low <= 900 <= median.high < 1400
    n = {row.name: row.n for row in found.estimates}
    assert n["temperature"] == pytest.approx(2 * n["door: open"], rel=0.2), "it has twice the weight"
    assert recount(lab.store, lab).agrees


@pytest.mark.parametrize("form", [SIGN, CHOICE, HASHED])
def test_a_bent_coin_of_any_form_is_exposed(
    make_lab: MakeLab, room: Profile, rng: np.random.Generator, form: int
) -> None:
    """Device 1 answers questions of one form without noise, and all others honestly."""
    lab = make_lab(room, devices=8)
    report_all(lab, rng, 50)
    blocks = [place for place, block in enumerate(room.blocks) if block.form == form]
    for start in range(51, 6000, 50):
        lab.now += 50
        numbers = np.arange(start, start + 50)
        units = index_many(room, np.full(50, 1), lab.keys_of(1, numbers), numbers)
        frames = []
        for number, unit in zip(numbers.tolist(), units.tolist(), strict=True):
            place = int(room.block_of_unit(unit))
            if place in blocks:
                block = room.blocks[place]
                column = block.first_column + (unit - block.first_unit if form == SIGN else 0)
                frames.append(lab.sealed(1, number, column))
            else:
                frames += lab.frames(1, [number], readings=[answers(room, 21, 700, 1, 7)])
        if "statistics" in lab.send(frames):
            break
    else:
        raise AssertionError("never exposed")
    assert recount(lab.store, lab).agrees


def test_a_codeword_of_another_question_is_exposed(make_lab: MakeLab, room: Profile) -> None:
    lab = make_lab(room, devices=2)
    unit = int(index_many(room, [1], lab.keys_of(1, [1]), [1])[0])
    others = [block for place, block in enumerate(room.blocks) if place != int(room.block_of_unit(unit))]
    assert lab.send([lab.sealed(1, 1, others[0].first_column)]) == {"support": 1}


def test_another_blocks_odds_are_exposed(make_lab: MakeLab, room: Profile) -> None:
    room = replace(room, epsilon_q20=2 * room.epsilon_q20)  # at epsilon 1 all blocks have the same odds
    lab = make_lab(room, devices=2)
    (own,) = {int(room.rules(int(index_many(room, [1], lab.keys_of(1, [1]), [1])[0])))}
    other = next(block.rule for block in room.blocks if block.rule != own)
    assert lab.send([lab.sealed(1, 1, rule=other)]) == {"rule": 1}
