# SPDX-License-Identifier: MIT
"""Packed test states: unpacking returns the packed state, and damaged bytes are refused."""

from __future__ import annotations

import contextlib

import numpy as np
import numpy.typing as npt
import pytest

from peel_gateway.screening import device_tests as packing
from peel_gateway.screening.device_tests import pack, unpack
from peel_gateway.screening.e_process import DamagedTestState

Bytes = npt.NDArray[np.uint8]
SIZE = 4096


def records(rng: np.random.Generator, density: float, count: int = 50, size: int = SIZE) -> Bytes:
    filled = rng.integers(1, 256, (count, size), dtype=np.uint8)
    return np.where(rng.random((count, size)) < density, filled, 0).astype(np.uint8)


@pytest.mark.parametrize("density", [0, 0.001, 0.02, 0.3, 0.9, 1])
@pytest.mark.parametrize("size", [8, 16, 2048, 2056, SIZE])
def test_what_was_packed_comes_back(density: float, size: int, rng: np.random.Generator) -> None:
    states = records(rng, density, size=size)
    rows = rng.permutation(len(states))[:30]
    packed = pack(states, rows)
    assert max(map(len, packed)) <= size
    back = records(rng, 1, size=size)  # what was in the rows before is gone
    before, others = back.copy(), np.setdiff1d(np.arange(len(states)), rows)
    unpack(back, rows, packed)
    assert np.array_equal(back[rows], states[rows])
    assert np.array_equal(back[others], before[others])


def test_more_than_is_packed_at_a_time(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    states = records(rng, 0.1)
    whole = pack(states, np.arange(50))
    monkeypatch.setattr(packing, "_ROOM", 3 * SIZE)
    assert pack(states, np.arange(50)) == whole


def test_zeros_take_no_room(rng: np.random.Generator) -> None:
    (nothing,) = pack(np.zeros((1, SIZE), np.uint8), np.zeros(1, np.int64))
    assert len(nothing) == 4, "two runs of 256 words"
    sparse = pack(records(rng, 0.01), np.arange(50))
    assert max(map(len, sparse)) < SIZE / 10


def test_nothing_is_nothing(rng: np.random.Generator) -> None:
    states = records(rng, 0.5)
    assert pack(states, np.zeros(0, np.int64)) == []
    unpack(states, np.zeros(0, np.int64), [])


def test_what_was_never_packed_is_refused(rng: np.random.Generator) -> None:
    """Every shorter one, one with more behind it; and whatever a damaged database has, not a byte is written beyond the row."""
    (good,) = pack(records(rng, 0.1, 1), np.zeros(1, np.int64))
    states = records(rng, 1, 3)
    beside = states[[0, 2]].copy()
    damaged = [good[:end] for end in range(len(good))] + [good + b"\0", good + b"\xff" * 9, b"\0\xff" * 3, b""]
    for each in damaged:
        with pytest.raises(
            DamagedTestState, match=f"a packed state of {len(each)} bytes does not unpack to {SIZE} bytes"
        ):
            unpack(states, np.ones(1, np.int64), [each])
    for size in rng.integers(1, SIZE, 300).tolist():
        with contextlib.suppress(DamagedTestState):  # now and then chance makes one that is right
            unpack(states, np.ones(1, np.int64), [rng.bytes(size)])
    assert np.array_equal(states[[0, 2]], beside)
    with pytest.raises(ValueError, match="rows go from 3 to 3, and there are 3"):
        unpack(states, np.array([3]), [good])
    with pytest.raises(ValueError, match="1 states for 2 rows"):
        unpack(states, np.array([0, 1]), [good])
