# SPDX-License-Identifier: MIT
"""States of bets as the store has them: packed, since most of a state is zeros until its device has spoken of everything.

Of 43 KB at 1,024 attributes two are left after a dozen reports. The loops are in C (`gateway/kernels/zeros.c`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from peel_gateway._kernels import ffi, lib
from peel_gateway.screening.bets import Unplayable

__all__ = ["pack", "unpack"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_ROOM = 2**24
"""Bytes that states are packed into at a time."""


def pack(states: Bytes, rows: Ints) -> list[bytes]:
    """States at some rows of uint8[S, state_bytes], each by itself; none is longer than it was."""
    size = states.shape[1]
    some = max(1, _ROOM // size)
    room = np.empty(min(some, len(rows)) * size, np.uint8)
    packed: list[bytes] = []
    for begin in range(0, len(rows), some):
        packed += _pack(room, states, rows[begin : begin + some])
    return packed


def _pack(room: Bytes, states: Bytes, rows: Ints) -> list[bytes]:
    ends = np.empty(len(rows), np.uint64)
    places = np.ascontiguousarray(rows, np.uint64)
    lib.peel_zeros_pack(
        ffi.from_buffer("uint8_t[]", room),
        ffi.from_buffer("uint64_t[]", ends),
        ffi.from_buffer("uint8_t[]", states),
        ffi.from_buffer("uint64_t[]", places),
        len(rows),
        states.shape[1],
    )
    data, bounds = room[: int(ends[-1])].tobytes(), [0, *ends.tolist()]
    return [data[begin:end] for begin, end in pairwise(bounds)]


def unpack(states: Bytes, rows: Ints, packed: Sequence[bytes]) -> None:
    """Put packed states into rows of uint8[S, state_bytes]. Raises `Unplayable` for what was never packed from such a state."""
    if len(rows) != len(packed):
        raise ValueError(f"{len(packed)} states for {len(rows)} rows")
    if len(rows) and not 0 <= rows.min() <= rows.max() < len(states):
        raise ValueError(f"rows go from {rows.min()} to {rows.max()}, and there are {len(states)}")
    ends = np.cumsum([len(each) for each in packed], dtype=np.uint64)
    places = np.ascontiguousarray(rows, np.uint64)
    right = lib.peel_zeros_unpack(
        ffi.from_buffer("uint8_t[]", states, require_writable=True),
        ffi.from_buffer("uint64_t[]", places),
        b"".join(packed),
        ffi.from_buffer("uint64_t[]", ends),
        len(rows),
        states.shape[1],
    )
    if right < len(rows):
        raise Unplayable(f"a state of {len(packed[right])} bytes is none of {states.shape[1]} bytes, packed")
