# SPDX-License-Identifier: MIT
"""Codewords decode to the same values and verdicts by table lookup and by matrix product."""

from __future__ import annotations

import numpy as np
import pytest
from lab import Lab, MakeLab, Makers

from peel_core import Opened, Profile, make_profile, open_many
from peel_core.batch import pack_trits, project_many, unpack_trits
from peel_core.primitives import codeword
from peel_core.projection import MAX_HONEST_RESIDUAL, reconstruct, search_seed
from peel_gateway.screening import layers
from peel_gateway.screening.decode_context import Codewords
from peel_gateway.screening.layers import OPEN, Decoded

LIMIT = 3e-3
ROUNDING = MAX_HONEST_RESIDUAL / 100
"""Single precision: sums are taken in another order when other rows are multiplied with them."""


def wide_profile() -> Profile:
    """Wider than the others, and not by whole bytes."""
    seed, _ = search_seed(67, 5)
    attributes = [{"name": f"b{i}", "kind": "mean", "low": 0, "high": 1} for i in range(5)]
    table = {"name": "wide", "epsilon": 1, "verify": False, "width": 67, "quota": 10, "period": 1}
    return make_profile({**table, "seed": seed, "attribute": attributes})


def contents(profile: Profile, rng: np.random.Generator) -> list[bytes]:
    """Packed trits: every codeword, the same with a few trits changed, and any trits at all."""
    width = profile.width
    codewords = project_many(profile.seed, width, np.tile(np.arange(width), 2), np.repeat([0, 1], width))
    tampered = np.concatenate([codewords] * 3)
    for count, rows in enumerate(np.split(np.arange(len(tampered)), 3), start=1):
        for row in rows:
            places = rng.choice(width - 1, count, replace=False)
            tampered[row, places] = (tampered[row, places] + 1 + rng.integers(1, 3, count)) % 3 - 1
    anything = rng.integers(-1, 2, (50, width - 1), dtype=np.int8)
    return [row.tobytes() for row in pack_trits(np.concatenate([codewords, tampered, anything]))]


def by_product(opened: Opened, profiles: tuple[Profile, ...], codewords: list[Codewords]) -> Decoded:
    """Decode all reports by one matrix product."""
    index, sign = np.full(len(opened), -1, np.int64), np.zeros(len(opened), np.int64)
    residual = np.full(len(opened), np.inf, np.float32)
    for position, profile in enumerate(profiles):
        rows = np.flatnonzero((opened.code == 0) & (opened.profile == position))
        trits = opened.trits[rows, : profile.width - 1]
        index[rows], sign[rows], residual[rows] = reconstruct(codewords[position].gamma, trits)
    return Decoded(index, sign, residual)


@pytest.fixture
def frames(make_lab: MakeLab, profiles: Makers, rng: np.random.Generator) -> tuple[Lab, list[bytes]]:
    """Reports of devices that hold their keys and seal whatever they like, in any order, and some that do not open."""
    lab = make_lab(profiles[0](4), wide_profile(), profiles[1](3), devices=3)
    frames = [
        lab.sealed(device, number, 0, trits=trits)
        for device in (1, 2, 3)
        for number, trits in enumerate(contents(lab.profiles[device - 1], rng), start=1)
    ]
    rng.shuffle(frames)
    return lab, [*frames[:500], b"junk", frames[0][:-1] + bytes([frames[0][-1] ^ 1]), *frames[500:]]


def test_the_table_says_what_the_product_says(frames: tuple[Lab, list[bytes]]) -> None:
    lab, reports = frames
    opened = open_many(lab.keyring, reports)
    assert np.count_nonzero(opened.code) == 2
    codewords = [Codewords(profile.seed, profile.width) for profile in lab.profiles]
    found, expected = layers.decode(opened, codewords), by_product(opened, lab.profiles, codewords)
    assert found.index.tolist() == expected.index.tolist()
    assert found.sign.tolist() == expected.sign.tolist()
    assert np.allclose(found.residual, expected.residual, rtol=1e-4, atol=ROUNDING)
    verdicts = [
        layers.judge_content(np.full(len(opened), OPEN), opened, decoded, lab.profiles, LIMIT).tolist()
        for decoded in (found, expected)
    ]
    assert verdicts[0] == verdicts[1]


def test_codewords_are_found_and_nothing_else_is(frames: tuple[Lab, list[bytes]]) -> None:
    """Without Gamma: what is decoded then was looked up."""
    lab, reports = frames
    opened = open_many(lab.keyring, reports)
    codewords = [Codewords(profile.seed, profile.width) for profile in lab.profiles]
    real = by_product(opened, lab.profiles, codewords).residual <= LIMIT
    for each in codewords:
        each.gamma = np.zeros_like(each.gamma)
    looked_up = layers.decode(opened, codewords).residual <= LIMIT
    assert looked_up.tolist() == real.tolist()
    assert np.count_nonzero(real) >= 2 * (48 + 67 + 48)


def test_reports_of_another_width_are_refused(frames: tuple[Lab, list[bytes]]) -> None:
    lab, reports = frames
    opened = open_many(lab.keyring, reports)
    wide = Codewords(lab.profiles[1].seed, lab.profiles[1].width)
    with pytest.raises(ValueError, match="width 48 are no codewords of width 67"):
        layers.decode(opened, [wide, wide, wide])


@pytest.mark.parametrize("width", [2, 5, 6, 7, 48, 252, 1024])
def test_trits_are_packed_as_the_core_packs_them(width: int, rng: np.random.Generator) -> None:
    trits = rng.integers(-1, 2, (20, width - 1), dtype=np.int8)
    assert unpack_trits(pack_trits(trits), width).tolist() == trits.tolist()
    column = int(rng.integers(width))
    assert pack_trits(project_many(7, width, [column], [1]))[0].tobytes() == codeword(7, width, column, 1)
