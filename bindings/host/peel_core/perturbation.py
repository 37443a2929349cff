# SPDX-License-Identifier: MIT
"""The core's randomised response for many reports, without frames and keys, for experiments with the mechanisms."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peel_core._core import ffi, lib
from peel_core.errors import PeelError
from peel_core.primitives import Drbg

__all__ = ["perturb_many"]


def perturb_many(
    mechanism: int, rule: int, k: int, words: ArrayLike, readings: ArrayLike, *, entropy: bytes, domain: int = 0
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return the symbols of N reports (SPEC section 6).

    Parameters
    ----------
    mechanism : int
        The mechanism's number in a frame.
    rule : int
        Q31 (SPEC section 5).
    k : int
        The number of indices that a symbol can have.
    words : uint32, shape (N,)
        The values that report numbers assign: WORD of SPEC section 7.
    readings : int32
        Q15, shape (N, k), for numeric mechanisms; categories, shape (N,), for categorical ones.
    entropy : bytes
        At least 32, seeds one generator for the whole batch.
    domain : int
        The number of categories that are hashed; 0 without hashing.

    Returns
    -------
    index : int32, shape (N,)
    sign : int8, shape (N,)
        +1 or -1.
    """
    assigned = np.ascontiguousarray(words, np.uint32)
    count = len(assigned)
    values = np.ascontiguousarray(readings, np.int32).reshape(count, -1 if count else 1)
    index, sign = np.empty(count, np.int32), np.empty(count, np.int8)
    failed = ffi.new("size_t *")
    with Drbg(entropy).state() as drbg:
        code = lib.peel_batch_perturb(
            ffi.from_buffer("int32_t[]", index),
            ffi.from_buffer("int8_t[]", sign),
            failed,
            mechanism,
            rule,
            k,
            domain,
            ffi.from_buffer("uint32_t[]", assigned),
            ffi.from_buffer("int32_t[]", values),
            values.shape[1],
            count,
            drbg,
        )
    if code < 0:
        raise PeelError(code, f"report {failed[0]} of the batch")
    return index, sign
