# SPDX-License-Identifier: MIT
"""Receipts with coin fields (SPEC section 13.3), for devices with a verified profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from peel_core._core import ffi, lib
from peel_core.errors import check
from peel_core.keys import KEY_BYTES
from peel_core.receipts import MAX_RUNS, Receipt

__all__ = ["MAX_CHALLENGE_RUNS", "CoinReceipt", "read_coin_receipt", "write_coin_receipt"]

MAX_CHALLENGE_RUNS = int(lib.PEEL_MAX_CHALLENGE_RUNS)


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
