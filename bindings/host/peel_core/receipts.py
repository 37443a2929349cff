# SPDX-License-Identifier: MIT
"""Receipts (SPEC section 11): the report numbers that a device need not send again. Written in batches, read one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peel_core._core import ffi, lib
from peel_core.errors import PeelError, check
from peel_core.keys import KEY_BYTES

__all__ = ["MAX_RUNS", "Receipt", "read_receipt", "write_receipts"]

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
    devices = np.ascontiguousarray(device_ids, dtype=np.uint32)
    keys = np.ascontiguousarray(receipt_keys, dtype=np.uint8)
    below = np.ascontiguousarray(upto, dtype=np.uint64)
    pairs = np.ascontiguousarray(runs, dtype=np.uint64).reshape(-1, 2)
    ends = np.ascontiguousarray(run_ends, dtype=np.uint64)
    counts = np.diff(ends.astype(np.int64), prepend=0)
    if keys.shape != (len(devices), KEY_BYTES) or below.shape != devices.shape or ends.shape != devices.shape:
        raise ValueError(f"shapes {devices.shape}, {keys.shape}, {below.shape}, {ends.shape} do not fit together")
    if np.any((counts < 0) | (counts > MAX_RUNS)) or counts.sum() != len(pairs):
        raise ValueError(f"run_ends must ascend to {len(pairs)}, by at most {MAX_RUNS} each")
    sizes = _BARE_BYTES + 12 * counts
    out = np.empty(int(sizes.sum()), np.uint8)
    failed = ffi.new("size_t *")
    code = lib.peel_batch_receipts(
        ffi.from_buffer("uint8_t[]", out, require_writable=True),
        failed,
        ffi.from_buffer("uint32_t[]", devices),
        ffi.from_buffer("uint8_t[]", keys),
        ffi.from_buffer("uint64_t[]", below),
        ffi.cast("peel_run *", ffi.from_buffer(pairs)),
        ffi.from_buffer("uint64_t[]", ends),
        len(devices),
    )
    if code < 0:
        raise PeelError(code, f"receipt {failed[0]} of the batch")
    stops = np.cumsum(sizes)
    whole = out.tobytes()
    return [whole[start:stop] for start, stop in zip((stops - sizes).tolist(), stops.tolist(), strict=True)]


def read_receipt(receipt_key: bytes, device: int, payload: bytes) -> Receipt:
    """Return the content of a receipt for this device; raise PeelError if it is invalid."""
    if len(receipt_key) != KEY_BYTES:
        raise ValueError(f"a key must have {KEY_BYTES} bytes, got {len(receipt_key)}")
    upto, runs = ffi.new("uint64_t *"), ffi.new("peel_run[]", MAX_RUNS)
    count = check(lib.peel_receipt_read(upto, runs, receipt_key, device, payload, len(payload)), "receipt")
    return Receipt(int(upto[0]), tuple((int(runs[i].first), int(runs[i].last)) for i in range(count)))
