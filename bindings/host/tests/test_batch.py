# SPDX-License-Identifier: MIT
"""Batches: reports survive encoding and opening, faults affect only their own row, tables are checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peel_core import (
    CODE_NAMES,
    Keyring,
    PeelError,
    Profile,
    derive_keys,
    encode_many,
    index_many,
    make_profile,
    open_many,
    primitives,
    projection,
)
from peel_core.batch import perturb_many
from peel_core.keyring import core_block
from peel_core.kinds import CHOICE, HASHED, SIGN
from peel_core.primitives import CoreBlock, Drbg, perturb

MASTER = bytes(range(32))
ENTROPY = bytes(range(100, 164))
CHOICE_OF_4 = CoreBlock(2, 1, 1, 4, 0, 8, 3)


def profile(name: str, k: int, seed: int = 1) -> Profile:
    attributes = [{"name": f"a{i}", "kind": "mean", "unit": "V", "low": 0, "high": 5} for i in range(k)]
    table = {"name": name, "epsilon": 1, "verify": False, "seed": seed, "quota": 5, "period": 60}
    return make_profile({**table, "attribute": attributes})


SMALL, LARGE = profile("small", 4), profile("large", 60)
IDS = np.array([9, 3, 70000, 12], np.uint32)
KEYS = derive_keys(MASTER, "fleet", IDS, 1, bytes(16))
RING = Keyring([SMALL, LARGE], IDS, 1, [0, 0, 1, 1], KEYS)


def frames(which: Profile, rows: list[int], numbers: list[int]) -> list[bytes]:
    readings = np.zeros((len(rows), which.k), np.int32)
    made = encode_many(which, IDS[rows], KEYS.of(rows), numbers, readings, entropy=ENTROPY)
    return [row.tobytes() for row in made]


def test_mixed_profiles_in_one_payload() -> None:
    a, b = frames(SMALL, [0, 1], [5, 6]), frames(LARGE, [2, 3], [7, 2**48 - 1])
    opened = open_many(RING, [a[0] + b[0] + a[1], b[1]])
    assert opened.code.tolist() == [0, 0, 0, 0]
    assert opened.message.tolist() == [0, 0, 0, 1]
    assert opened.offset.tolist() == [0, len(a[0]), len(a[0]) + len(b[0]), 0]
    assert opened.device.tolist() == [9, 70000, 3, 12]
    assert opened.number.tolist() == [5, 7, 6, 2**48 - 1]
    assert opened.profile.tolist() == [0, 1, 0, 1]
    assert RING.device_ids[opened.slot].tolist() == opened.device.tolist()
    assert opened.rule.tolist() == [
        SMALL.blocks[0].rule,
        LARGE.blocks[0].rule,
        SMALL.blocks[0].rule,
        LARGE.blocks[0].rule,
    ]
    assert opened.trits.shape == (4, 59)
    assert not opened.trits[0, 47:].any()


def test_another_devices_profile_is_refused() -> None:
    readings = np.zeros((1, SMALL.k), np.int32)
    frame = encode_many(SMALL, IDS[2:3], KEYS.of([2]), [1], readings, entropy=ENTROPY)
    assert CODE_NAMES[int(open_many(RING, [frame.tobytes()]).code[0])] == "profile"


def test_a_fault_in_the_middle_leaves_its_neighbours_alone() -> None:
    good = frames(SMALL, [0, 0, 0], [1, 2, 3])
    broken = bytearray(good[1])
    broken[20] ^= 1
    opened = open_many(RING, [good[0] + bytes(broken) + good[2]])
    assert [CODE_NAMES.get(code, "ok") for code in opened.code.tolist()] == ["ok", "seal", "ok"]
    assert not opened.trits[1].any()


def test_nothing_and_empty() -> None:
    assert len(open_many(RING, [])) == 0
    assert open_many(RING, [b"", b""]).code.tolist() == [-1, -1]
    assert open_many(Keyring([], [], 1, [], KEYS.of([])), [b"x" * 40]).code[0] < 0


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(st.binary(max_size=200), max_size=6))
def test_any_bytes_are_accounted_for(payloads: list[bytes]) -> None:
    opened = open_many(RING, payloads)
    assert np.all(opened.code < 0)
    for position, payload in enumerate(payloads):
        assert opened.length[opened.message == position].sum() == len(payload)


@settings(max_examples=100)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_any_changed_byte_of_a_frame_is_refused(position: int, change: int) -> None:
    frame = bytearray(frames(SMALL, [0], [44])[0])
    frame[position % len(frame)] ^= change
    assert np.all(open_many(RING, [bytes(frame)]).code < 0)


def test_failure_names_the_report() -> None:
    with pytest.raises(PeelError, match="report 1 of the batch") as caught:
        frames(SMALL, [0, 0], [1, 0])
    assert caught.value.name == "number"


@pytest.mark.parametrize(
    ("ids", "firsts", "profile_of", "problem"),
    [
        ([1, 1], 1, [0, 0], "same first number"),
        ([0, 1], 1, [0, 0], "reserved"),
        ([1, 2], 1, [0, 2], "outside"),
        ([1, 2], 1, [0], "differ"),
        ([1, 2], [1], [0, 0], "first_numbers has shape"),
        ([1, 2], [1, 0], [0, 0], "first_numbers: a report number"),
        ([1, 2], [1, 2**48], [0, 0], "first_numbers: a report number"),
        ([1], 1, [0], "keys.seal has shape"),
    ],
)
def test_keyring_is_checked(ids: list[int], firsts: int | list[int], profile_of: list[int], problem: str) -> None:
    with pytest.raises((ValueError, IndexError), match=problem):
        Keyring([SMALL], ids, firsts, profile_of, KEYS.of([0, 1]))


def test_a_number_finds_its_bundle() -> None:
    keys = derive_keys(MASTER, "fleet", [5, 5, 5, 8], [10, 20, 40, 1], bytes(16))
    ring = Keyring(
        [SMALL], [5, 8, 5, 5], [20, 1, 40, 10], [0] * 4, keys.of([1, 3, 2, 0]), [29, 2**48 - 1, 49, 2**48 - 1]
    )
    numbers = [9, 10, 19, 20, 29, 30, 39, 40, 49, 50, 2**48 - 1]
    assert ring.find(np.full(11, 5), numbers).tolist() == [-1, 0, 0, 1, 1, -1, -1, 2, 2, -1, -1]
    assert ring.find([8, 8, 7, 9], [1, 2**48 - 1, 1, 1]).tolist() == [3, 3, -1, -1]
    assert (ring.last_bundle.tolist(), ring.owners.tolist()) == ([2, 3], [0, 0, 0, 1])
    assert np.array_equal(ring.keys.seal, keys.seal)


def test_keys_do_not_show() -> None:
    assert repr(RING) == str(RING) == "Keyring(2 profiles, 4 devices, 4 bundles)"
    assert repr(KEYS) == str(KEYS) == "Keys(4 bundles)"


def test_one_attribute_is_enough() -> None:
    one = profile("one", 1)
    ring = Keyring([one], IDS[:1], 1, [0], KEYS.of([0]))
    rows = np.zeros(200, np.intp)
    made = encode_many(one, IDS[rows], KEYS.of(rows), np.arange(1, 201), np.full((200, 1), 32768), entropy=ENTROPY)
    opened = open_many(ring, [made.tobytes()])
    assert not opened.code.any()
    assert not opened.unit.any()
    index, sign, _ = projection.reconstruct(projection.reconstruction(one.seed, one.width), opened.trits)
    assert not index.any()
    assert 120 < (sign > 0).sum() < 170  # 146 are expected, 6 is one standard deviation


@pytest.mark.parametrize("readings", [np.zeros((1, 4)), np.full((1, 4), 0.5), [[0.0, 1, 2, 3]], [[True] * 4]])
def test_readings_that_are_no_integers_are_refused(readings: Any) -> None:
    with pytest.raises(TypeError, match="integers"):
        encode_many(SMALL, IDS[:1], KEYS.of([0]), [1], readings, entropy=ENTROPY)


def test_readings_beyond_32_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="32 bits"):
        encode_many(SMALL, IDS[:1], KEYS.of([0]), [1], [[2**31, 0, 0, 0]], entropy=ENTROPY)


def test_what_a_number_assigns_depends_on_the_flags_as_in_a_frame() -> None:
    numbers = np.arange(1, 65)
    rows = np.zeros(64, np.intp)
    for flags in (0, 1):
        made = encode_many(
            SMALL,
            IDS[rows],
            KEYS.of(rows),
            numbers,
            np.zeros((64, 4), np.int32),
            entropy=ENTROPY,
            flags=flags,
        )
        opened = open_many(RING, [made.tobytes()], accept_unsealed=True)
        assigned = index_many(SMALL, IDS[rows], KEYS.of(rows), numbers, flags=flags)
        assert opened.unit.tolist() == assigned.tolist()
    with pytest.raises(PeelError, match="reserved bits"):
        index_many(SMALL, IDS[rows], KEYS.of(rows), numbers, flags=2)


def test_a_keyring_cannot_be_changed() -> None:
    for array in (RING.device_ids, RING.profile_of, RING.bundle_first, RING.keys.seal, RING.keys.receipt):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_an_unsealed_frame_opens_only_when_asked_to() -> None:
    readings = np.zeros((1, 4), np.int32)
    made = encode_many(SMALL, IDS[:1], KEYS.of([0]), [1], readings, entropy=ENTROPY, flags=1)[0].tobytes()
    with pytest.raises(PeelError, match="unsealed"):
        primitives.frame_open(KEYS.seal[0].tobytes(), SMALL.width, made)
    assert primitives.frame_open_unsealed(SMALL.width, made)[0] == SMALL.blocks[0].rule
    with pytest.raises(PeelError, match="unsealed"):
        primitives.frame_open_unsealed(SMALL.width, frames(SMALL, [0], [1])[0])


@pytest.mark.parametrize(("form", "k", "domain"), [(SIGN, 5, 0), (CHOICE, 5, 0), (HASHED, 3, 20)])
def test_coins_in_bulk_equal_the_cores_coins_one_by_one(
    form: int, k: int, domain: int, rng: np.random.Generator
) -> None:
    entropy, questions = rng.bytes(32), k if form == SIGN else 1
    blocks = [CoreBlock(form, 1, questions, k // questions, domain, 8, 3)]
    words = rng.integers(2**32, size=(300, 2), dtype=np.uint32)
    low, high = (-(2**15), 2**15 + 1) if form == SIGN else (0, domain or k)
    readings = rng.integers(low, high, size=(300, questions))
    index, sign = perturb_many(blocks, 48, words, readings, entropy=entropy)
    drbg = Drbg(entropy)
    for i, word in enumerate(words):
        alone = perturb(blocks, 48, (int(word[0]), int(word[1])), readings[i].tolist(), drbg)
        assert (index[i], sign[i]) == (alone[0], 1 - 2 * alone[1])


def test_the_report_whose_coin_fails_is_named(rng: np.random.Generator) -> None:
    with pytest.raises(PeelError, match="report 2 of the batch"):
        perturb_many([CHOICE_OF_4], 48, np.zeros((3, 2)), [0, 3, 4], entropy=rng.bytes(32))


def test_no_coins_are_no_error(rng: np.random.Generator) -> None:
    index, sign = perturb_many([CHOICE_OF_4], 48, [], [], entropy=rng.bytes(32))
    assert len(index) == len(sign) == 0


MIXED = make_profile(
    {
        "name": "mixed", "epsilon": 1, "verify": False, "seed": SMALL.seed, "quota": 5, "period": 60,
        "attribute": [
            *({"name": f"a{i}", "kind": "mean", "low": 0, "high": 5, "weight": 2} for i in range(3)),
            {"name": "door", "kind": "category", "categories": ["a", "b", "c", "d"]},
            {"name": "error", "kind": "hashed", "domain": 20, "weight": 3},
        ],
    }
)  # fmt: skip
"""Blocks of every form: 3 signs of weight 2, a choice of 4, and 20 categories hashed into 3."""


@pytest.mark.parametrize("missing", [False, True])
def test_a_mixed_batch_has_the_units_rules_and_columns_of_its_questions(missing: bool) -> None:
    profile, blocks = MIXED, [core_block(each) for each in MIXED.blocks]
    numbers, who = np.arange(1, 301), np.zeros(300, np.intp)
    readings = np.full((300, 5), primitives.NO_READING if missing else 1)
    made = encode_many(profile, IDS[who], KEYS.of(who), numbers, readings, entropy=ENTROPY)
    opened = open_many(Keyring([profile], IDS[:1], 1, [0], KEYS.of([0])), [made.tobytes()])
    headers = [frame.tobytes()[:16] for frame in made]
    words = [primitives.index_words(KEYS.index[0].tobytes(), header) for header in headers]
    units = np.array([primitives.unit(blocks, 48, pair) for pair in words])
    assert np.array_equal(opened.unit, units)
    assert np.array_equal(opened.unit, index_many(profile, IDS[who], KEYS.of(who), numbers))
    block = np.searchsorted([3, 4], units, side="right")
    assert np.array_equal(np.bincount(block) > 50, [True, False, True])  # 6, 1 and 3 of 10 slots
    assert np.array_equal(opened.rule, np.array([each.rule for each in MIXED.blocks])[block])
    column, sign, _ = projection.reconstruct(projection.reconstruction(profile.seed, 48), opened.trits)
    if missing:
        assert set(column.tolist()) == {10}
        assert (sign == 1).all()
    else:
        assert np.array_equal(np.searchsorted([3, 7], column, side="right"), block)
        assert np.array_equal(column[block == 0], units[block == 0])
