# SPDX-License-Identifier: MIT
"""Insiders who stay within every bet are not exposed, but their harm is bounded as THREAT_MODEL.md says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lab import MakeLab, Makers, chances_of, hashing_profile

from peel_core import index_many
from peel_core.hashing import hashed
from peel_gateway.estimation.estimate import Choice, Figure, estimates
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.tables import DeviceTallyTable
from peel_gateway.screening.judge import ExposedDevice

BUCKET = 300


def turned(tallies: DeviceTallyTable, device: int) -> DeviceTallyTable:
    """Return the tallies as if one device had sent the opposite signs."""
    mine = tallies.device == device
    plus, minus = np.where(mine, tallies.minus, tallies.plus), np.where(mine, tallies.plus, tallies.minus)
    return replace(tallies, plus=plus, minus=minus)


def value(figure: Figure | None) -> float:
    assert figure is not None
    assert figure.unclipped.value is not None
    return figure.unclipped.value


@pytest.mark.slow
def test_who_turns_with_every_bucket_moves_each_by_its_influence(make_lab: MakeLab, profiles: Makers) -> None:
    """Eight buckets of plus for each three of minus: in the long run an honest coin's share, and in each bucket all that is possible."""
    profile, insider, each = profiles[0](4, quota=240, period=3600), 5, 20
    lab = make_lab(profile, devices=insider)
    exposed: list[ExposedDevice] = []
    for bucket in range(110):
        numbers = range(1 + bucket * each, 1 + (bucket + 1) * each)
        frames = [frame for device in range(1, insider) for frame in lab.frames(device, numbers)]
        frames += [lab.sealed(insider, number, minus=int(bucket * 8 % 11 >= 8)) for number in numbers]
        exposed += lab.engine.process(lab.messages(frames)).exposed_devices
        lab.now += BUCKET
    assert exposed == []

    tallies = lab.store.device_tallies(profile.id, bucket_seconds=BUCKET)
    found, contrary = (estimates(profile, each, BUCKET) for each in (tallies, turned(tallies, insider)))
    for one, other in zip(found, contrary, strict=True):
        for figure, against in zip(one.estimates, other.estimates, strict=True):
            moved = abs(value(figure.published) - value(against.published))
            mine = tallies.device == insider
            mine &= (tallies.bucket == one.start) & (tallies.index == int(figure.name[1:]))
            share = (tallies.plus + tallies.minus)[mine].sum() / figure.n
            least, most = chances_of(profile)
            assert figure.published.influence is not None
            assert moved <= figure.published.influence + 1e-9
            assert np.isclose(moved, share * 10 / (most - least)), "a liar's is the same without the divisor"

    whole = lab.store.device_tallies(profile.id)
    mine = whole.device == insider
    assert whole.plus[mine].sum() / (whole.plus + whole.minus)[mine].sum() <= most, "over all of it no more than a liar"


def test_who_picks_hashes_supports_many_categories_in_the_mean_over_devices(make_lab: MakeLab) -> None:
    """Under one in g^r hashes g^r categories have the same symbol: reports of these alone, by an honest coin, speak for all of them."""
    profile, insider = hashing_profile(200), 10
    g, size = profile.k, profile.k**3
    lab = make_lab(profile, devices=insider)
    for device in range(1, insider):
        lab.send(lab.frames(device, range(1, 301), 150))
    numbers = np.arange(1, 20_001)
    hashes = index_many(profile, np.full(len(numbers), insider), lab.keys_of(insider, numbers), numbers)
    together = (hashed(hashes[:, None], np.arange(size), g, 200) == 0).all(axis=1)
    most = float(questions_of(profile).most[0])
    chance = np.random.default_rng(1)
    says = np.where(chance.random(together.sum()) < most, 0, chance.integers(1, g, together.sum()))
    frames = [lab.sealed(insider, *each) for each in zip(numbers[together].tolist(), says.tolist(), strict=True)]
    for start in range(0, len(frames), 50):
        assert lab.engine.process(lab.messages(frames[start : start + 50])).exposed_devices == []

    (found,) = estimates(profile, lab.store.device_tallies(profile.id), choice=Choice(top=200))
    share = {int(each.name): value(each.over_devices) for each in found.estimates}
    lie, together_now = 1 / insider, sum(share[category] for category in range(size))
    assert together_now > 10 * lie, "far more than a liar"
    assert together_now / size < 1.5 * lie, "and each no more than a liar, chance apart"
