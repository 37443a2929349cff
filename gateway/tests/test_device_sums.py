# SPDX-License-Identifier: MIT
"""Sums per device in C: those of packed pieces are those of their rows, and a damaged piece is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from peel_gateway.model.grouping import add_up
from peel_gateway.model.tables import RollupTable
from peel_gateway.storage.sql import rollups
from peel_gateway.storage.sql.device_sums import NEVER, DeviceSums, PackedPiece, Slots

pytestmark = pytest.mark.quick
CELLS, UNIT = 12, 300


def rows(rng: np.random.Generator, count: int, *, devices: int, most: int, pardons: int) -> RollupTable:
    """Return rows at random, in the order of their keys."""
    keys = np.unique(
        np.stack(
            [
                rng.integers(0, 6, count) * UNIT,
                rng.integers(1, devices + 1, count),
                rng.integers(0, CELLS, count),
                rng.integers(0, pardons + 1, count),
            ]
        ),
        axis=1,
    )
    plus, minus = rng.integers(0, most, (2, keys.shape[1]))
    start, device, index, forfeits = keys
    return RollupTable(np.full(keys.shape[1], 7), start, device, index, forfeits, plus, minus)


def packed(table: RollupTable) -> PackedPiece:
    return rollups._parsed(len(table), rollups._packed(table))


def add(sums: DeviceSums, piece: PackedPiece, begin: int = 0, end: int = 10**9) -> None:
    start = piece.units["start"].astype(np.int64)
    sums.add_piece(piece, start, (start >= begin) & (start < end))


@pytest.mark.parametrize("devices", [3, 2000, 10**7])
@pytest.mark.parametrize("most", [2, 300, 10**6, 2**40])
@pytest.mark.parametrize("pardons", [0, 3])
@pytest.mark.parametrize("some", [False, True])
def test_sums_are_those_of_the_rows(
    devices: int, most: int, pardons: int, some: bool, rng: np.random.Generator
) -> None:
    one, other, loose = (rows(rng, 700, devices=devices, most=most, pardons=pardons) for _ in range(3))
    ids = np.unique(np.concatenate([one.device, other.device, loose.device]))
    only = ids[:: 2 + len(ids) // 500] if some or devices > 10**6 else None
    slots = Slots(int(ids[0]), int(ids[-1]), only)
    withdrawn, pardoned = ids[::3], ids[1::3]
    if pardons:
        slots.leave_out(pardoned, np.full(len(pardoned), 2))
        slots.leave_out(withdrawn, NEVER)
    begin, size = UNIT, 2 * UNIT
    sums = DeviceSums(slots, CELLS, size, 0, 3)
    for table in (one, other):
        add(sums, packed(table), begin)
    sums.add_table(loose.at(loose.start >= begin))
    found = sums.table()

    whole = RollupTable(
        **{name: np.concatenate([getattr(each, name) for each in (one, other, loose)]) for name in vars(one)}
    )
    whole = whole.at((whole.start >= begin) & (np.isin(whole.device, only) if only is not None else True))
    gone = np.zeros(len(whole), np.int64)
    if pardons:
        gone = (np.isin(whole.device, withdrawn) | (np.isin(whole.device, pardoned) & (whole.forfeits < 2))) * 1
    keys, (plus, minus) = add_up(
        [whole.start // size * size, whole.device, whole.index, gone], [whole.plus, whole.minus]
    )
    there = plus + minus > 0
    expected = (*keys, plus, minus)
    actual = (found.bucket, found.device, found.index, found.withdrawn, found.plus, found.minus)
    assert all(np.array_equal(one[there], other) for one, other in zip(expected, actual, strict=True))
    assert len(found)


def test_one_group_has_all_units(rng: np.random.Generator) -> None:
    table = rows(rng, 500, devices=20, most=5, pardons=0)
    sums = DeviceSums(Slots(1, 20), CELLS, None, 0, 1)
    add(sums, packed(table))
    found = sums.table()
    assert (found.bucket == 0).all()
    assert found.plus.sum() == table.plus.sum() and found.minus.sum() == table.minus.sum()


def test_a_damaged_piece_is_refused(rng: np.random.Generator) -> None:
    piece = packed(rows(rng, 500, devices=20, most=5, pardons=0))
    units = piece.units.copy()
    units["entries"][0] += 1
    damaged = (
        dataclasses.replace(piece, units=units),
        dataclasses.replace(piece, widths=[3, *piece.widths[1:]]),
        dataclasses.replace(piece, widths=[0, *piece.widths[1:]]),
        dataclasses.replace(piece, bits=64),
    )
    for each in damaged:
        with pytest.raises(ValueError, match="rows of 6 units"):
            add(DeviceSums(Slots(1, 20), CELLS, None, 0, 1), each)
    with pytest.raises(ValueError, match="rows of 6 units"):
        add(DeviceSums(Slots(1, 20), CELLS - 1, None, 0, 1), piece)
    with pytest.raises(ValueError, match="rows of 6 units"):
        add(DeviceSums(Slots(1, 20), CELLS, UNIT, 0, 5), piece)
