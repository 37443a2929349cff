# SPDX-License-Identifier: MIT
"""Many reports per call: numpy arrays in and out, C loops without the GIL in between."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peel_core._core import ffi, lib
from peel_core.errors import PeelError, check
from peel_core.keys import KEY_BYTES, MASTER_BYTES, Keys, check_fleet_name
from peel_core.primitives import Drbg
from peel_core.profile import Profile
from peel_core.trits import packed_bytes, unpack_trits


def _pointer(ctype: str, array: NDArray[Any]) -> Any:
    return ffi.from_buffer(f"{ctype}[]", array)


def _keys(keys: NDArray[np.uint8], count: int, what: str) -> NDArray[np.uint8]:
    array = np.ascontiguousarray(keys, dtype=np.uint8)
    if array.shape != (count, lib.PEEL_KEY_BYTES):
        raise ValueError(f"{what} has shape {array.shape}, expected {(count, int(lib.PEEL_KEY_BYTES))}")
    return array


def _integers(readings: ArrayLike) -> NDArray[np.int32]:
    """Readings as the core takes them; a fraction would be cut off in silence, so whole types only."""
    values = np.asarray(readings)
    if values.dtype.kind not in "iu":
        raise TypeError(f"readings are integers (Q15, or categories), not {values.dtype}; scale and round them first")
    limits = np.iinfo(np.int32)
    if values.size and (values.min() < limits.min or values.max() > limits.max):
        raise ValueError("a reading does not fit into 32 bits")
    return np.ascontiguousarray(values, dtype=np.int32)


def _numbers(what: str, numbers: ArrayLike, count: int) -> NDArray[np.uint64]:
    """Report numbers, one each or one for all."""
    given = np.asarray(numbers, dtype=np.uint64)
    if given.ndim and given.shape != (count,):
        raise ValueError(f"{what} has shape {given.shape}, expected {(count,)}")
    array = np.ascontiguousarray(np.broadcast_to(given, count))
    if np.any((array == 0) | (array > lib.PEEL_NUMBER_MAX)):
        raise ValueError(f"{what}: a report number is from 1 to 2^48 - 1")
    return array


def _checked_keys(keys: Keys, count: int) -> Keys:
    return Keys(*(_keys(getattr(keys, name), count, f"keys.{name}") for name in ("seal", "index", "receipt")))


class Keyring:
    """Who may report what: profiles, and devices with the bundles that were made for them. Immutable, and silent about its keys.

    Parameters
    ----------
    profiles : sequence of Profile
        Ids must be distinct.
    device_ids : uint32, shape (B,)
        Whose bundle it is: not 0, in any order.
    first_numbers : int or uint64, shape (B,)
        The number that the bundle begins with; those of one device are distinct.
    profile_of : int32, shape (B,)
        Each bundle's position in ``profiles``.
    keys : Keys
        Of the bundles.
    last_numbers : int or uint64, shape (B,)
        The number that the bundle ends with, if it does before the device's next one begins.

    Attributes
    ----------
    device_ids : uint32, shape (D,)
        The devices, sorted: ``Opened.slot`` points into them.
    profile_of : int32, shape (D,)
        The profile of each device's last bundle.
    last_bundle : int64, shape (D,)
        Where that bundle is in what follows.
    owners : int64, shape (B,)
        Whose bundles they are, as positions in ``device_ids``.
    bundle_first, bundle_last : uint64, shape (B,)
    bundle_profile : int32, shape (B,)
    keys : Keys
        As given, sorted by device and first number: `find` points into them.
    """

    def __init__(
        self,
        profiles: Sequence[Profile],
        device_ids: ArrayLike,
        first_numbers: ArrayLike,
        profile_of: ArrayLike,
        keys: Keys,
        last_numbers: ArrayLike = lib.PEEL_NUMBER_MAX,
    ) -> None:
        self.profiles = tuple(profiles)
        if len({profile.id for profile in self.profiles}) != len(self.profiles):
            raise ValueError("two profiles have the same id; change the seed of one")
        devices = np.asarray(device_ids, dtype=np.uint32)
        firsts = _numbers("first_numbers", first_numbers, len(devices))
        lasts = _numbers("last_numbers", last_numbers, len(devices))
        if np.shape(profile_of) != devices.shape:
            raise ValueError("profile_of and device_ids differ in length")
        order = np.lexsort((firsts, devices))
        self.bundle_first: NDArray[np.uint64] = firsts[order]
        self.bundle_last: NDArray[np.uint64] = lasts[order]
        self.bundle_profile: NDArray[np.int32] = np.asarray(profile_of, dtype=np.int32)[order]
        self.keys = _checked_keys(keys, len(devices)).of(order)
        self.device_ids: NDArray[np.uint32]
        self.owners: NDArray[np.int64]
        self.device_ids, self.owners = np.unique(devices[order], return_inverse=True)
        self.last_bundle: NDArray[np.int64] = np.cumsum(np.bincount(self.owners, minlength=len(self.device_ids))) - 1
        self.profile_of: NDArray[np.int32] = self.bundle_profile[self.last_bundle]
        self._ends = (self.last_bundle + 1).astype(np.uint32)
        self._check()
        bundles = (self.owners, self.bundle_first, self.bundle_last, self.bundle_profile, *vars(self.keys).values())
        for array in (self.device_ids, self.profile_of, self.last_bundle, *bundles):
            array.flags.writeable = False
        self._table = ffi.new("peel_batch_profile[]", max(1, len(self.profiles)))
        for row, profile in zip(self._table, self.profiles, strict=False):
            row.id, row.width, row.mechanism = profile.id, profile.width, profile.mechanism_id
            row.assignments = profile.assignments

    def _check(self) -> None:
        if len(self.device_ids) and self.device_ids[0] == 0:
            raise ValueError("device id 0 is reserved")
        if np.any((np.diff(self.owners) == 0) & (self.bundle_first[1:] == self.bundle_first[:-1])):
            raise ValueError("a device has two bundles with the same first number")
        if np.any((self.bundle_profile < 0) | (self.bundle_profile >= len(self.profiles))):
            raise ValueError("profile_of points outside profiles")

    def __repr__(self) -> str:
        return f"Keyring({len(self.profiles)} profiles, {len(self.device_ids)} devices, {len(self.keys)} bundles)"

    def only(self, chosen: NDArray[np.bool_]) -> Keyring:
        """The same of some devices alone, bool (D,)."""
        rows = np.flatnonzero(chosen[self.owners])
        return Keyring(
            self.profiles,
            self.device_ids[self.owners[rows]],
            self.bundle_first[rows],
            self.bundle_profile[rows],
            self.keys.of(rows),
            self.bundle_last[rows],
        )

    def find(self, device_ids: ArrayLike, numbers: ArrayLike) -> NDArray[np.int32]:
        """The bundles whose keys N reports have, shape (N,): positions, -1 where the device is unknown or has none for the number."""
        devices = np.ascontiguousarray(device_ids, dtype=np.uint32)
        order = np.ascontiguousarray(numbers, dtype=np.uint64)
        if order.shape != devices.shape:
            raise ValueError("numbers and device_ids differ in length")
        out = np.empty(len(devices), np.int32)
        pointers = _pointer("int32_t", out), _pointer("uint32_t", devices), _pointer("uint64_t", order)
        lib.peel_batch_find(pointers[0], self.struct(False), *pointers[1:], len(devices))
        return out

    def struct(self, accept_unsealed: bool) -> Any:
        """The C struct; valid while this object lives."""
        keyring = ffi.new("peel_batch_keyring *")
        buffers = {
            "profiles": self._table,
            "devices": _pointer("uint32_t", self.device_ids),
            "ends": _pointer("uint32_t", self._ends),
            "first_numbers": _pointer("uint64_t", self.bundle_first),
            "last_numbers": _pointer("uint64_t", self.bundle_last),
            "profile_of": _pointer("int32_t", self.bundle_profile),
            "seal_keys": _pointer("uint8_t", self.keys.seal),
            "index_keys": _pointer("uint8_t", self.keys.index),
        }
        for field, buffer in buffers.items():
            setattr(keyring, field, buffer)
        keyring.profile_count, keyring.device_count = len(self.profiles), len(self.device_ids)
        keyring.accept_unsealed = accept_unsealed
        return keyring


@dataclass(frozen=True)
class Opened:
    """What was found in payloads, one row per piece: a frame, or the rest of a payload that could not be split.

    ``code`` is 0 for a frame that opened, or a negative code of ``peel.h``. Fields behind a fault are 0, -1 for ``profile`` and ``slot``.
    ``index`` is what the number assigns: the attribute for Harmony, the hash for local hashing, 0 for kRR. ``packed`` are the trits as they
    came, shape (rows, bytes of the widest), zero behind a profile's own; ``widths`` are those of the profiles.
    """

    message: NDArray[np.int32]
    offset: NDArray[np.int32]
    length: NDArray[np.int32]
    code: NDArray[np.int8]
    flags: NDArray[np.uint8]
    device: NDArray[np.uint32]
    number: NDArray[np.uint64]
    profile: NDArray[np.int32]
    slot: NDArray[np.int32]
    rule: NDArray[np.uint32]
    index: NDArray[np.uint32]
    packed: NDArray[np.uint8]
    widths: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.code)

    @functools.cached_property
    def trits(self) -> NDArray[np.float32]:
        """-1, 0 and +1, shape (rows, widest - 1), zero where there are none and behind a profile's own width: slice and multiply."""
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
    "device": ("uint32_t", np.uint32),
    "number": ("uint64_t", np.uint64),
    "profile": ("int32_t", np.int32),
    "slot": ("int32_t", np.int32),
    "rule": ("uint32_t", np.uint32),
    "index": ("uint32_t", np.uint32),
}


def open_many(keyring: Keyring, payloads: Sequence[bytes], *, accept_unsealed: bool = False) -> Opened:
    """Parse and open every frame of every payload."""
    ends = np.cumsum([len(payload) for payload in payloads], dtype=np.uint64)
    return open_joined(keyring, b"".join(payloads), ends, accept_unsealed=accept_unsealed)


def open_joined(keyring: Keyring, data: bytes, ends: NDArray[np.uint64], *, accept_unsealed: bool = False) -> Opened:
    """Like `open_many`, with N payloads one behind the other: where each ends, uint64[N]."""
    ends = np.ascontiguousarray(ends, dtype=np.uint64)
    if np.any(ends[1:] < ends[:-1]) or (len(ends) and ends[-1] > len(data)):
        raise ValueError("ends: must not fall, nor lie beyond the data")
    ring = keyring.struct(accept_unsealed)
    count = lib.peel_batch_count(ring, data, _pointer("uint64_t", ends), len(ends))
    widths = tuple(profile.width for profile in keyring.profiles)
    stride = packed_bytes(max(widths, default=2))
    arrays: dict[str, Any] = {name: np.empty(count, dtype) for name, (_, dtype) in _COLUMNS.items()}
    packed = np.zeros((count, stride), np.uint8)
    rows = ffi.new("peel_batch_rows *")
    alive = {name: _pointer(ctype, arrays[name]) for name, (ctype, _) in _COLUMNS.items()}
    alive["packed"] = _pointer("uint8_t", packed)
    for name, pointer in alive.items():
        setattr(rows, name, pointer)
    rows.stride = stride
    lib.peel_batch_open(rows, ring, data, _pointer("uint64_t", ends), len(ends))
    return Opened(**arrays, packed=packed, widths=widths)


def encode_many(
    profile: Profile,
    device_ids: ArrayLike,
    keys: Keys,
    numbers: ArrayLike,
    readings: ArrayLike,
    *,
    entropy: bytes,
    rule: int | None = None,
    flags: int = 0,
) -> NDArray[np.uint8]:
    """Encode N reports, as N devices would.

    Parameters
    ----------
    device_ids : uint32, shape (N,)
    keys : Keys
        One per report.
    numbers : uint64, shape (N,)
    readings : int32
        Q15, shape (N, k), for numeric profiles; categories, shape (N,), for categorical ones.
    entropy : bytes
        At least 32, seeds one generator for the whole batch.
    rule : int, optional
        Toss with this rule instead of the profile's, as a device with another epsilon would.

    Returns
    -------
    uint8 array, shape (N, frame bytes)
    """
    devices = np.ascontiguousarray(device_ids, dtype=np.uint32)
    count = len(devices)
    order = np.ascontiguousarray(numbers, dtype=np.uint64)
    values = _integers(readings).reshape(count, profile.readings)
    if order.shape != (count,):
        raise ValueError(f"numbers has shape {order.shape}, expected {(count,)}")
    seals, indices = _keys(keys.seal, count, "keys.seal"), _keys(keys.index, count, "keys.index")
    rows = row_cache(profile.seed, profile.width)
    encoder = ffi.new("peel_encoder *")
    encoder.flags, encoder.mechanism, encoder.profile = flags, profile.mechanism_id, profile.id
    encoder.k, encoder.domain = profile.k, profile.hash_domain
    encoder.width, encoder.seed = profile.width, profile.seed
    encoder.rule = profile.rule if rule is None else rule
    cache = _pointer("uint32_t", rows)
    encoder.rows = cache
    frames = np.empty((count, check(lib.peel_frame_bytes(profile.width, flags))), np.uint8)
    failed = ffi.new("size_t *")
    with Drbg(entropy).state() as drbg:
        code = lib.peel_batch_encode(
            _pointer("uint8_t", frames),
            failed,
            encoder,
            _pointer("uint32_t", devices),
            _pointer("uint8_t", seals),
            _pointer("uint8_t", indices),
            _pointer("uint64_t", order),
            _pointer("int32_t", values),
            profile.readings,
            count,
            drbg,
        )
    if code < 0:
        raise PeelError(code, f"report {failed[0]} of the batch")
    return frames


def row_cache(seed: int, width: int) -> NDArray[np.uint32]:
    """The row words of a projection, shape (width - 1,)."""
    if not 2 <= width <= lib.PEEL_MAX_WIDTH:
        raise PeelError(lib.PEEL_E_WIDTH, f"width {width}")
    rows = np.empty(width - 1, np.uint32)
    check(lib.peel_projection_rows(_pointer("uint32_t", rows), seed, width))
    return rows


def project_many(seed: int, width: int, indices: ArrayLike, minus: ArrayLike | None = None) -> NDArray[np.int8]:
    """Codewords of N symbols as trits, shape (N, width - 1)."""
    columns = np.ascontiguousarray(indices, dtype=np.uint32)
    signs = np.zeros(len(columns), np.uint8) if minus is None else np.ascontiguousarray(minus, dtype=np.uint8)
    if signs.shape != columns.shape:
        raise ValueError("indices and minus differ in length")
    rows = row_cache(seed, width)
    out = np.empty((len(columns), width - 1), np.int8)
    code = lib.peel_batch_project(
        _pointer("int8_t", out),
        width,
        _pointer("uint32_t", rows),
        _pointer("uint32_t", columns),
        _pointer("uint8_t", signs),
        len(columns),
    )
    check(code, "project")
    return out


def index_many(
    profile: Profile, device_ids: ArrayLike, keys: Keys, numbers: ArrayLike, *, flags: int = 0
) -> NDArray[np.uint32]:
    """What N report numbers assign to their devices (SPEC section 7), shape (N,): attributes, or hashes of local hashing.

    It depends on the keys of the number's bundle (`Keyring.find`) and on the whole header, so on its ``flags`` too.
    """
    devices = np.ascontiguousarray(device_ids, dtype=np.uint32)
    order = np.ascontiguousarray(numbers, dtype=np.uint64)
    index_keys = _keys(keys.index, len(devices), "keys.index")
    if order.shape != devices.shape:
        raise ValueError("numbers and device_ids differ in length")
    if flags not in (0, lib.PEEL_FLAG_UNSEALED):
        raise PeelError(lib.PEEL_E_FLAGS, "index_many")
    if np.any((order == 0) | (order > lib.PEEL_NUMBER_MAX) | (devices == 0)):
        raise PeelError(lib.PEEL_E_NUMBER, "index_many")
    out = np.empty(len(devices), np.uint32)
    lib.peel_batch_index(
        _pointer("uint32_t", out),
        flags,
        profile.mechanism_id,
        profile.id,
        profile.assignments,
        _pointer("uint32_t", devices),
        _pointer("uint8_t", index_keys),
        _pointer("uint64_t", order),
        len(devices),
    )
    return out


def derive_keys(master: bytes, fleet: str, device_ids: ArrayLike, first_numbers: ArrayLike) -> Keys:
    """The keys of bundles (SPEC section 3).

    Parameters
    ----------
    master : bytes
        The fleet's master key, 32 bytes.
    fleet : str
        The fleet's name.
    device_ids : uint32, shape (B,)
        Whose bundles they are.
    first_numbers : int or uint64, shape (B,)
        The number that each begins with.
    """
    if len(master) != MASTER_BYTES:
        raise ValueError(f"a master key has {MASTER_BYTES} bytes, this one {len(master)}")
    check_fleet_name(fleet)
    devices = np.ascontiguousarray(device_ids, dtype=np.uint32)
    firsts = _numbers("first_numbers", first_numbers, len(devices))
    keys = Keys(*(np.empty((len(devices), KEY_BYTES), np.uint8) for _ in range(3)))
    lib.peel_batch_derive(
        *(_pointer("uint8_t", array) for array in (keys.seal, keys.index, keys.receipt)),
        master,
        fleet.encode(),
        len(fleet),
        _pointer("uint32_t", devices),
        _pointer("uint64_t", firsts),
        len(devices),
    )
    return keys
