# SPDX-License-Identifier: MIT
"""Receipts with coin fields (SPEC section 13.3), for devices with a verified profile: written in batches or one by one, read one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peel_core._core import ffi, lib
from peel_core.errors import check
from peel_core.keyring import pointer
from peel_core.keys import KEY_BYTES
from peel_core.receipts import MAX_RUNS, Receipt, Settled, split_receipts

__all__ = ["MAX_CHALLENGE_RUNS", "CoinReceipt", "read_coin_receipt", "write_coin_receipt", "write_coin_receipts"]

MAX_CHALLENGE_RUNS = int(lib.PEEL_MAX_CHALLENGE_RUNS)
_BARE_BYTES = 41 + int(lib.PEEL_TAG_BYTES)


@dataclass(frozen=True)
class CoinReceipt:
    """The content of a receipt with coin fields."""

    settled: Receipt
    era: bytes
    approved: int = 0
    """Each batch that begins at or below this number has passed its audit, or is void."""
    audit_first: int = 0
    """The first number of the batch to be audited; 0 if none."""
    audit: int = 0
    """Bit j is set if number j of that batch, from 0, is to be revealed."""
    opened: int = 0
    """The number of challenges that are answered, with their openings stored."""
    challenge_seed: bytes = b""
    """Empty without a challenge."""
    challenge: tuple[tuple[int, int], ...] = ()
    """The first and last number of each run of the challenge."""


def write_coin_receipt(receipt_key: bytes, device: int, content: CoinReceipt) -> bytes:
    """Return a receipt; raise PeelError if it cannot contain the numbers."""
    _check_sizes(receipt_key, content)
    fields = ffi.new("peel_coin_fields *")
    fields.era, fields.challenge_seed = list(content.era), list(content.challenge_seed or bytes(16))
    fields.approved, fields.audit_first = content.approved, content.audit_first
    fields.audit, fields.opened, fields.challenge_runs = content.audit, content.opened, len(content.challenge)
    out = ffi.new("uint8_t[]", int(lib.PEEL_MAX_COIN_RECEIPT_BYTES))
    runs, settled = content.settled.runs, content.settled.upto
    size = lib.peel_coin_receipt_write(
        out, len(out), receipt_key, device, settled, _run_array(runs), len(runs), fields, _run_array(content.challenge)
    )
    return bytes(ffi.buffer(out, check(size, "receipt")))


_FIELDS = np.dtype(
    [
        ("era", "u1", 8),
        ("approved", "<u8"),
        ("audit_first", "<u8"),
        ("audit", "<u4"),
        ("opened", "<u4"),
        ("challenge_runs", "<u4"),
        ("challenge_seed", "u1", 16),
    ],
    align=True,
)
"""`peel_coin_fields`."""
_SEED_BYTES, _RUN_BYTES = 16, 16


def write_coin_receipts(
    receipt_keys: NDArray[np.uint8],
    device_ids: ArrayLike,
    upto: ArrayLike,
    runs: ArrayLike,
    run_ends: ArrayLike,
    *,
    era: bytes,
    approved: ArrayLike,
    audit_first: ArrayLike,
    audit: ArrayLike,
    opened: ArrayLike,
    challenges: Sequence[bytes],
) -> list[bytes]:
    """Return one receipt per device.

    Parameters
    ----------
    receipt_keys, device_ids, upto, runs, run_ends
        As `write_receipts` takes them.
    approved, audit_first, audit, opened : shape (D,)
        As in `CoinReceipt`.
    challenges : sequence of bytes
        The seed of each challenge, with the first and the last number of each run behind it, eight bytes each; empty without one.

    Raises
    ------
    PeelError
        If a receipt cannot contain the numbers; the message has its position.
    """
    assert _FIELDS.itemsize == ffi.sizeof("peel_coin_fields")
    settled = Settled(device_ids, receipt_keys, upto, runs, run_ends)
    fields = np.zeros(len(settled.counts), _FIELDS)
    fields["era"] = np.frombuffer(era, np.uint8)
    fields["approved"], fields["audit_first"], fields["audit"] = approved, audit_first, audit
    fields["opened"] = opened
    seeds = b"".join(challenge[:_SEED_BYTES].ljust(_SEED_BYTES, b"\0") for challenge in challenges)
    fields["challenge_seed"] = np.frombuffer(seeds, np.uint8).reshape(-1, _SEED_BYTES)
    asked = np.frombuffer(b"".join(challenge[_SEED_BYTES:] for challenge in challenges), np.uint8).copy()
    counts = np.array([max(0, len(challenge) - _SEED_BYTES) // _RUN_BYTES for challenge in challenges], np.int64)
    fields["challenge_runs"] = counts
    sizes = _BARE_BYTES + 12 * settled.counts + np.where(counts > 0, 22 + 4 * counts, 0)
    ends = np.cumsum(counts).astype(np.uint64)
    out, failed = np.empty(int(sizes.sum()), np.uint8), ffi.new("size_t *")
    code = lib.peel_batch_coin_receipts(
        pointer("uint8_t", out),
        failed,
        *settled.pointers(),
        ffi.cast("peel_coin_fields *", pointer("uint8_t", fields.view(np.uint8))),
        ffi.cast("peel_run *", pointer("uint8_t", asked)),
        pointer("uint64_t", ends),
        len(sizes),
    )
    return split_receipts(out, sizes, code, failed[0])


def read_coin_receipt(receipt_key: bytes, device: int, payload: bytes) -> CoinReceipt:
    """Return the content of a receipt for this device; raise PeelError if it is invalid."""
    if len(receipt_key) != KEY_BYTES:
        raise ValueError(f"a key must have {KEY_BYTES} bytes, got {len(receipt_key)}")
    upto, fields = ffi.new("uint64_t *"), ffi.new("peel_coin_fields *")
    runs, challenge = ffi.new("peel_run[]", MAX_RUNS), ffi.new("peel_run[]", MAX_CHALLENGE_RUNS)
    count = lib.peel_coin_receipt_read(upto, runs, fields, challenge, receipt_key, device, payload, len(payload))
    settled = Receipt(int(upto[0]), _pairs(runs, check(count, "receipt")))
    asked = int(fields.challenge_runs)
    return CoinReceipt(
        settled=settled,
        era=bytes(fields.era),
        approved=int(fields.approved),
        audit_first=int(fields.audit_first),
        audit=int(fields.audit),
        opened=int(fields.opened),
        challenge_seed=bytes(fields.challenge_seed) if asked else b"",
        challenge=_pairs(challenge, asked),
    )


def _check_sizes(receipt_key: bytes, content: CoinReceipt) -> None:
    if (len(receipt_key), len(content.era)) != (KEY_BYTES, 8):
        raise ValueError(f"a key has {KEY_BYTES} bytes and an era 8, got {len(receipt_key)} and {len(content.era)}")
    if len(content.challenge_seed) != (16 if content.challenge else 0):
        raise ValueError(f"a challenge has a seed of 16 bytes, got {len(content.challenge_seed)}")


def _run_array(runs: tuple[tuple[int, int], ...]) -> Any:
    return ffi.new("peel_run[]", list(runs) or 1)


def _pairs(runs: Any, count: int) -> tuple[tuple[int, int], ...]:
    return tuple((int(runs[i].first), int(runs[i].last)) for i in range(count))
