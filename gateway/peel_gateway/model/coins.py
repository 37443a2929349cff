# SPDX-License-Identifier: MIT
"""Verified coins (SPEC section 13): the state of each device, its batches of numbers, and reports that wait for their coins.

A report waits in two places. Until its time bucket has ended, it is a `HELD` record, in the order in which reports were stored. Then it
is a `WAITING` record of its device. There it stays until every coin of its group is opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core.coins import BATCH_NUMBERS

__all__ = [
    "ASKED",
    "BATCH",
    "COIN_COLUMNS",
    "GROUPED",
    "HELD",
    "NO_COIN",
    "UNGROUPED",
    "UNOPENED",
    "WAITING",
    "Batches",
    "CoinTable",
    "DueReports",
    "Ragged",
]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Objects = npt.NDArray[np.object_]
Records = npt.NDArray[np.void]

NO_COIN = 255
"""In place of the masked answer: a report without a reading has no coin."""
UNOPENED = 255
"""The outcome of a coin that is not opened yet."""
UNGROUPED, GROUPED, ASKED = 0, 1, 2
"""The steps of a waiting report: for the next group; in the open group, whose challenge does not ask for it yet; asked for."""

BATCH = np.dtype([("first", "<u8"), ("audit", "<u4"), ("approved", "u1")])
"""A committed batch. Bit j of `audit` is set if its number j, from 0, is to be revealed."""

HELD = np.dtype(
    [
        ("device", "<u4"),
        ("number", "<u8"),
        ("profile", "<u4"),
        ("unit", "<u4"),
        ("bucket", "<u4"),
        ("received", "<u8"),
        ("masked", "u1"),
    ]
)
"""A stored report. `unit` is what its number assigns, `bucket` the time bucket that it counts in, `received` in Unix milliseconds."""

WAITING = np.dtype(
    [(name, HELD[name]) for name in HELD.names or () if name != "device"]
    + [("step", "u1"), ("outcome", "u1"), ("root", "u1", 16)]
)
"""A report whose time bucket has ended. `root` is the committed root of its table."""


@dataclass
class Ragged:
    """Records of some owners, in the order of the owners."""

    records: Records
    at: Ints
    """The owner of each record: its position."""
    ends: Ints
    """The places at which the records of each owner end."""

    @classmethod
    def of(cls, packed: Sequence[bytes] | Objects, dtype: np.dtype[Any]) -> Ragged:
        """Unpack the records of each owner."""
        counts = np.fromiter(map(len, packed), np.int64, len(packed)) // dtype.itemsize
        return cls.made(np.frombuffer(b"".join(packed), dtype).copy(), counts)

    @classmethod
    def made(cls, records: Records, counts: Ints) -> Ragged:
        """Divide records among owners."""
        return cls(records, np.repeat(np.arange(len(counts)), counts), np.cumsum(counts))

    @property
    def begins(self) -> Ints:
        """The place at which the records of each owner begin."""
        return self.ends - self.counts

    @property
    def counts(self) -> Ints:
        """The number of records of each owner."""
        return np.diff(self.ends, prepend=0)

    def packed(self) -> list[bytes]:
        """Return the records of each owner as bytes."""
        data, size = self.records.tobytes(), self.records.dtype.itemsize
        return [
            data[first:last]
            for first, last in zip((size * self.begins).tolist(), (size * self.ends).tolist(), strict=True)
        ]

    def only(self, rows: Bools) -> Ragged:
        """Return some records of the same owners."""
        return Ragged.made(self.records[rows], np.bincount(self.at[rows], minlength=len(self.ends)))

    def find(self, at: Ints, number: Ints, field: str) -> Ints:
        """Return the last record of each owner whose field is at most a number, -1 without one. Fields ascend within an owner."""
        low, high = self.begins[at], self.ends[at]
        keys = self.records[field].astype(np.int64)
        for _ in range(int(self.counts.max(initial=0)).bit_length()):
            middle = (low + high) // 2
            above = (middle < high) & (keys[np.minimum(middle, len(keys) - 1)] <= number)
            low, high = np.where(above, middle + 1, low), np.where(above, high, middle)
        return np.where(low > self.begins[at], low - 1, -1)

    def any(self, rows: Bools) -> Bools:
        """Return for each owner whether any of its records is marked."""
        return np.asarray(np.bincount(self.at[rows], minlength=len(self.ends)) > 0)


class Batches(Ragged):
    """The batches of some devices. Owners are positions among the devices."""

    @classmethod
    def of_devices(cls, packed: Objects) -> Batches:
        """Unpack the batches of each device."""
        found = Ragged.of(packed, BATCH)
        return cls(found.records, found.at, found.ends)

    @property
    def first(self) -> Ints:
        """The first number of each batch."""
        return self.records["first"].astype(np.int64)

    @property
    def waiting(self) -> Bools:
        """For each device, whether its newest batch waits for its audit."""
        newest = self.records["approved"][self.ends - 1] if len(self.records) else np.zeros(len(self.ends), np.uint8)
        return np.asarray((self.counts > 0) & (newest == 0))

    @property
    def newest(self) -> Ints:
        """For each device, the first number of its newest batch; 0 without one."""
        newest = self.first[self.ends - 1] if len(self.records) else np.zeros(len(self.ends), np.int64)
        return np.where(self.counts > 0, newest, 0)

    def batch_of(self, at: Ints, number: Ints) -> Ints:
        """Return the batch of each number of a device, -1 without one."""
        if not len(self.records):
            return np.full(len(at), -1)
        found = self.find(at, number, "first")
        return np.where((found >= 0) & (number < self.first[found] + BATCH_NUMBERS), found, -1)

    def may_report(self, at: Ints, number: Ints) -> Bools:
        """Return True for each number of an approved batch that its audit has not revealed."""
        batch = self.batch_of(at, number)
        if not len(self.records):
            return batch >= 0
        place = np.clip(number - self.first[batch], 0, BATCH_NUMBERS - 1)
        revealed = self.records["audit"][batch].astype(np.int64) >> place & 1
        return np.asarray((batch >= 0) & (self.records["approved"][batch] != 0) & (revealed == 0))

    def free(self, used: Ints) -> Ints:
        """Return the count of numbers of each device that may have a report and are above its highest used one."""
        passed = np.clip(used[self.at] - self.first + 1, 0, BATCH_NUMBERS)
        unrevealed = ~self.records["audit"] & np.uint32(2**BATCH_NUMBERS - 1)
        left = unrevealed.astype(np.uint64) >> passed.astype(np.uint64)
        return np.bincount(self.at, np.bitwise_count(left), len(self.ends)).astype(np.int64)

    def revealed(self, above: Ints, below: Ints) -> tuple[Ints, Ints]:
        """Return the devices and numbers that audits of approved batches have revealed, by device and number.

        Of each device only batches with numbers between `above` and `below`; both int64[D].
        """
        first = self.first
        between = (first + BATCH_NUMBERS > above[self.at]) & (first < below[self.at])
        chosen = np.flatnonzero(between & (self.records["approved"] != 0))
        batch, place = np.nonzero(bits_of(self.records["audit"][chosen]))
        return self.at[chosen[batch]], first[chosen[batch]] + place


def bits_of(audits: npt.NDArray[np.uint32]) -> Bools:
    """Return the bits of audits, lowest first, bool[N, 32]."""
    octets = np.ascontiguousarray(audits, "<u4").view(np.uint8).reshape(-1, 4)
    return np.unpackbits(octets, axis=1, bitorder="little").astype(np.bool_)


@dataclass(kw_only=True)
class CoinTable:
    """The verified coins of devices, one entry per device, in ascending order of ids; a device without an entry never committed."""

    device: Ints
    committed: Ints
    """The highest committed number."""
    approved: Ints
    """The first number of the newest batch that has passed its audit, or a void number above all batches."""
    challenges: Ints
    """The number of challenges so far."""
    opened: Ints
    """Of these, the answered ones."""
    asked: Ints
    """When the open audit or challenge began, Unix milliseconds; 0 without one."""
    due: Ints
    """1 while reports of ended time buckets wait for a challenge that can be made now."""
    challenge: Objects
    """The open challenge as bytes: its seed, and the first and last number of each run as 64-bit integers; empty without one."""
    batches: Objects
    """`BATCH` records as bytes, ascending."""

    def __len__(self) -> int:
        return len(self.device)

    @classmethod
    def new(cls, device: Ints) -> CoinTable:
        """Return the coins of devices that never committed."""
        count = len(device)
        columns: dict[str, Any] = {name: np.zeros(count, np.int64) for name in COIN_COLUMNS}
        columns |= {name: np.full(count, b"", np.object_) for name in _BYTES}
        return cls(**columns | {"device": device})

    def at(self, places: Ints | Bools) -> CoinTable:
        """Return copies of some entries."""
        return CoinTable(**{name: getattr(self, name)[places] for name in COIN_COLUMNS})

    def put(self, places: Ints, table: CoinTable) -> None:
        """Write entries to some places, in place."""
        for name in COIN_COLUMNS:
            getattr(self, name)[places] = getattr(table, name)

    def make_void(self) -> None:
        """Make all batches and challenges void."""
        self.approved = self.committed.copy()
        self.opened = self.challenges.copy()
        self.asked, self.due = np.zeros_like(self.asked), np.zeros_like(self.due)
        self.challenge, self.batches = (np.full(len(self), b"", np.object_) for _ in _BYTES)


_BYTES = ("challenge", "batches")
COIN_COLUMNS: tuple[str, ...] = tuple(each.name for each in fields(CoinTable))


@dataclass(frozen=True)
class DueReports:
    """Held reports whose time bucket has ended."""

    records: Records
    """`HELD` records, oldest first."""
    pieces: Sequence[tuple[int, int]]
    """The stored pieces that they are from, to be removed."""
    complete: bool
    """Whether there are no more."""
