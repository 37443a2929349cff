# SPDX-License-Identifier: MIT
"""Codewords: what the product by Gamma says of each of them, known before a report comes.

A projection has 2 width codewords, and honest devices send nothing else. So the product is taken once for all of them, and reports are
looked up by their bytes (`gateway/kernels/codewords.h`). Whatever else a report holds goes through the product; which way it took cannot
be told from its verdict.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core import Opened
from peel_core.batch import pack_trits, project_many, unpack_trits
from peel_core.projection import reconstruct, reconstruction
from peel_gateway._kernels import ffi, lib

__all__ = ["Codewords"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]

_BYTES, _INTS, _FLOATS, _PROFILES, _CODES = (
    ffi.typeof(f"{kind}[]") for kind in ("uint8_t", "int64_t", "float", "int32_t", "int8_t")
)


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
        self._table = ffi.new("peel_codewords *")
        self._table.bytes, self._table.count, self._table.slot_count = packed.shape[1], len(packed), len(slots)
        self._alive = {
            "packed": ffi.from_buffer(_BYTES, packed),
            "index": ffi.from_buffer(_INTS, index),
            "sign": ffi.from_buffer(_INTS, sign.astype(np.int64)),
            "residual": ffi.from_buffer(_FLOATS, residual),
            "slots": ffi.from_buffer("uint32_t[]", slots),
        }
        for name, buffer in self._alive.items():
            setattr(self._table, name, buffer)
        lib.peel_codewords_enter(self._table)

    def decode(self, opened: Opened, profile: int, index: Ints, sign: Ints, residual: Floats) -> None:
        """Write what the reports of a profile, given by its position, decode to into their rows, as `projection.reconstruct` has it.

        Parameters
        ----------
        index, sign, residual : int64, int64 and float32, shape (N,)
            Changed in place; `index` is -1 where nothing has been decoded.
        """
        if opened.widths[profile] != self.width:  # the kernel trusts it
            raise ValueError(f"reports of width {opened.widths[profile]} are no codewords of width {self.width}")
        others = lib.peel_codewords_decode(
            ffi.from_buffer(_INTS, index),
            ffi.from_buffer(_INTS, sign),
            ffi.from_buffer(_FLOATS, residual),
            self._table,
            profile,
            ffi.from_buffer(_BYTES, opened.packed),
            opened.packed.shape[1],
            ffi.from_buffer(_PROFILES, opened.profile),
            ffi.from_buffer(_CODES, opened.code),
            len(opened),
        )
        if others:
            rows = np.flatnonzero((opened.profile == profile) & (opened.code == 0) & (index < 0))
            trits = unpack_trits(opened.packed[rows], self.width)
            index[rows], sign[rows], residual[rows] = reconstruct(self.gamma, trits)
