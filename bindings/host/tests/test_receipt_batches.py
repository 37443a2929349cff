# SPDX-License-Identifier: MIT
"""Receipts in batches: each device's runs under its own key, and invalid runs refused."""

from __future__ import annotations

import numpy as np
import pytest

from peel_core import PeelError
from peel_core.receipts import MAX_RUNS, Receipt, read_receipt, write_receipts

KEYS = np.arange(48, dtype=np.uint8).reshape(3, 16)
SAID = (Receipt(7), Receipt(0, ((3, 4), (9, 9))), Receipt(2**47, ((2**47 + 2, 2**48 - 1),)))


def written() -> list[bytes]:
    runs = [run for receipt in SAID for run in receipt.runs]
    return write_receipts(
        [1, 2, 3], KEYS, [each.upto for each in SAID], runs, np.cumsum([len(each.runs) for each in SAID])
    )


def test_each_device_reads_its_own_and_no_other() -> None:
    receipts = written()
    for place, said in enumerate(SAID):
        key = KEYS[place].tobytes()
        assert read_receipt(key, place + 1, receipts[place]) == said
        for other in {0, 1, 2} - {place}:
            with pytest.raises(PeelError):
                read_receipt(key, place + 1, receipts[other])


def test_what_is_settled() -> None:
    settled = [number for number in range(1, 12) if SAID[1].settles(number)]
    assert settled == [3, 4, 9]
    assert SAID[0].settles(7)
    assert not SAID[0].settles(8)


def test_an_empty_batch() -> None:
    assert write_receipts([], KEYS[:0], [], np.zeros((0, 2)), []) == []


@pytest.mark.parametrize(
    ("device", "upto", "runs"),
    [
        (0, 1, []),
        (1, 2**48, []),
        (1, 5, [(6, 7)]),  # adjacent
        (1, 5, [(4, 7)]),
        (1, 0, [(3, 2)]),
        (1, 0, [(3, 4), (4, 9)]),
        (1, 0, [(3, 2**48)]),
    ],
)
def test_what_cannot_stand_in_a_receipt(device: int, upto: int, runs: list[tuple[int, int]]) -> None:
    with pytest.raises(PeelError):
        write_receipts([7, device], KEYS[:2], [0, upto], np.reshape(runs, (-1, 2)), [0, len(runs)])


def test_too_many_runs_and_shapes_that_do_not_fit() -> None:
    many = [(3 * place, 3 * place + 1) for place in range(1, MAX_RUNS + 2)]
    assert (
        len(read_receipt(KEYS[0].tobytes(), 1, write_receipts([1], KEYS[:1], [0], many[:-1], [MAX_RUNS])[0]).runs)
        == MAX_RUNS
    )
    for arguments in (
        ([1], KEYS[:1], [0], many, [MAX_RUNS + 1]),
        ([1], KEYS[:1], [0], many[:1], [2]),
        ([1, 2], KEYS[:2], [0, 0], many[:1], [1, 0]),
        ([1], KEYS[:2], [0], [], [0]),
    ):
        with pytest.raises(ValueError, match=r"run_ends|shapes"):
            write_receipts(*arguments)
