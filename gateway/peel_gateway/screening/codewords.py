# SPDX-License-Identifier: MIT
"""Codewords: what the product by Gamma says of each of them, known before a report comes.

A projection has 2 width codewords, and honest devices send nothing else. So the product is taken once for all of them, and reports are
looked up by their bytes (`gateway/kernels/codewords.h`). Whatever else a report holds goes through the product; which way it took cannot
be told from its verdict.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Opened
from peel_core.batch import project_many
from peel_core.projection import reconstruct, reconstruction
from peel_core.trits import pack_trits, unpack_trits
from peel_gateway._kernels import ffi, lib

__all__ = ["Codewords"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class Codewords:
    """The codewords of a projection, and the matrix that decodes whatever is none.

    Raises `numpy.linalg.LinAlgError` where the projection cannot be inverted.
    """

    def __init__(self, seed: int, width: int) -> None:
        self.width = width
        self.gamma = reconstruction(seed, width)
        trits = project_many(seed, width, np.tile(np.arange(width), 2), np.repeat([0, 1], width))
        index, sign, residual = reconstruct(self.gamma, trits.astype(np.float32))
        packed = pack_trits(trits)
        slots = np.zeros(1 << (2 * len(packed) - 1).bit_length(), np.uint32)
        self._table = ffi.new(
            "peel_codewords *", {"bytes": packed.shape[1], "count": len(packed), "slot_count": len(slots)}
        )
        self._alive = _point(
            self._table, packed=packed, index=index, sign=sign.astype(np.int64), residual=residual, slots=slots
        )
        lib.peel_codewords_enter(self._table)

    def decode(self, opened: Opened, profile: int, index: Ints, sign: Ints, residual: Floats) -> None:
        """Write what the reports of a profile, given by its position, decode to into their rows, as `projection.reconstruct` has it.

        Parameters
        ----------
        index, sign, residual : int64, int64 and float32, shape (N,)
            Changed in place; `index` is -1 where nothing has been decoded.
        """
        reports = ffi.new("peel_codewords_reports *", {"stride": opened.packed.shape[1], "count": len(opened)})
        alive = _point(reports, packed=opened.packed, profile=opened.profile, code=opened.code)
        into = [_buffer(array) for array in (index, sign, residual)]
        others = lib.peel_codewords_decode(*into, self._table, reports, profile)
        del alive
        if others:
            rows = np.flatnonzero((opened.profile == profile) & (opened.code == 0) & (index < 0))
            trits = unpack_trits(opened.packed[rows], self.width)
            index[rows], sign[rows], residual[rows] = reconstruct(self.gamma, trits)


def _buffer(array: npt.NDArray[Any]) -> Any:
    """An array as the kernel's pointer; it keeps the array alive."""
    return ffi.from_buffer("float[]" if array.dtype == np.float32 else f"{array.dtype}_t[]", array)


def _point(struct: Any, **arrays: npt.NDArray[Any]) -> list[Any]:
    """Let the fields of a struct point to arrays; what comes back must live as long as they are used."""
    buffers = {name: _buffer(array) for name, array in arrays.items()}
    for name, buffer in buffers.items():
        setattr(struct, name, buffer)
    return list(buffers.values())
