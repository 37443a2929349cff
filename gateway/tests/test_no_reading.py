# SPDX-License-Identifier: MIT
"""Reports without a reading: a broken sensor of a mixed board neither counts nor incriminates its device."""

from __future__ import annotations

import numpy as np
from lab import Lab, MakeLab, harmony_profile

from peel_core import index_many
from peel_gateway.engine.recount import recount


def assigned(lab: Lab, device: int, number: int) -> int:
    """The question of a number."""
    return int(index_many(lab.profile(device, number), [device], lab.keys_of(device, [number]), [number])[0])


def test_a_broken_sensor_does_not_incriminate_its_device(make_lab: MakeLab) -> None:
    """600 numbers, of which a quarter assign the broken sensor: gaps like these would look like picking."""
    profile = harmony_profile(4)
    lab = make_lab(profile, devices=1)
    verdicts: dict[str, int] = {}
    for number in range(1, 601):
        lab.now += 1
        broken = assigned(lab, 1, number) == 2
        frame = lab.sealed(1, number, profile.k) if broken else lab.frames(1, [number], 0.0)[0]
        for verdict, count in lab.send([frame]).items():
            verdicts[verdict] = verdicts.get(verdict, 0) + count
    assert set(verdicts) == {"accepted", "no_reading"}
    assert 100 < verdicts["no_reading"] < 200
    (found,) = lab.estimates()
    assert [row.n for row in found.estimates][2] == 0
    assert found.n == verdicts["accepted"]
    assert recount(lab.store, lab).agrees


def test_its_number_is_used(make_lab: MakeLab) -> None:
    profile = harmony_profile(4)
    lab = make_lab(profile, devices=1)
    assert lab.send([lab.sealed(1, 1, profile.k)]) == {"no_reading": 1}
    assert lab.send([lab.sealed(1, 1, profile.k)]) == {"redelivered": 1}
    assert lab.send(lab.frames(1, [1])) == {"reused": 1}


def test_the_contrary_sign_and_further_columns_are_no_such_report(make_lab: MakeLab) -> None:
    profile = harmony_profile(4)
    lab = make_lab(profile, devices=2)
    assert lab.send([lab.sealed(1, 1, profile.k, 1)]) == {"support": 1}
    assert lab.send([lab.sealed(2, 1, profile.k + 1)]) == {"support": 1}


def test_another_budget_is_exposed_without_a_reading_too(make_lab: MakeLab) -> None:
    profile = harmony_profile(4)
    lab = make_lab(profile, devices=1)
    assert lab.send([lab.sealed(1, 1, profile.k, rule=profile.blocks[0].rule + 1)]) == {"rule": 1}


def test_leaving_out_unwanted_answers_is_a_biased_coin(make_lab: MakeLab) -> None:
    """The coin is honest, but "no reading" replaces every minus: the reports that count are all plus."""
    profile = harmony_profile(4)
    lab = make_lab(profile, devices=1)
    plus = np.random.default_rng(1).random(400) < 0.5
    frames = [
        lab.sealed(1, number) if shown else lab.sealed(1, number, profile.k)
        for number, shown in enumerate(plus.tolist(), 1)
    ]
    lab.now += len(frames)
    verdicts = lab.send(frames)
    assert verdicts["statistics"] > 0
    assert set(verdicts) <= {"statistics", "no_reading", "withdrawn"}
