# SPDX-License-Identifier: MIT
"""Arrays on their way into C: of the right type and shape, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peel_core._core import ffi, lib
from peel_core.keys import Keys

__all__ = ["checked_keys", "key_rows", "pointer", "report_numbers", "whole_readings"]


def pointer(ctype: str, array: NDArray[Any]) -> Any:
    """An array's memory as C takes it; valid while the array lives."""
    return ffi.from_buffer(f"{ctype}[]", array)


def key_rows(keys: NDArray[np.uint8], count: int, what: str) -> NDArray[np.uint8]:
    """One kind of keys, one row each: uint8, shape (count, 16)."""
    array = np.ascontiguousarray(keys, dtype=np.uint8)
    if array.shape != (count, lib.PEEL_KEY_BYTES):
        raise ValueError(f"{what} has shape {array.shape}, expected {(count, int(lib.PEEL_KEY_BYTES))}")
    return array


def whole_readings(readings: ArrayLike) -> NDArray[np.int32]:
    """Readings as the core takes them; a fraction would be cut off in silence, so whole types only."""
    values = np.asarray(readings)
    if values.dtype.kind not in "iu":
        raise TypeError(f"readings are integers (Q15, or categories), not {values.dtype}; scale and round them first")
    limits = np.iinfo(np.int32)
    if values.size and (values.min() < limits.min or values.max() > limits.max):
        raise ValueError("a reading does not fit into 32 bits")
    return np.ascontiguousarray(values, dtype=np.int32)


def report_numbers(what: str, numbers: ArrayLike, count: int) -> NDArray[np.uint64]:
    """Report numbers, one each or one for all."""
    given = np.asarray(numbers, dtype=np.uint64)
    if given.ndim and given.shape != (count,):
        raise ValueError(f"{what} has shape {given.shape}, expected {(count,)}")
    array = np.ascontiguousarray(np.broadcast_to(given, count))
    if np.any((array == 0) | (array > lib.PEEL_NUMBER_MAX)):
        raise ValueError(f"{what}: a report number is from 1 to 2^48 - 1")
    return array


def checked_keys(keys: Keys, count: int) -> Keys:
    """All kinds, one row each."""
    return Keys(*(key_rows(getattr(keys, name), count, f"keys.{name}") for name in ("seal", "index", "receipt")))
