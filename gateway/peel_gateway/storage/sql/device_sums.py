# SPDX-License-Identifier: MIT
"""Sums of reports per group of time, device and cell, in one table of all of them: without sorting, and without keeping rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_gateway._kernels import ffi, lib
from peel_gateway.model.tables import DeviceTallyTable, RollupTable

__all__ = ["NEVER", "DeviceSums", "PackedPiece", "Slots"]

Ints = npt.NDArray[np.int64]

NEVER = np.iinfo(np.int64).max
"""In `Slots.count_from`: no report of the device counts."""


@dataclass(frozen=True)
class PackedPiece:
    """A piece of the roll-ups, its rows still packed."""

    entries: int
    bits: int
    widths: list[int]
    """Bytes per row of steps, plus, minus and forfeits."""
    units: npt.NDArray[np.void]
    columns: npt.NDArray[np.uint8]


class Slots:
    """The devices that sums are made of: those with ids from `low` to `high`, or some of these.

    Parameters
    ----------
    only : int64[D], optional
        Ascending ids within the range; other devices are left out.
    """

    def __init__(self, low: int, high: int, only: Ints | None = None) -> None:
        self.low, self.high = low, high
        self.ids = np.arange(low, high + 1) if only is None else only
        self.of_id: npt.NDArray[np.int32] | None = None
        if only is not None:
            self.of_id = np.full(high - low + 1, -1, np.int32)
            self.of_id[only - low] = np.arange(len(only))
        self.count_from: Ints | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def leave_out(self, device: Ints, count_from: Ints | int) -> None:
        """Note that reports of these devices with fewer forfeits than `count_from` do not count."""
        if self.count_from is None:
            self.count_from = np.zeros(len(self), np.int64)
        slot = self.find(device)
        self.count_from[slot[slot >= 0]] = np.broadcast_to(count_from, len(device))[slot >= 0]

    def find(self, device: Ints) -> Ints:
        """Return the slot of each device, -1 for those left out."""
        inside = (device >= self.low) & (device <= self.high)
        place = np.where(inside, device - self.low, 0)
        if self.of_id is not None:
            place = self.of_id[place].astype(np.int64)
        return np.where(inside, place, -1)


class DeviceSums:
    """Sums of plus and minus reports, int64[groups, slots, cells, states] each.

    Parameters
    ----------
    size : int or None
        Seconds of a group; None for one group.
    first : int
        Start of the first group.
    """

    def __init__(self, slots: Slots, cells: int, size: int | None, first: int, groups: int) -> None:
        self._slots, self._size, self._first = slots, size, first
        self._shape = (groups, len(slots), cells, 1 if slots.count_from is None else 2)
        self._plus, self._minus = np.zeros(self._shape, np.int64), np.zeros(self._shape, np.int64)
        self._kernel = ffi.new("peel_device_sums *")
        arrays: dict[str, Any] = {
            "plus": ffi.from_buffer("uint64_t[]", self._plus),
            "minus": ffi.from_buffer("uint64_t[]", self._minus),
        }
        if slots.of_id is not None:
            arrays["slot"] = ffi.from_buffer("int32_t[]", slots.of_id)
        if slots.count_from is not None:
            arrays["count_from"] = ffi.from_buffer("int64_t[]", slots.count_from)
        self._kept = arrays  # the struct does not keep them alive
        for name, value in arrays.items():
            setattr(self._kernel, name, value)
        for name, number in zip(("groups", "slots", "cells", "states"), self._shape, strict=True):
            setattr(self._kernel, name, number)
        self._kernel.low, self._kernel.high = slots.low, slots.high

    def _group(self, start: Ints) -> Ints:
        return (start - self._first) // self._size if self._size else np.zeros(len(start), np.int64)

    def add_piece(self, packed: PackedPiece, start: Ints, inside: npt.NDArray[np.bool_]) -> None:
        """Add a piece's rows in those of its units that are inside. `ValueError` if the piece is damaged."""
        group = np.where(inside, self._group(start), -1)
        arrays = {
            "columns": ffi.from_buffer("uint8_t[]", packed.columns),
            "widths": ffi.new("uint8_t[]", packed.widths),
            "first": ffi.from_buffer("uint64_t[]", np.ascontiguousarray(packed.units["first"])),
            "entries": ffi.from_buffer("uint64_t[]", packed.units["entries"].astype(np.uint64)),
            "group": ffi.from_buffer("int64_t[]", group),
        }
        piece = ffi.new("peel_rollup_piece *", arrays)
        piece.rows, piece.bits, piece.units = packed.entries, packed.bits, len(group)
        if lib.peel_device_sums_add(self._kernel, piece):
            raise ValueError(f"its {packed.entries} rows of {len(group)} units have no place among {self._shape} sums")

    def add_table(self, table: RollupTable) -> None:
        """Add rows that are not packed."""
        slot = self._slots.find(table.device)
        rows = np.flatnonzero(slot >= 0)
        slot, state = slot[rows], np.zeros(len(rows), np.int64)
        if self._slots.count_from is not None:
            state = (table.forfeits[rows] < self._slots.count_from[slot]).astype(np.int64)
        place = (self._group(table.start[rows]), slot, table.index[rows], state)
        np.add.at(self._plus, place, table.plus[rows])
        np.add.at(self._minus, place, table.minus[rows])

    def table(self) -> DeviceTallyTable:
        """Return the sums that are not zero, in the order of their keys."""
        plus, minus = self._plus.reshape(-1), self._minus.reshape(-1)
        rows = np.flatnonzero(plus | minus)
        _, slots, cells, states = self._shape
        place, state = (rows, np.zeros(len(rows), np.int64)) if states == 1 else np.divmod(rows, states)
        place, cell = np.divmod(place, cells)
        group, slot = (np.zeros(len(rows), np.int64), place) if self._size is None else np.divmod(place, slots)
        bucket = self._first + group * self._size if self._size else np.zeros(len(rows), np.int64)
        return DeviceTallyTable(bucket, self._slots.ids[slot], cell, plus[rows], minus[rows], state)
