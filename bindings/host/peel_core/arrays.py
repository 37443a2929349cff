# SPDX-License-Identifier: MIT
"""Check arrays before they are passed to C."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peel_core._core import ffi, lib
from peel_core.keys import Keys

__all__ = ["checked_keys", "key_rows", "pointer", "report_numbers", "whole_readings"]


def pointer(ctype: str, array: NDArray[Any]) -> Any:
    """Return an array's memory as a C pointer, valid while the array lives."""
    return ffi.from_buffer(f"{ctype}[]", array)


def key_rows(keys: NDArray[np.uint8], count: int, what: str) -> NDArray[np.uint8]:
    """Return keys of one kind as uint8, shape (count, 16)."""
    array = np.ascontiguousarray(keys, dtype=np.uint8)
    if array.shape != (count, lib.PEEL_KEY_BYTES):
        raise ValueError(f"{what} has shape {array.shape}, expected {(count, int(lib.PEEL_KEY_BYTES))}")
    return array


def whole_readings(readings: ArrayLike) -> NDArray[np.int32]:
    """Return readings as int32. Only integer types are accepted, as a fraction would be cut off silently."""
    values = np.asarray(readings)
    if values.dtype.kind not in "iu":
        raise TypeError(
            f"readings must be integers (Q15, or categories), not {values.dtype}; scale and round them first"
        )
    limits = np.iinfo(np.int32)
    if values.size and (values.min() < limits.min or values.max() > limits.max):
        raise ValueError("a reading does not fit in 32 bits")
    return np.ascontiguousarray(values, dtype=np.int32)


def report_numbers(what: str, numbers: ArrayLike, count: int) -> NDArray[np.uint64]:
    """Return report numbers, given one each or one for all."""
    given = np.asarray(numbers, dtype=np.uint64)
    if given.ndim and given.shape != (count,):
        raise ValueError(f"{what} has shape {given.shape}, expected {(count,)}")
    array = np.ascontiguousarray(np.broadcast_to(given, count))
    if np.any((array == 0) | (array > lib.PEEL_NUMBER_MAX)):
        raise ValueError(f"{what}: a report number must be from 1 to 2^48 - 1")
    return array


def checked_keys(keys: Keys, count: int) -> Keys:
    """Return all three kinds of keys, one row per bundle."""
    return Keys(*(key_rows(getattr(keys, name), count, f"keys.{name}") for name in ("seal", "index", "receipt")))
