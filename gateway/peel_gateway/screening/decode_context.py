# SPDX-License-Identifier: MIT
"""The decode context: the keys, codewords and matrices that read the reports of all known devices.

A *slot* is a device's position in the keyring. Only recently active devices also have a *row* in the tables in memory (`RowCache`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Opened
from peel_core.batch import pack_trits, project_many, unpack_trits
from peel_core.projection import reconstruct, reconstruction
from peel_gateway._kernels import ffi, lib
from peel_gateway.model.tables import DeviceIds, Rows, Slots

__all__ = ["Codewords", "DecodeContext", "DeviceSource", "RowCache", "TimesFromDicts", "slots_of"]

Ints = npt.NDArray[np.int64]

Floats = npt.NDArray[np.float64]

Residuals = npt.NDArray[np.float32]

_BYTES, _INTS, _FLOATS, _PROFILES, _CODES = (
    ffi.typeof(f"{kind}[]") for kind in ("uint8_t", "int64_t", "float", "int32_t", "int8_t")
)


class Codewords:
    """The codewords of a projection, and the matrix that decodes all other reports.

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

    def decode(self, opened: Opened, profile: int, index: Ints, sign: Ints, residual: Residuals) -> None:
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


class DeviceSource(Protocol):
    """The devices of a fleet at one time, as the engine reads them."""

    @property
    def keyring(self) -> Keyring:
        """Profiles, devices and their keys."""

    @property
    def revoked(self) -> frozenset[int]:
        """Devices whose reports are refused."""

    def enrolled_at(self, devices: Ints) -> Floats:
        """Unix seconds at which devices were registered, 0 where nobody knows: before that there are no reports of theirs. float64[N]"""

    def issued_at(self, devices: Ints) -> tuple[Ints, Floats]:
        """The first number of a device's present bundle, 0 where nobody knows, and the Unix seconds at which it was made. That bounds a
        device's numbers whatever the network delivers first. int64[N] and float64[N]"""


class TimesFromDicts:
    """The times of a registry that has them in dictionaries, as small ones do."""

    enrolled: Mapping[int, float]
    issued: Mapping[int, tuple[int, float]]

    def enrolled_at(self, devices: Ints) -> Floats:
        """See `DeviceSource`."""
        return np.array([self.enrolled.get(device, 0.0) for device in devices.tolist()], np.float64)

    def issued_at(self, devices: Ints) -> tuple[Ints, Floats]:
        """See `DeviceSource`."""
        rows = [self.issued.get(device, (0, 0.0)) for device in devices.tolist()]
        return np.array([first for first, _ in rows], np.int64), np.array([made for _, made in rows], np.float64)


@dataclass(frozen=True)
class DecodeContext:
    """The devices of a `DeviceSource` as arrays. A *slot* is a device's position in the keyring."""

    keyring: Keyring
    codewords: Sequence[Codewords]
    """Per profile: what its reports are decoded with."""
    revoked: Ints
    enrolled: Ints
    """When each device was enrolled, Unix milliseconds, 0 where nobody knows, int64[D]."""
    issued: Ints
    """When its present bundle was made, likewise."""
    issued_number: Ints
    """The number that the bundle begins with."""

    @classmethod
    def of(cls, registry: DeviceSource, former: DecodeContext | None = None) -> DecodeContext:
        """Read a device source; codewords of the former context are reused.

        Raises `numpy.linalg.LinAlgError` for a profile whose projection cannot be inverted.
        """
        known = former.projections if former else {}
        keyring = registry.keyring
        seeds = [(profile.seed, profile.width) for profile in keyring.profiles]
        ids = keyring.device_ids.astype(np.int64)
        enrolled = _milliseconds(registry.enrolled_at(ids))
        first, made = registry.issued_at(ids)
        return cls(
            keyring=keyring,
            codewords=[known[seed] if seed in known else Codewords(*seed) for seed in seeds],
            revoked=np.array(sorted(registry.revoked), np.int64),
            enrolled=enrolled,
            issued=np.where(first > 0, _milliseconds(made), enrolled),
            issued_number=np.maximum(first, 1),
        )

    @property
    def projections(self) -> dict[tuple[int, int], Codewords]:
        """Codewords by seed and width."""
        pairs = zip(self.keyring.profiles, self.codewords, strict=True)
        return {(profile.seed, profile.width): each for profile, each in pairs}

    def has_revoked(self, devices: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Return True for each device id, known or not, that the operator has revoked."""
        if not len(self.revoked):
            return np.zeros(len(devices), np.bool_)
        return np.isin(devices, self.revoked)

    def ids(self, slots: Slots) -> DeviceIds:
        """Device ids of some slots."""
        return DeviceIds(self.keyring.device_ids[slots].astype(np.int64))

    def members(self, position: int) -> npt.NDArray[np.bool_]:
        """Return True for each slot whose device ever had a bundle of a profile, bool[D]."""
        keyring = self.keyring
        members = np.zeros(len(keyring.device_ids), np.bool_)
        members[keyring.owners[keyring.bundle_profile == position]] = True
        return members

    def profile_ids(self) -> Ints:
        """Ids of the profiles, in their order."""
        return np.array([profile.id for profile in self.keyring.profiles], np.int64)

    def quotas(self, slots: Slots) -> tuple[Ints, Ints]:
        """Numbers that each slot's device may use up per period, and the period."""
        quota = np.array([profile.number_quota for profile in self.keyring.profiles], np.int64)
        period = np.array([profile.period for profile in self.keyring.profiles], np.int64)
        position = self.keyring.profile_of[slots]
        return quota[position], period[position]


def _milliseconds(seconds: Floats) -> Ints:
    return np.rint(1000 * seconds).astype(np.int64)


def slots_of(keyring: Keyring, devices: DeviceIds) -> Slots:
    """Slots of device ids in a keyring, -1 for those it does not have."""
    ids = keyring.device_ids
    if not len(ids):
        return Slots(np.full(len(devices), -1, np.int64))
    slot = np.minimum(np.searchsorted(ids, devices.astype(np.uint32)), len(ids) - 1)
    return Slots(np.asarray(np.where(ids[slot] == devices, slot, -1), dtype=np.int64))


Bools = npt.NDArray[np.bool_]


class RowCache:
    """Rows of tables, assigned to slots and freed again.

    Parameters
    ----------
    slots : int
        How many there are.
    rows : int
        How many rows there are at first; `assign` adds more when all are taken.
    """

    def __init__(self, slots: int, rows: int) -> None:
        self._row = np.full(slots, -1, np.int32)
        self.slot = Slots(np.full(rows, -1, np.int64))
        """The slot in each row, -1 for a free row."""
        self.taken = 0

    def absent(self, slots: Slots) -> Bools:
        """Return True for each slot without a row."""
        return np.asarray(self._row[slots] < 0)

    def rows(self, slots: Slots) -> Rows:
        """The rows of slots, each of which must have one."""
        rows = Rows(self._row[slots].astype(np.int64))
        if rows.min(initial=0) < 0:
            raise LookupError("a device that speaks is not in memory")
        return rows

    def assign(self, slots: Slots) -> Rows:
        """Give rows to slots that have none; return them. What was in these rows before is not theirs."""
        lacking = len(slots) - (len(self.slot) - self.taken)
        if lacking > 0:
            self.slot = Slots(np.append(self.slot, np.full(max(lacking, len(self.slot)), -1, np.int64)))
        rows = Rows(np.flatnonzero(self.slot < 0)[: len(slots)])
        self.slot[rows], self._row[slots] = slots, rows
        self.taken += len(slots)
        return rows

    def free(self, slots: Slots) -> None:
        """Free the rows of slots, each of which must have one."""
        self.slot[self._row[slots]] = -1
        self._row[slots] = -1
        self.taken -= len(slots)

    def evict(self, most: int, age: Ints, may_leave: Bools) -> None:
        """If more than `most` rows are taken, free those that may leave, lowest ages first, until half of `most` are taken."""
        if self.taken <= most:
            return
        leaving = np.flatnonzero((self.slot >= 0) & may_leave)
        leaving = leaving[np.argsort(age[leaving], kind="stable")[: self.taken - most // 2]]
        self._row[self.slot[leaving]] = -1
        self.slot[leaving] = -1
        self.taken -= len(leaving)
