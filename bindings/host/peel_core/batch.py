# SPDX-License-Identifier: MIT
"""Many reports per call: numpy arrays in and out, with C loops that release the GIL."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peel_core._core import ffi, lib
from peel_core.errors import PeelError, check
from peel_core.keyring import Keyring, core_blocks, key_rows, pointer, report_numbers
from peel_core.keys import KEY_BYTES, MASTER_BYTES, SALT_BYTES, Keys, check_fleet_name
from peel_core.primitives import CoreBlock, Drbg, block_array
from peel_core.profile import Profile

__all__ = [
    "Keyring",
    "Opened",
    "derive_keys",
    "encode_many",
    "index_many",
    "open_joined",
    "open_many",
    "pack_trits",
    "packed_bytes",
    "perturb_many",
    "project_many",
    "unpack_trits",
]

_WEIGHTS = 3 ** np.arange(5)
_TRITS = np.zeros((256, 5), np.float32)
_TRITS[: 3**5] = np.array(list(itertools.product((-1, 0, 1), repeat=5)))[:, ::-1]
"""The five trits of each byte (SPEC section 8), the first one in the lowest place. No encoder writes a byte above 242."""


def _whole_readings(readings: ArrayLike) -> NDArray[np.int32]:
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


def packed_bytes(width: int) -> int:
    """Return the bytes of a packed codeword, which has width - 1 trits."""
    return (width + 3) // 5


def pack_trits(trits: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Pack codewords of one width, shape (N, width - 1), into shape (N, packed_bytes(width))."""
    count, length = trits.shape
    digits = np.zeros((count, packed_bytes(length + 1) * 5), np.int64)
    digits[:, :length] = trits + 1
    return (digits.reshape(count, packed_bytes(length + 1), 5) @ _WEIGHTS).astype(np.uint8)


def unpack_trits(packed: NDArray[np.uint8], width: int) -> NDArray[np.float32]:
    """Unpack codewords into shape (N, width - 1) with -1, 0, +1 as float32. Bytes beyond the width are ignored."""
    size = packed_bytes(width)
    trits = _TRITS[packed[:, :size]].reshape(len(packed), 5 * size)
    return np.ascontiguousarray(trits[:, : width - 1])


@dataclass(frozen=True)
class Opened:
    """The frames found in payloads, one row per piece: a frame, or the rest of a payload that could not be split.

    ``code`` is 0 for a frame that opened, or a negative code of ``peel.h``. Fields that a fault leaves unknown are 0, or -1 for
    ``profile`` and ``slot``. ``unit`` is the unit that the number assigns (SPEC section 7): a question, or a hash of a hashed
    question. ``packed`` are the trits as received, shape (rows, bytes of the widest profile), zero beyond a profile's width.
    ``widths`` are the widths of the profiles. ``type`` is 0 for reports. Messages of verified coins (SPEC section 13.3) have another
    type, and a body (:meth:`body`) in place of rule, unit and trits.
    """

    message: NDArray[np.int32]
    offset: NDArray[np.int32]
    length: NDArray[np.int32]
    code: NDArray[np.int8]
    flags: NDArray[np.uint8]
    type: NDArray[np.uint8]
    device: NDArray[np.uint32]
    number: NDArray[np.uint64]
    profile: NDArray[np.int32]
    slot: NDArray[np.int32]
    rule: NDArray[np.uint32]
    unit: NDArray[np.uint32]
    packed: NDArray[np.uint8]
    widths: tuple[int, ...]
    bodies: NDArray[np.uint8]
    """As many bytes as the payloads have: the bodies of messages, at the places of their frames."""
    starts: NDArray[np.int64]
    """The start of each payload."""

    def __len__(self) -> int:
        return len(self.code)

    def at(self, rows: NDArray[np.bool_]) -> Opened:
        """Return some of the rows."""
        columns = {name: getattr(self, name)[rows] for name in (*_COLUMNS, "packed")}
        return Opened(**columns, widths=self.widths, bodies=self.bodies, starts=self.starts)

    def messages(self, rows: NDArray[np.int64], size: int) -> NDArray[np.uint8]:
        """Return the bodies of messages, all of them ``size`` bytes, shape (rows, size)."""
        places = self.starts[self.message[rows]] + self.offset[rows] + int(lib.PEEL_HEADER_BYTES)
        return np.asarray(self.bodies[places[:, None] + np.arange(size)])

    @functools.cached_property
    def trits(self) -> NDArray[np.float32]:
        """-1, 0 and +1 as float32, shape (rows, widest - 1); zero for faulty rows and beyond a profile's width."""
        trits = np.zeros((len(self), max(self.widths, default=2) - 1), np.float32)
        for position, width in enumerate(self.widths):
            rows = np.flatnonzero((self.code == 0) & (self.profile == position))
            trits[rows, : width - 1] = unpack_trits(self.packed[rows], width)
        return trits


_COLUMNS: dict[str, tuple[str, type[np.generic]]] = {
    "message": ("int32_t", np.int32),
    "offset": ("int32_t", np.int32),
    "length": ("int32_t", np.int32),
    "code": ("int8_t", np.int8),
    "flags": ("uint8_t", np.uint8),
    "type": ("uint8_t", np.uint8),
    "device": ("uint32_t", np.uint32),
    "number": ("uint64_t", np.uint64),
    "profile": ("int32_t", np.int32),
    "slot": ("int32_t", np.int32),
    "rule": ("uint32_t", np.uint32),
    "unit": ("uint32_t", np.uint32),
}


def open_many(keyring: Keyring, payloads: Sequence[bytes], *, accept_unsealed: bool = False) -> Opened:
    """Parse and open every frame of every payload."""
    ends = np.cumsum([len(payload) for payload in payloads], dtype=np.uint64)
    return open_joined(keyring, b"".join(payloads), ends, accept_unsealed=accept_unsealed)


def open_joined(keyring: Keyring, data: bytes, ends: NDArray[np.uint64], *, accept_unsealed: bool = False) -> Opened:
    """Like `open_many`, for N concatenated payloads. ``ends`` are their end offsets, uint64[N]."""
    ends = np.ascontiguousarray(ends, dtype=np.uint64)
    if np.any(ends[1:] < ends[:-1]) or (len(ends) and ends[-1] > len(data)):
        raise ValueError("ends must be ascending and within the data")
    ring = keyring.struct(accept_unsealed)
    count = lib.peel_batch_count(ring, data, pointer("uint64_t", ends), len(ends))
    widths = tuple(profile.width for profile in keyring.profiles)
    stride = packed_bytes(max(widths, default=2))
    arrays: dict[str, Any] = {name: np.empty(count, dtype) for name, (_, dtype) in _COLUMNS.items()}
    packed = np.zeros((count, stride), np.uint8)
    rows = ffi.new("peel_batch_rows *")
    alive = {name: pointer(ctype, arrays[name]) for name, (ctype, _) in _COLUMNS.items()}
    alive["packed"] = pointer("uint8_t", packed)
    for name, buffer in alive.items():
        setattr(rows, name, buffer)
    bodies = np.zeros(len(data) if any(profile.audits for profile in keyring.profiles) else 0, np.uint8)
    rows.stride, rows.bodies = stride, pointer("uint8_t", bodies)
    lib.peel_batch_open(rows, ring, data, pointer("uint64_t", ends), len(ends))
    starts = np.concatenate([[0], ends[:-1].astype(np.int64)])
    return Opened(**arrays, packed=packed, widths=widths, bodies=bodies, starts=starts)


def encode_many(
    profile: Profile,
    device_ids: ArrayLike,
    keys: Keys,
    numbers: ArrayLike,
    readings: ArrayLike,
    *,
    entropy: bytes,
    odds: tuple[int, int] | None = None,
    flags: int = 0,
    coin_seeds: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Encode N reports, as N devices would.

    Parameters
    ----------
    device_ids : uint32, shape (N,)
    keys : Keys
        One per report.
    numbers : uint64, shape (N,)
    readings : int32
        Shape (N, questions), or (N,) for one question: Q15 for signs, categories for choices.
    entropy : bytes
        At least 32, seeds one generator for the whole batch.
    odds : (int, int), optional
        Use this keep and change instead of the profile's, as a device with another epsilon would.
    coin_seeds : uint8, shape (N, 16), optional
        The seeds of verified coins: answers are masked instead of randomized.

    Returns
    -------
    uint8 array, shape (N, frame bytes)
    """
    devices = np.ascontiguousarray(device_ids, dtype=np.uint32)
    count = len(devices)
    order = np.ascontiguousarray(numbers, dtype=np.uint64)
    blocks = core_blocks(profile, odds)
    values = _whole_readings(readings).reshape(count, len(profile.questions))
    if order.shape != (count,):
        raise ValueError(f"numbers has shape {order.shape}, expected {(count,)}")
    seals, indices = key_rows(keys.seal, count, "keys.seal"), key_rows(keys.index, count, "keys.index")
    rows = row_cache(profile.seed, profile.width)
    encoder = ffi.new("peel_encoder *")
    encoder.flags, encoder.profile = flags, profile.id
    encoder.width, encoder.seed = profile.width, profile.seed
    encoder.blocks, encoder.block_count = blocks, len(blocks)
    cache = pointer("uint32_t", rows)
    encoder.rows = cache
    if coin_seeds is not None:
        seeds = pointer("uint8_t", key_rows(coin_seeds, count, "coin_seeds"))
        encoder.coin_seed = seeds
    frames = np.empty((count, check(lib.peel_frame_bytes(profile.width, flags))), np.uint8)
    failed = ffi.new("size_t *")
    with Drbg(entropy).state() as drbg:
        code = lib.peel_batch_encode(
            pointer("uint8_t", frames),
            failed,
            encoder,
            pointer("uint32_t", devices),
            pointer("uint8_t", seals),
            pointer("uint8_t", indices),
            pointer("uint64_t", order),
            pointer("int32_t", values),
            len(profile.questions),
            count,
            drbg,
        )
    if code < 0:
        raise PeelError(code, f"report {failed[0]} of the batch")
    return frames


def row_cache(seed: int, width: int) -> NDArray[np.uint32]:
    """Return the row words of a projection, shape (width - 1,)."""
    if not 2 <= width <= lib.PEEL_MAX_WIDTH:
        raise PeelError(lib.PEEL_E_WIDTH, f"width {width}")
    rows = np.empty(width - 1, np.uint32)
    check(lib.peel_projection_rows(pointer("uint32_t", rows), seed, width))
    return rows


def project_many(seed: int, width: int, indices: ArrayLike, minus: ArrayLike | None = None) -> NDArray[np.int8]:
    """Return the codewords of N symbols as trits, shape (N, width - 1)."""
    columns = np.ascontiguousarray(indices, dtype=np.uint32)
    signs = np.zeros(len(columns), np.uint8) if minus is None else np.ascontiguousarray(minus, dtype=np.uint8)
    if signs.shape != columns.shape:
        raise ValueError("indices and minus differ in length")
    rows = row_cache(seed, width)
    out = np.empty((len(columns), width - 1), np.int8)
    code = lib.peel_batch_project(
        pointer("int8_t", out),
        width,
        pointer("uint32_t", rows),
        pointer("uint32_t", columns),
        pointer("uint8_t", signs),
        len(columns),
    )
    check(code, "project")
    return out


def index_many(
    profile: Profile, device_ids: ArrayLike, keys: Keys, numbers: ArrayLike, *, flags: int = 0
) -> NDArray[np.uint32]:
    """Return the units that N report numbers assign (SPEC section 7), shape (N,).

    They depend on the keys of the number's bundle (`Keyring.find`) and on the whole header, including its ``flags``.
    """
    devices = np.ascontiguousarray(device_ids, dtype=np.uint32)
    order = np.ascontiguousarray(numbers, dtype=np.uint64)
    index_keys = key_rows(keys.index, len(devices), "keys.index")
    if order.shape != devices.shape:
        raise ValueError("numbers and device_ids differ in length")
    if flags not in (0, lib.PEEL_FLAG_UNSEALED):
        raise PeelError(lib.PEEL_E_FLAGS, "index_many")
    if np.any((order == 0) | (order > lib.PEEL_NUMBER_MAX) | (devices == 0)):
        raise PeelError(lib.PEEL_E_NUMBER, "index_many")
    out, blocks = np.empty(len(devices), np.uint32), core_blocks(profile)
    lib.peel_batch_index(
        pointer("uint32_t", out),
        flags,
        profile.id,
        blocks,
        len(blocks),
        pointer("uint32_t", devices),
        pointer("uint8_t", index_keys),
        pointer("uint64_t", order),
        len(devices),
    )
    return out


def derive_keys(
    master: bytes, fleet: str, device_ids: ArrayLike, first_numbers: ArrayLike, salts: bytes | NDArray[np.uint8]
) -> Keys:
    """Derive the keys of bundles (SPEC section 3).

    Parameters
    ----------
    master : bytes
        The fleet's master key, 32 bytes.
    fleet : str
        The fleet's name.
    device_ids : uint32, shape (B,)
        The device of each bundle.
    first_numbers : int or uint64, shape (B,)
        The first number of each bundle.
    salts : bytes, or uint8 of shape (B, 16)
        The random salt of each bundle, or one salt for all as bytes.
    """
    if len(master) != MASTER_BYTES:
        raise ValueError(f"a master key must have {MASTER_BYTES} bytes, got {len(master)}")
    check_fleet_name(fleet)
    devices = np.ascontiguousarray(device_ids, dtype=np.uint32)
    firsts = report_numbers("first_numbers", first_numbers, len(devices))
    salt_rows = _salt_rows(salts, len(devices))
    keys = Keys(*(np.empty((len(devices), KEY_BYTES), np.uint8) for _ in range(4)))
    lib.peel_batch_derive(
        *(pointer("uint8_t", array) for array in (keys.seal, keys.index, keys.receipt, keys.coin)),
        master,
        fleet.encode(),
        len(fleet),
        pointer("uint32_t", devices),
        pointer("uint64_t", firsts),
        pointer("uint8_t", salt_rows),
        len(devices),
    )
    return keys


def _salt_rows(salts: bytes | NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    """Return one salt per bundle, uint8[B, 16]."""
    given = np.frombuffer(salts, np.uint8) if isinstance(salts, bytes) else np.asarray(salts, np.uint8)
    if given.shape not in ((SALT_BYTES,), (count, SALT_BYTES)):
        raise ValueError(
            f"salts has shape {given.shape}, expected {SALT_BYTES} bytes or an array of shape {(count, SALT_BYTES)}"
        )
    return np.ascontiguousarray(np.broadcast_to(given, (count, SALT_BYTES)))


def perturb_many(
    blocks: Sequence[CoreBlock], width: int, words: ArrayLike, readings: ArrayLike, *, entropy: bytes
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return the symbols of N reports (SPEC section 6), without frames and keys, for experiments with the randomisers.

    Parameters
    ----------
    blocks : sequence of CoreBlock
        The questions.
    width : int
        The number of columns of the projection.
    words : uint32, shape (N, 2)
        The words that assign a question to each report: WORD0 and WORD1 of SPEC section 7.
    readings : int32
        Shape (N, questions), or (N,) for one question: Q15 for signs, categories for choices.
    entropy : bytes
        At least 32, seeds one generator for the whole batch.

    Returns
    -------
    index : int32, shape (N,)
    sign : int8, shape (N,)
        +1 or -1.
    """
    assigned = np.ascontiguousarray(words, np.uint32).reshape(-1, 2)
    count, questions = len(assigned), block_array(blocks)
    values = np.ascontiguousarray(readings, np.int32).reshape(count, -1 if count else 1)
    index, sign = np.empty(count, np.int32), np.empty(count, np.int8)
    failed = ffi.new("size_t *")
    with Drbg(entropy).state() as drbg:
        code = lib.peel_batch_perturb(
            pointer("int32_t", index),
            pointer("int8_t", sign),
            failed,
            questions,
            len(blocks),
            width,
            pointer("uint32_t", assigned),
            pointer("int32_t", values),
            values.shape[1],
            count,
            drbg,
        )
    if code < 0:
        raise PeelError(code, f"report {failed[0]} of the batch")
    return index, sign
