# SPDX-License-Identifier: MIT
"""Trits of many codewords, five to a byte (SPEC section 8)."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

__all__ = ["pack_trits", "packed_bytes", "unpack_trits"]

_WEIGHTS = 3 ** np.arange(5)
_TRITS = np.zeros((256, 5), np.float32)
_TRITS[: 3**5] = np.array(list(itertools.product((-1, 0, 1), repeat=5)))[:, ::-1]
"""The trits of each byte, the first one in the lowest place. No encoder writes a byte above 242."""


def packed_bytes(width: int) -> int:
    """Return the bytes of a packed codeword, which has width - 1 trits."""
    return (width + 3) // 5


def pack_trits(trits: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Pack codewords of one width, shape (N, width - 1), into shape (N, packed_bytes(width))."""
    count, length = trits.shape
    digits = np.zeros((count, packed_bytes(length + 1) * 5), np.int64)
    digits[:, :length] = trits + 1
    return (digits.reshape(count, packed_bytes(length + 1), 5) @ _WEIGHTS).astype(np.uint8)


def unpack_trits(packed: NDArray[np.uint8], width: int) -> NDArray[np.float32]:
    """Unpack codewords into shape (N, width - 1) with -1, 0, +1 as float32. Bytes beyond the width are ignored."""
    size = packed_bytes(width)
    trits = _TRITS[packed[:, :size]].reshape(len(packed), 5 * size)
    return np.ascontiguousarray(trits[:, : width - 1])
