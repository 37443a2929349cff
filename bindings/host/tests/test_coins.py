# SPDX-License-Identifier: MIT
"""Verified coins in batches: honest openings verify, others do not, and shapes that do not fit are refused."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from peel_core import CODE_NAMES, PeelError, coins
from peel_core._core import ffi, lib
from peel_core.coin_receipts import CoinReceipt, read_coin_receipt, write_coin_receipt
from peel_core.receipts import Receipt

ODDS = np.array([(2, 1, 2), (3, 1, 3), (8, 3, 2), (8, 2, 5), (2, 1, 16), (34, 2, 16), (33, 31, 2), (2, 1, 63)])
SIZE = coins.opening_bytes(coins.MAX_TABLE)


def zeros(*shape: int) -> NDArray[np.uint8]:
    return np.zeros(shape, np.uint8)


def made(count: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
    """Return names, seeds and indices of coins of all kinds."""
    rng = np.random.default_rng(seed)
    odds = ODDS[np.arange(count) % len(ODDS)]
    numbers = rng.integers(1, 2**48, count, dtype=np.uint64)
    names = coins.coin_names(7, rng.integers(1, 2**32, count), numbers, *odds.T)
    seeds = coins.coin_seeds(rng.integers(0, 256, (count, 16), dtype=np.uint8), numbers)
    sizes = odds[:, 0] + (odds[:, 2] - 1) * odds[:, 1]
    challenges = rng.integers(0, 256, (count, 16), dtype=np.uint8)
    indices = coins.challenge_indices(challenges, numbers, sizes)
    assert np.all(indices < sizes)
    return names, seeds, indices


def test_honest_openings_count_as_the_coin_of_section_6(seed: int) -> None:
    count = 20_000
    names, seeds, indices = made(count, seed)
    symbols = names[:, 16].astype(int)
    answers = np.arange(count) % symbols
    masked = coins.mask_answers(seeds, symbols, answers)
    opened = coins.open_coins(names, seeds, indices, SIZE)
    outcomes = coins.verify_openings(coins.coin_roots(names, seeds), names, indices, opened.openings)
    assert np.all(outcomes >= 0)
    kept = (outcomes + masked.astype(int)) % symbols == answers
    for place, (keep, change, g) in enumerate(ODDS.tolist()):
        chance, group = keep / (keep + (g - 1) * change), kept[place :: len(ODDS)]
        assert abs(group.mean() - chance) < 5 * np.sqrt(chance * (1 - chance) / len(group))
        assert Counter(masked[place :: len(ODDS)].tolist()).keys() == set(range(g))


def test_many_tables_at_once_are_those_that_the_core_makes_one_by_one(seed: int) -> None:
    """Roots and openings are computed side by side, for tables of every size in any order. The core opens them one by one."""
    odds = [(size - (g - 1) * change, change, g) for size in range(3, 65) for g in (2, 3, 5, 16) for change in (1, 2)]
    keep, change, symbols = np.array([each for each in odds if each[0] > each[1]]).T
    rng = np.random.default_rng(seed)
    order = rng.permutation(np.repeat(np.arange(len(keep)), 11))
    names = coins.coin_names(7, order + 1, order + 1, keep[order], change[order], symbols[order])
    seeds = rng.integers(0, 256, (len(order), 16), dtype=np.uint8)
    indices = rng.integers(0, keep[order] + (symbols[order] - 1) * change[order])
    opened = coins.open_coins(names, seeds, indices, SIZE)
    assert (coins.coin_roots(names, seeds) == opened.roots).all()
    assert (coins.verify_openings(opened.roots, names, indices, opened.openings) == opened.openings[:, 0]).all()


def test_every_changed_byte_of_an_opening_is_refused(seed: int) -> None:
    names, seeds, indices = made(len(ODDS), seed)
    opened = coins.open_coins(names, seeds, indices, SIZE)
    for row in range(len(ODDS)):
        changed = np.repeat(opened.openings[row : row + 1], SIZE, 0)
        changed[np.arange(SIZE), np.arange(SIZE)] ^= np.uint8(1 << row % 8)
        roots, same = (np.repeat(array[row : row + 1], SIZE, 0) for array in (opened.roots, names))
        codes = coins.verify_openings(roots, same, int(indices[row]), changed)
        assert np.all(codes < 0)
        assert {CODE_NAMES[code] for code in codes.tolist()} <= {"root", "length", "outcome"}


def test_one_bad_opening_spoils_no_other(seed: int) -> None:
    names, seeds, indices = made(64, seed)
    opened = coins.open_coins(names, seeds, indices, SIZE)
    opened.openings[5] ^= 255
    codes = coins.verify_openings(opened.roots, names, indices, opened.openings)
    assert np.flatnonzero(codes < 0).tolist() == [5]


def test_padding_must_be_zero_and_rows_long_enough() -> None:
    names, seeds, indices = made(1, 1)
    opened = coins.open_coins(names, seeds, indices, SIZE)
    assert coins.verify_openings(opened.roots, names, indices, opened.openings)[0] >= 0
    opened.openings[0, -1] = 1
    assert coins.verify_openings(opened.roots, names, indices, opened.openings)[0] == lib.PEEL_E_LENGTH
    short = np.ascontiguousarray(opened.openings[:, :29])
    assert coins.verify_openings(opened.roots, names, indices, short)[0] == lib.PEEL_E_LENGTH
    with pytest.raises(PeelError, match="opening 0 of the batch"):
        coins.open_coins(names, seeds, indices, 29)


def test_empty_batches() -> None:
    names, seeds, indices = (array[:0] for array in made(1, 1))
    assert coins.coin_roots(names, seeds).shape == (0, 16)
    assert coins.open_coins(names, seeds, indices, SIZE).openings.shape == (0, SIZE)
    assert len(coins.verify_openings(zeros(0, 16), names, indices, zeros(0, SIZE))) == 0


def test_coins_that_no_profile_has_and_answers_out_of_range() -> None:
    bad = coins.coin_names(1, [1, 1], [1, 2], [3, 3], [1, 3], 2)
    with pytest.raises(PeelError, match="coin 1 of the batch"):
        coins.coin_roots(bad, zeros(2, 16))
    for symbols, answer, name in ((2, 2, "reading"), (1, 0, "coin"), (64, 0, "coin")):
        with pytest.raises(PeelError) as caught:
            coins.mask_answers(zeros(1, 16), symbols, [answer])
        assert caught.value.name == name
    for size, index in ((2, 0), (65, 0), (11, 11)):
        with pytest.raises(PeelError):
            coins.opening_bytes(size, index)


@pytest.mark.parametrize(
    "call",
    [
        lambda: coins.coin_seeds(zeros(2, 15), [1, 2]),
        lambda: coins.coin_seeds(zeros(2, 16), [1]),
        lambda: coins.coin_names(1, [1], [1], [256], 1, 2),
        lambda: coins.coin_names(1, [1], [1], [-1], 1, 2),
        lambda: coins.coin_names(1, [1], [1], 2.5, 1, 2),
        lambda: coins.verify_openings(zeros(1, 16), zeros(1, 20), [0, 1], zeros(1, 30)),
        lambda: coins.verify_openings(zeros(1, 16), zeros(1, 20), [0], np.zeros(30, np.uint8)),
        lambda: coins.audit_many(bytes(15), zeros(1, 16), zeros(1, 512), 8),
        lambda: coins.audit_many(bytes(16), zeros(1, 16), zeros(1, 511), 8),
        lambda: coins.challenge_root(bytes(31), "a"),
        lambda: coins.challenge_root(bytes(32), "A"),
        lambda: coins.challenge_key(bytes(15), bytes(8)),
        lambda: coins.challenge_key(bytes(16), bytes(7)),
    ],
)
def test_what_does_not_fit_is_refused(call: Any) -> None:
    with pytest.raises(ValueError):
        call()


def test_an_audit_has_exactly_its_numbers_and_each_number_its_share(seed: int) -> None:
    rng, count = np.random.default_rng(seed), 4000
    roots = rng.integers(0, 256, (count, 512), dtype=np.uint8)
    for audits in (0, 8, 16, 32):
        bitmaps = coins.audit_many(bytes(16), zeros(count, 16), roots, audits)
        bits = bitmaps[:, None] >> np.arange(32, dtype=np.uint32) & 1
        assert set(bits.sum(1).tolist()) == {audits}
        chance = audits / 32
        assert np.all(np.abs(bits.mean(0) - chance) <= 5 * np.sqrt(chance * (1 - chance) / count))


def test_threads_verify_at_the_same_time() -> None:
    names, seeds, indices = made(2000, 3)
    opened = coins.open_coins(names, seeds, indices, SIZE)
    found: list[bool] = []

    def verify() -> None:
        found.append(bool(np.all(coins.verify_openings(opened.roots, names, indices, opened.openings) >= 0)))

    threads = [threading.Thread(target=verify) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


def test_a_name_is_that_of_the_core() -> None:
    out = ffi.new("uint8_t[20]")
    header = ffi.new("peel_header *", (0, 5, 6, 2**48 - 1))
    assert lib.peel_coin_name(out, header, 8, 3, 2) == 0
    assert bytes(out) == coins.coin_names(5, [6], [2**48 - 1], 8, 3, 2).tobytes()
    for fields, odds, code in (
        ((0, 5, 0, 1), (8, 3, 2), lib.PEEL_E_DEVICE),
        ((0, 5, 6, 0), (8, 3, 2), lib.PEEL_E_NUMBER),
        ((0, 5, 6, 2**48), (8, 3, 2), lib.PEEL_E_NUMBER),
        ((0, 5, 6, 1), (3, 8, 2), lib.PEEL_E_COIN),
        ((0, 5, 6, 1), (8, 3, 2**31), lib.PEEL_E_COIN),
    ):
        assert lib.peel_coin_name(out, ffi.new("peel_header *", fields), *odds) == code


KEY = bytes(16)


@pytest.mark.parametrize(
    "changed",
    [
        {"challenge": ((5, 7), (8, 9))},  # adjacent
        {"challenge": ((5, 4),)},
        {"challenge": ((0, 4),)},
        {"challenge": ((5, 5 + 65535),)},  # too long
        {"challenge": ((5, 5), (6 + 65536, 2**20))},  # too far apart
        {"challenge": ((5, 2**48),)},
        {"challenge": tuple((3 * i, 3 * i) for i in range(1, 66))},
        {"approved": 2**48},
        {"audit_first": 2**48},
        {"settled": Receipt(5, ((6, 7),))},
    ],
)
def test_what_a_receipt_cannot_contain(changed: dict[str, Any]) -> None:
    seed = bytes(16) if "challenge" in changed else b""
    fields: dict[str, Any] = {"settled": Receipt(0), "era": bytes(8), "challenge_seed": seed, **changed}
    with pytest.raises(PeelError):
        write_coin_receipt(KEY, 1, CoinReceipt(**fields))


def test_the_longest_receipt() -> None:
    settled = Receipt(0, tuple((3 * i, 3 * i) for i in range(1, 17)))
    challenge = tuple((3 * i, 3 * i) for i in range(1, 65))
    content = CoinReceipt(settled, bytes(8), challenge_seed=bytes(16), challenge=challenge)
    receipt = write_coin_receipt(KEY, 1, content)
    assert len(receipt) == lib.PEEL_MAX_COIN_RECEIPT_BYTES == 519
    assert read_coin_receipt(KEY, 1, receipt) == content
    with pytest.raises(ValueError, match="era"):
        write_coin_receipt(KEY, 1, CoinReceipt(settled, bytes(7)))
    with pytest.raises(ValueError, match="seed of 16"):
        write_coin_receipt(KEY, 1, CoinReceipt(settled, bytes(8), challenge=challenge))
