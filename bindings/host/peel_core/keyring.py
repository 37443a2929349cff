# SPDX-License-Identifier: MIT
"""The keyring, which finds a report's keys by device and number, and checks of keys and numbers for C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peel_core._core import ffi, lib
from peel_core.errors import check
from peel_core.keys import Keys
from peel_core.primitives import CoreBlock, block_array
from peel_core.profile import Block, Profile

__all__ = ["Keyring", "checked_keys", "core_block", "core_blocks", "key_rows", "pointer", "report_numbers"]


def pointer(ctype: str, array: NDArray[Any]) -> Any:
    """Return an array's memory as a C pointer, valid while the array lives."""
    return ffi.from_buffer(f"{ctype}[]", array)


def core_block(block: Block) -> CoreBlock:
    """Return a block as the core takes it."""
    domain = block.domain if block.form == lib.PEEL_HASHED else 0
    return CoreBlock(block.form, block.weight, block.questions, block.symbols, domain, block.keep, block.change)


def core_blocks(profile: Profile, odds: tuple[int, int] | None = None) -> Any:
    """Return the blocks of a profile as a C array, checked; with another keep and change in place of their own if given."""
    blocks = [core_block(each) for each in profile.blocks]
    array = block_array([each._replace(keep=odds[0], change=odds[1]) for each in blocks] if odds else blocks)
    check(lib.peel_blocks_check(array, len(array), profile.width), f"profile {profile.name}")
    return array


def key_rows(keys: NDArray[np.uint8], count: int, what: str) -> NDArray[np.uint8]:
    """Return keys of one kind as uint8, shape (count, 16)."""
    array = np.ascontiguousarray(keys, dtype=np.uint8)
    if array.shape != (count, lib.PEEL_KEY_BYTES):
        raise ValueError(f"{what} has shape {array.shape}, expected {(count, int(lib.PEEL_KEY_BYTES))}")
    return array


def report_numbers(what: str, numbers: ArrayLike, count: int) -> NDArray[np.uint64]:
    """Return report numbers, given one each or one for all."""
    given = np.asarray(numbers, dtype=np.uint64)
    if given.ndim and given.shape != (count,):
        raise ValueError(f"{what} has shape {given.shape}, expected {(count,)}")
    array = np.ascontiguousarray(np.broadcast_to(given, count))
    if np.any((array == 0) | (array > lib.PEEL_NUMBER_MAX)):
        raise ValueError(f"{what}: a report number must be from 1 to 2^48 - 1")
    return array


def checked_keys(keys: Keys, count: int) -> Keys:
    """Return all kinds of keys, one row per bundle."""
    return Keys(
        *(key_rows(getattr(keys, name), count, f"keys.{name}") for name in ("seal", "index", "receipt", "coin"))
    )


class Keyring:
    """Profiles, and devices with their bundles. Immutable; its repr shows no keys.

    Parameters
    ----------
    profiles : sequence of Profile
        Ids must be distinct.
    device_ids : uint32, shape (B,)
        The device of each bundle: not 0, in any order.
    first_numbers : int or uint64, shape (B,)
        The first number of each bundle, distinct within one device.
    profile_of : int32, shape (B,)
        Each bundle's position in ``profiles``.
    keys : Keys
        The keys of the bundles.
    last_numbers : int or uint64, shape (B,)
        The last number of each bundle, if it ends before the device's next bundle begins.
    challenge_root : bytes, optional
        The secret of audits and challenges (:func:`peel_core.coins.challenge_root`); verified profiles need it.

    Attributes
    ----------
    device_ids : uint32, shape (D,)
        The devices, sorted. ``Opened.slot`` is an index into them.
    profile_of : int32, shape (D,)
        The profile of each device's last bundle.
    last_bundle : int64, shape (D,)
        The position of that bundle in the arrays below.
    owners : int64, shape (B,)
        The device of each bundle, as a position in ``device_ids``.
    bundle_first, bundle_last : uint64, shape (B,)
    bundle_profile : int32, shape (B,)
    keys : Keys
        Like the arguments, sorted by device and first number. `find` returns positions in them.
    """

    def __init__(
        self,
        profiles: Sequence[Profile],
        device_ids: ArrayLike,
        first_numbers: ArrayLike,
        profile_of: ArrayLike,
        keys: Keys,
        last_numbers: ArrayLike = lib.PEEL_NUMBER_MAX,
        challenge_root: bytes | None = None,
    ) -> None:
        self.profiles = tuple(profiles)
        self.challenge_root = challenge_root
        if challenge_root is None and any(profile.verified for profile in self.profiles):
            raise ValueError("a profile with verified coins needs the fleet's challenge root")
        if len({profile.id for profile in self.profiles}) != len(self.profiles):
            raise ValueError("two profiles have the same id; change the seed of one")
        devices = np.asarray(device_ids, dtype=np.uint32)
        firsts = report_numbers("first_numbers", first_numbers, len(devices))
        lasts = report_numbers("last_numbers", last_numbers, len(devices))
        if np.shape(profile_of) != devices.shape:
            raise ValueError("profile_of and device_ids differ in length")
        order = np.lexsort((firsts, devices))
        self.bundle_first: NDArray[np.uint64] = firsts[order]
        self.bundle_last: NDArray[np.uint64] = lasts[order]
        self.bundle_profile: NDArray[np.int32] = np.asarray(profile_of, dtype=np.int32)[order]
        self.keys = checked_keys(keys, len(devices)).of(order)
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
        self._blocks = [core_blocks(profile) for profile in self.profiles]
        for row, profile, blocks in zip(self._table, self.profiles, self._blocks, strict=False):
            row.id, row.width, row.units = profile.id, profile.width, profile.units
            row.blocks, row.block_count = blocks, len(blocks)
            row.audits, row.opening = profile.audits, profile.opening_bytes

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
        """Return a keyring with only the chosen devices, bool (D,)."""
        rows = np.flatnonzero(chosen[self.owners])
        return Keyring(
            self.profiles,
            self.device_ids[self.owners[rows]],
            self.bundle_first[rows],
            self.bundle_profile[rows],
            self.keys.of(rows),
            self.bundle_last[rows],
            self.challenge_root,
        )

    def find(self, device_ids: ArrayLike, numbers: ArrayLike) -> NDArray[np.int32]:
        """Return the bundles of N reports, shape (N,): positions, or -1 if there is no bundle for the device and number."""
        devices = np.ascontiguousarray(device_ids, dtype=np.uint32)
        order = np.ascontiguousarray(numbers, dtype=np.uint64)
        if order.shape != devices.shape:
            raise ValueError("numbers and device_ids differ in length")
        out = np.empty(len(devices), np.int32)
        pointers = pointer("int32_t", out), pointer("uint32_t", devices), pointer("uint64_t", order)
        lib.peel_batch_find(pointers[0], self.struct(False), *pointers[1:], len(devices))
        return out

    def struct(self, accept_unsealed: bool) -> Any:
        """Return the C struct, valid while this object lives."""
        keyring = ffi.new("peel_batch_keyring *")
        buffers = {
            "profiles": self._table,
            "devices": pointer("uint32_t", self.device_ids),
            "ends": pointer("uint32_t", self._ends),
            "first_numbers": pointer("uint64_t", self.bundle_first),
            "last_numbers": pointer("uint64_t", self.bundle_last),
            "profile_of": pointer("int32_t", self.bundle_profile),
            "seal_keys": pointer("uint8_t", self.keys.seal),
            "index_keys": pointer("uint8_t", self.keys.index),
            "coin_keys": pointer("uint8_t", self.keys.coin),
        }
        for field, buffer in buffers.items():
            setattr(keyring, field, buffer)
        keyring.profile_count, keyring.device_count = len(self.profiles), len(self.device_ids)
        keyring.accept_unsealed = accept_unsealed
        return keyring
