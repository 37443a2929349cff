# SPDX-License-Identifier: MIT
"""Receipts (SPEC section 11): the report numbers that a device need not send again. Written in batches, read one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peel_core._core import ffi, lib
from peel_core.errors import PeelError, check
from peel_core.keyring import pointer
from peel_core.keys import KEY_BYTES

__all__ = ["MAX_RUNS", "Receipt", "Settled", "read_receipt", "split_receipts", "write_receipts"]

MAX_RUNS = int(lib.PEEL_MAX_RECEIPT_RUNS)
_BARE_BYTES = int(lib.PEEL_MAX_RECEIPT_BYTES) - 12 * MAX_RUNS


@dataclass(frozen=True)
class Receipt:
    """The settled numbers: every number from 1 to `upto`, and those of the runs."""

    upto: int
    runs: tuple[tuple[int, int], ...] = ()
    """The first and last number of each run."""

    def settles(self, number: int) -> bool:
        """Whether the device may remove the report with this number."""
        return number <= self.upto or any(first <= number <= last for first, last in self.runs)


def write_receipts(
    device_ids: ArrayLike, receipt_keys: NDArray[np.uint8], upto: ArrayLike, runs: ArrayLike, run_ends: ArrayLike
) -> list[bytes]:
    """Return one receipt per device.

    Parameters
    ----------
    device_ids : uint32, shape (D,)
    receipt_keys : uint8, shape (D, 16)
        The key of the device's newest bundle from which a report was stored.
    upto : uint64, shape (D,)
        Every number up to this one is settled.
    runs : uint64, shape (R, 2)
        The first and last number of each run above `upto`, device by device, ascending and not adjacent.
    run_ends : uint64, shape (D,)
        The end of each device's runs; at most `MAX_RUNS` each.

    Raises
    ------
    PeelError
        If a receipt cannot contain the numbers; the message has its position.
    """
    settled = Settled(device_ids, receipt_keys, upto, runs, run_ends)
    sizes = _BARE_BYTES + 12 * settled.counts
    out, failed = np.empty(int(sizes.sum()), np.uint8), ffi.new("size_t *")
    code = lib.peel_batch_receipts(pointer("uint8_t", out), failed, *settled.pointers(), len(sizes))
    return split_receipts(out, sizes, code, failed[0])


class Settled:
    """The arguments of `write_receipts`, checked."""

    def __init__(
        self,
        device_ids: ArrayLike,
        receipt_keys: NDArray[np.uint8],
        upto: ArrayLike,
        runs: ArrayLike,
        run_ends: ArrayLike,
    ) -> None:
        self._devices = np.ascontiguousarray(device_ids, dtype=np.uint32)
        self._keys = np.ascontiguousarray(receipt_keys, dtype=np.uint8)
        self._below = np.ascontiguousarray(upto, dtype=np.uint64)
        self._pairs = np.ascontiguousarray(runs, dtype=np.uint64).reshape(-1, 2)
        self._ends = np.ascontiguousarray(run_ends, dtype=np.uint64)
        shapes = self._devices.shape, self._keys.shape, self._below.shape, self._ends.shape
        if shapes != (shapes[0], (*shapes[0], KEY_BYTES), shapes[0], shapes[0]):
            raise ValueError(f"shapes {', '.join(map(str, shapes))} do not fit together")
        self.counts = np.diff(np.concatenate([[0], self._ends.astype(np.int64)]))
        """The number of runs of each device."""
        if np.any((self.counts < 0) | (self.counts > MAX_RUNS)) or self.counts.sum() != len(self._pairs):
            raise ValueError(f"run_ends must ascend to {len(self._pairs)}, by at most {MAX_RUNS} each")

    def pointers(self) -> tuple[Any, ...]:
        """Return devices, keys, numbers, runs and ends as C pointers, valid while this object lives."""
        return (
            pointer("uint32_t", self._devices),
            pointer("uint8_t", self._keys),
            pointer("uint64_t", self._below),
            ffi.cast("peel_run *", pointer("uint64_t", self._pairs)),
            pointer("uint64_t", self._ends),
        )


def split_receipts(data: NDArray[np.uint8], sizes: NDArray[np.int64], code: int, failed: int) -> list[bytes]:
    """Return receipts that were written one behind the other. Raise PeelError for a negative code, about receipt `failed`."""
    if code < 0:
        raise PeelError(code, f"receipt {failed} of the batch")
    stops, whole = np.cumsum(sizes), data.tobytes()
    return [whole[start:stop] for start, stop in zip((stops - sizes).tolist(), stops.tolist(), strict=True)]


def read_receipt(receipt_key: bytes, device: int, payload: bytes) -> Receipt:
    """Return the content of a receipt for this device; raise PeelError if it is invalid."""
    if len(receipt_key) != KEY_BYTES:
        raise ValueError(f"a key must have {KEY_BYTES} bytes, got {len(receipt_key)}")
    upto, runs = ffi.new("uint64_t *"), ffi.new("peel_run[]", MAX_RUNS)
    count = check(lib.peel_receipt_read(upto, runs, receipt_key, device, payload, len(payload)), "receipt")
    return Receipt(int(upto[0]), tuple((int(runs[i].first), int(runs[i].last)) for i in range(count)))
