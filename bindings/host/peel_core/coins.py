# SPDX-License-Identifier: MIT
"""Verified coins (SPEC section 13): tables, roots, openings, audits and challenges, for many numbers per call.

Arrays have one row per number. The C loops run without the GIL.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peel_core._core import ffi, lib
from peel_core.errors import PeelError, check
from peel_core.frame import frame_bytes
from peel_core.keyring import pointer
from peel_core.keys import KEY_BYTES, MASTER_BYTES, check_fleet_name
from peel_core.primitives import hash_
from peel_core.profile import Profile

__all__ = [
    "AUDIT_ANSWER",
    "BATCH_NUMBERS",
    "COMMITMENT",
    "ERA_BYTES",
    "MAX_TABLE",
    "NAME_BYTES",
    "OPENING",
    "ROOT_BYTES",
    "Openings",
    "audit_many",
    "challenge_indices",
    "challenge_key",
    "challenge_root",
    "challenge_seed",
    "challenge_seeds",
    "coin_names",
    "coin_roots",
    "coin_seeds",
    "mask_answers",
    "open_coins",
    "open_message",
    "opening_bytes",
    "seal_message",
    "split_frames",
    "verify_openings",
]

MAX_TABLE = int(lib.PEEL_MAX_TABLE)
NAME_BYTES = int(lib.PEEL_COIN_NAME_BYTES)
ROOT_BYTES = int(lib.PEEL_COIN_HASH_BYTES)
BATCH_NUMBERS = int(lib.PEEL_BATCH_NUMBERS)
COMMITMENT, AUDIT_ANSWER, OPENING = int(lib.PEEL_COMMITMENT), int(lib.PEEL_AUDIT_ANSWER), int(lib.PEEL_OPENING)
"""The types of messages."""
_SEED_BYTES = 16
ERA_BYTES = 8
_REPORT_BYTES = 23
_HEADER_BYTES = int(lib.PEEL_HEADER_BYTES)


def _rows(array: ArrayLike, width: int, count: int, what: str) -> NDArray[np.uint8]:
    rows = np.ascontiguousarray(array, dtype=np.uint8)
    if rows.shape != (count, width):
        raise ValueError(f"{what} has shape {rows.shape}, expected {(count, width)}")
    return rows


def _bytes(values: ArrayLike, count: int, what: str) -> NDArray[np.uint8]:
    """Return one number from 0 to 255 per row; one number stands for all rows."""
    given = np.asarray(values)
    if given.size and (given.dtype.kind not in "iu" or given.min() < 0 or given.max() > 255):
        raise ValueError(f"{what} must be integers from 0 to 255")
    if given.shape not in ((), (count,)):
        raise ValueError(f"{what} has shape {given.shape}, expected {(count,)}")
    return np.ascontiguousarray(np.broadcast_to(given, count), dtype=np.uint8)


def _numbers(values: ArrayLike, count: int) -> NDArray[np.uint64]:
    numbers = np.ascontiguousarray(values, dtype=np.uint64)
    if numbers.shape != (count,):
        raise ValueError(f"numbers has shape {numbers.shape}, expected {(count,)}")
    return numbers


def _check_all(codes: NDArray[np.int8], what: str) -> None:
    """Raise PeelError for the first row with a negative code."""
    failed = np.flatnonzero(codes < 0)
    if len(failed):
        raise PeelError(int(codes[failed[0]]), f"{what} {failed[0]} of the batch")


def coin_names(
    profiles: ArrayLike,
    device_ids: ArrayLike,
    numbers: ArrayLike,
    keep: ArrayLike,
    change: ArrayLike,
    symbols: ArrayLike,
) -> NDArray[np.uint8]:
    """Return the names of coins, shape (N, 20). Profiles, odds and symbols may be one number for all."""
    devices = np.ascontiguousarray(device_ids, dtype="<u4")
    count = len(devices)
    names = np.zeros((count, NAME_BYTES), np.uint8)
    names[:, 0:4] = np.ascontiguousarray(np.broadcast_to(profiles, count), dtype="<u4").view(np.uint8).reshape(count, 4)
    names[:, 4:8] = devices.view(np.uint8).reshape(count, 4)
    names[:, 8:14] = _numbers(numbers, count).astype("<u8").view(np.uint8).reshape(count, 8)[:, :6]
    for place, (values, what) in enumerate(((keep, "keep"), (change, "change"), (symbols, "symbols")), 14):
        names[:, place] = _bytes(values, count, what)
    return names


def coin_seeds(secrets: NDArray[np.uint8], numbers: ArrayLike) -> NDArray[np.uint8]:
    """Return the seeds of numbers, shape (N, 16), from the secrets of their batches, uint8[N, 16]."""
    count = len(secrets)
    seeds = np.empty((count, _SEED_BYTES), np.uint8)
    lib.peel_coins_seeds(
        pointer("uint8_t", seeds),
        pointer("uint8_t", _rows(secrets, _SEED_BYTES, count, "secrets")),
        pointer("uint64_t", _numbers(numbers, count)),
        count,
    )
    return seeds


def mask_answers(seeds: NDArray[np.uint8], symbols: ArrayLike, answers: ArrayLike) -> NDArray[np.int8]:
    """Return d for each answer. Raise PeelError if an answer is not below its number of symbols."""
    count = len(seeds)
    masked = np.empty(count, np.int8)
    lib.peel_coins_mask(
        pointer("int8_t", masked),
        pointer("uint8_t", _rows(seeds, _SEED_BYTES, count, "seeds")),
        pointer("uint8_t", _bytes(symbols, count, "symbols")),
        pointer("uint8_t", _bytes(answers, count, "answers")),
        count,
    )
    _check_all(masked, "answer")
    return masked


def coin_roots(names: NDArray[np.uint8], seeds: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the roots of the tables that the seeds make, shape (N, 16).

    Raises
    ------
    PeelError
        If a coin is one that no verified profile has; the message has its position.
    """
    count = len(names)
    roots, codes = np.empty((count, ROOT_BYTES), np.uint8), np.empty(count, np.int8)
    lib.peel_coins_roots(
        pointer("uint8_t", roots),
        pointer("int8_t", codes),
        pointer("uint8_t", _rows(names, NAME_BYTES, count, "names")),
        pointer("uint8_t", _rows(seeds, _SEED_BYTES, count, "seeds")),
        count,
    )
    _check_all(codes, "coin")
    return roots


def opening_bytes(table: int, index: int = 0) -> int:
    """Return the size of an opening in a table of this size. Index 0 has the longest."""
    return check(lib.peel_coin_opening_bytes(table, index), "opening")


class Openings(NamedTuple):
    """Opened outcomes."""

    openings: NDArray[np.uint8]
    """Shape (N, size), with zeros after each opening; its first byte is the outcome."""
    roots: NDArray[np.uint8]
    """Shape (N, 16)."""


def open_coins(names: NDArray[np.uint8], seeds: NDArray[np.uint8], indices: ArrayLike, size: int) -> Openings:
    """Open one outcome of each table, as N devices would. ``size`` is that of the profile's longest opening."""
    count = len(names)
    openings = np.empty((count, size), np.uint8)
    roots, codes = np.empty((count, ROOT_BYTES), np.uint8), np.empty(count, np.int8)
    lib.peel_coins_open(
        pointer("uint8_t", openings),
        size,
        pointer("uint8_t", roots),
        pointer("int8_t", codes),
        pointer("uint8_t", _rows(names, NAME_BYTES, count, "names")),
        pointer("uint8_t", _rows(seeds, _SEED_BYTES, count, "seeds")),
        pointer("uint8_t", _bytes(indices, count, "indices")),
        count,
    )
    _check_all(codes, "opening")
    return Openings(openings, roots)


def verify_openings(
    roots: NDArray[np.uint8], names: NDArray[np.uint8], indices: ArrayLike, openings: NDArray[np.uint8]
) -> NDArray[np.int8]:
    """Return the outcome that each opening reveals, or the negative code for which it is refused.

    Parameters
    ----------
    roots : uint8, shape (N, 16)
        The committed roots.
    names : uint8, shape (N, 20)
        The names of the coins.
    indices : shape (N,)
        The index that the challenge picks for each.
    openings : uint8, shape (N, size)
        The bodies of the messages: openings with zeros after them.
    """
    count = len(names)
    outcomes = np.empty(count, np.int8)
    size = openings.shape[1] if openings.ndim == 2 else 0
    lib.peel_coins_verify(
        pointer("int8_t", outcomes),
        pointer("uint8_t", _rows(roots, ROOT_BYTES, count, "roots")),
        pointer("uint8_t", _rows(names, NAME_BYTES, count, "names")),
        pointer("uint8_t", _bytes(indices, count, "indices")),
        pointer("uint8_t", _rows(openings, size, count, "openings")),
        size,
        count,
    )
    return outcomes


def challenge_indices(challenge_seeds: NDArray[np.uint8], numbers: ArrayLike, tables: ArrayLike) -> NDArray[np.uint8]:
    """Return the index that a challenge picks for each number, whose table has ``tables`` outcomes."""
    count = len(challenge_seeds)
    indices = np.empty(count, np.uint8)
    lib.peel_coins_indices(
        pointer("uint8_t", indices),
        pointer("uint8_t", _rows(challenge_seeds, _SEED_BYTES, count, "challenge_seeds")),
        pointer("uint64_t", _numbers(numbers, count)),
        pointer("uint8_t", _bytes(tables, count, "tables")),
        count,
    )
    return indices


def audit_many(
    key: bytes, headers: NDArray[np.uint8], roots: NDArray[np.uint8], audits: ArrayLike
) -> NDArray[np.uint32]:
    """Return the audits of commitments as bitmaps: bit j is the j-th number of the batch.

    ``headers`` are those of the commitments, shape (N, 16); ``roots`` their bodies, shape (N, 512); ``audits`` how many numbers of
    each to audit.
    """
    count = len(headers)
    bitmaps = np.empty(count, np.uint32)
    lib.peel_coins_audits(
        pointer("uint32_t", bitmaps),
        _key(key),
        pointer("uint8_t", _rows(headers, _HEADER_BYTES, count, "headers")),
        pointer("uint8_t", _rows(roots, ROOT_BYTES * BATCH_NUMBERS, count, "roots")),
        pointer("uint8_t", _bytes(audits, count, "audits")),
        count,
    )
    return bitmaps


def _key(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key must have {KEY_BYTES} bytes, got {len(key)}")
    return key


def challenge_root(master: bytes, fleet: str) -> bytes:
    """Return the secret of a fleet from which the keys of audits and challenges follow. No bundle has it."""
    if len(master) != MASTER_BYTES:
        raise ValueError(f"a master key must have {MASTER_BYTES} bytes, got {len(master)}")
    check_fleet_name(fleet)
    return hash_("peel/1 challenge root", master + bytes([len(fleet)]) + fleet.encode(), KEY_BYTES)


def challenge_key(root: bytes, era: bytes) -> bytes:
    """Return the key of a gateway's audits and challenges in an era of 8 bytes."""
    if len(era) != ERA_BYTES:
        raise ValueError(f"an era must have {ERA_BYTES} bytes, got {len(era)}")
    return hash_("peel/1 challenge key", _key(root) + era, KEY_BYTES)


def challenge_seeds(
    key: bytes, devices: ArrayLike, counts: ArrayLike, reports: NDArray[np.uint8], ends: ArrayLike
) -> NDArray[np.uint8]:
    """Return the seeds of challenges, shape (D, 16).

    Parameters
    ----------
    devices, counts : shape (D,)
        The device of each challenge, and its count among the challenges of the device, from 1.
    reports : uint8, shape (N, 23)
        Number (6 bytes), root (16) and masked answer (1) of each report, challenge by challenge, by number.
    ends : shape (D,)
        Where the reports of each challenge end.
    """
    ids, order = np.ascontiguousarray(devices, np.uint32), np.ascontiguousarray(counts, np.uint32)
    stops = np.ascontiguousarray(ends, np.uint64)
    if not len(ids) == len(order) == len(stops):
        raise ValueError(f"{len(ids)} devices, {len(order)} counts and {len(stops)} ends do not fit together")
    if len(stops) and (stops[-1] != len(reports) or np.any(stops[1:] < stops[:-1])):
        raise ValueError(f"ends must ascend to {len(reports)}")
    seeds = np.empty((len(ids), _SEED_BYTES), np.uint8)
    lib.peel_coins_challenges(
        pointer("uint8_t", seeds),
        _key(key),
        pointer("uint32_t", ids),
        pointer("uint32_t", order),
        pointer("uint8_t", _rows(reports, _REPORT_BYTES, len(reports), "reports")),
        pointer("uint64_t", stops),
        len(ids),
    )
    return seeds


def challenge_seed(
    key: bytes, device: int, count: int, numbers: ArrayLike, roots: NDArray[np.uint8], masked: ArrayLike
) -> bytes:
    """Return the seed of a device's challenge number ``count`` about reports with these numbers (ascending), roots and d."""
    rows = len(roots)
    reports = np.empty((rows, _REPORT_BYTES), np.uint8)
    reports[:, :6] = _numbers(numbers, rows).astype("<u8").view(np.uint8).reshape(rows, 8)[:, :6]
    reports[:, 6:22] = _rows(roots, ROOT_BYTES, rows, "roots")
    reports[:, 22] = _bytes(masked, rows, "masked")
    return challenge_seeds(key, [device], [count], reports, [rows]).tobytes()


def split_frames(profile: Profile, payload: bytes) -> list[bytes]:
    """Split a payload into its sealed frames: reports, and messages of verified coins. What follows the last whole frame is dropped."""
    overhead = _HEADER_BYTES + int(lib.PEEL_TAG_BYTES)
    sizes = {
        0: frame_bytes(profile.width),
        COMMITMENT: overhead + BATCH_NUMBERS * ROOT_BYTES,
        AUDIT_ANSWER: overhead + _SEED_BYTES * profile.audits,
        OPENING: overhead + profile.opening_bytes,
    }
    frames, at = [], 0
    while at + 1 < len(payload) and (end := at + sizes.get(payload[at + 1], len(payload))) <= len(payload):
        frames.append(payload[at:end])
        at = end
    return frames


def seal_message(coin_key: bytes, kind: int, profile: int, device: int, number: int, body: bytes) -> bytes:
    """Return a commitment, an audit answer or an opening as a sealed frame."""
    out = ffi.new("uint8_t[]", _HEADER_BYTES + len(body) + int(lib.PEEL_TAG_BYTES))
    header = ffi.new("peel_header *", (0, profile, device, number))
    size = lib.peel_message_seal(out, len(out), _key(coin_key), kind, header, body, len(body))
    return bytes(ffi.buffer(out, check(size, "message")))


def open_message(coin_key: bytes, size: int, frame: bytes) -> tuple[int, bytes]:
    """Return the type and the body of ``size`` bytes of a sealed frame; raise PeelError if it does not open."""
    body = ffi.new("uint8_t[]", max(1, size))
    kind = check(lib.peel_message_open(body, size, _key(coin_key), frame, len(frame)), "message")
    return int(kind), bytes(ffi.buffer(body, size))
