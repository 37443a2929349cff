# SPDX-License-Identifier: MIT
"""The store: the interface to everything the gateway keeps. `choice` opens the one that the settings name.

A batch is one transaction: its log rows, tallies, device states, exposures and counters are committed together or not at all. Reads need no
transaction.

An `Archive` reads the data of a fleet. A `Store` also writes. SQLite has one store. PostgreSQL divides a fleet into *partitions* (device id
modulo the number of partitions); each has its own log, arrivals and generation, and each is one `Store`.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from peel_gateway.exits import Exit
from peel_gateway.model.coins import CoinTable, DueReports, Ragged, Records
from peel_gateway.model.exposure import AuditEntry, Exposure, ExposureFilter
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.tables import (
    Aged,
    Counts,
    DeviceTable,
    DeviceTallyTable,
    DeviceTestTable,
    Difference,
    DirectoryVersion,
    Effects,
    Found,
    GapTable,
    LogTable,
    NewestReports,
    Questions,
    StoredState,
    TallyTable,
    Written,
)
from peel_gateway.model.verdict import Verdict

__all__ = [
    "Archive",
    "Inspection",
    "RollupCheck",
    "Store",
    "StoreAway",
    "StoreCorrupt",
    "StoreError",
    "StoreFailed",
    "StoreFull",
    "StoreLocked",
    "StoreLost",
    "StoreMismatch",
    "StoreRejected",
    "StoreReplaced",
    "StoreTooNew",
    "StoreTooOld",
    "StoreUnusable",
    "Transaction",
]

Ints = npt.NDArray[np.int64]


class StoreError(Exception):
    """The store failed and applied nothing. A retry may succeed, except for a `StoreUnusable` or a `StoreRejected`."""

    exit_code = Exit.MISSING


class StoreUnusable(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """An error that a retry cannot fix: the operator must change the database or the settings."""

    exit_code = Exit.STORE


class StoreFull(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """The disk is full, or a size limit was reached. Free space, then retry."""


class StoreLocked(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """Another process held the database for longer than the timeout. Retry."""


class StoreCorrupt(StoreUnusable):
    """The file is damaged, or is not a Peel database. It is left untouched."""


class StoreTooNew(StoreUnusable):
    """A newer version of the gateway made or upgraded the database."""


class StoreTooOld(StoreUnusable):
    """An older version of the gateway made the database: `peel gateway upgrade`."""


class StoreMismatch(StoreUnusable):
    """The database was made with other settings than these."""


class StoreFailed(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """The disk or the file system reported an error."""


class StoreReplaced(StoreFailed):
    """The database file was moved, replaced or deleted while it is open. Retry: the same file may come back."""


class StoreAway(StoreFailed):
    """The database server cannot be reached. Retry: it may come back."""


class StoreRejected(StoreError):  # noqa: N818 - the name says what is wrong with the data
    """The database rejected the data: a violated constraint, a value out of range. A retry with the same data fails again."""


class StoreLost(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """Another worker owns this partition now. Nothing was applied; write and acknowledge nothing more."""


class Transaction(abc.ABC):
    """One write transaction, between begin and commit."""

    @property
    @abc.abstractmethod
    def generation(self) -> int:
        """The number of the last committed transaction. It changes when another process writes."""

    @abc.abstractmethod
    def clock(self) -> GatewayTime:
        """Return the gateway's time at the last transaction."""

    @abc.abstractmethod
    def set_clock(self, moment: GatewayTime) -> None:
        """Store the gateway's time without any other effect."""

    @property
    @abc.abstractmethod
    def arrival(self) -> int:
        """The arrival of the log's last event."""

    @property
    @abc.abstractmethod
    def checkpointed(self) -> int:
        """Every checkpoint includes its device's events up to this arrival."""

    @abc.abstractmethod
    def devices(self, only: Ints) -> DeviceTable:
        """Return the states of those devices that were ever heard, by id."""

    @abc.abstractmethod
    def device_tests(self, only: Ints) -> DeviceTestTable:
        """Return the devices' checkpoints, by id."""

    @abc.abstractmethod
    def events(self, after: int) -> tuple[LogTable, GapTable]:
        """Return the events after an arrival."""

    @abc.abstractmethod
    def checkpoint(self, device_tests: DeviceTestTable, upto: int) -> None:
        """Replace the checkpoints of some devices. Checkpoints then include all events up to `upto`."""

    @abc.abstractmethod
    def totals(self) -> TallyTable:
        """Return the tallies summed over all buckets (bucket is 0)."""

    @abc.abstractmethod
    def find(self, questions: Questions) -> Found:
        """Look up what the screening needs from the store."""

    @abc.abstractmethod
    def take(self, ids: Sequence[int]) -> None:
        """Remove exposures whose frames are screened again, and subtract them from the counters."""

    @abc.abstractmethod
    def write(self, effects: Effects) -> Written:
        """Apply all effects."""

    @abc.abstractmethod
    def pardon(self, device: int, *, restore: bool, reason: str, who: str, moment: GatewayTime) -> AuditEntry | None:
        """Clear a device's exposure and write an audit entry; return None if the device is not exposed.

        Its tests and its token bucket start again. With `restore` its earlier reports count again, otherwise they stay withdrawn.
        """

    @abc.abstractmethod
    def release(self, device: int, *, reason: str, who: str, moment: GatewayTime) -> AuditEntry | None:
        """Void a device's batches of verified coins, drop its held reports and write an audit entry; return None if it has neither."""

    @property
    @abc.abstractmethod
    def era(self) -> bytes:
        """The era of verified coins, 8 bytes: zeros before the first."""

    @abc.abstractmethod
    def begin_era(self, now: int) -> int:
        """Begin a new era at `now` (Unix seconds): all batches are void. Return how many held reports are lost with them."""

    @property
    @abc.abstractmethod
    def mark(self) -> int:
        """The mark that tells this database from its copies; 0 before the first."""

    @abc.abstractmethod
    def renew_mark(self, mark: int) -> None:
        """Replace the mark."""

    @abc.abstractmethod
    def coins(self, only: Ints) -> CoinTable:
        """Return the verified coins of those devices that ever committed, by id."""

    @abc.abstractmethod
    def put_coins(self, table: CoinTable) -> None:
        """Insert or replace the verified coins of devices."""

    @abc.abstractmethod
    def void_coins(self, only: Ints) -> None:
        """Make all batches of these devices void: their held reports never count."""

    @abc.abstractmethod
    def due_devices(self, limit: int) -> Ints:
        """Return devices whose waiting reports can be challenged now."""

    @abc.abstractmethod
    def roots(self, device: Ints, first: Ints) -> npt.NDArray[np.uint8]:
        """Return the roots of distinct batches, given by device and first number, uint8[N, 32, 16]."""

    @abc.abstractmethod
    def put_roots(self, device: Ints, first: Ints, roots: npt.NDArray[np.uint8]) -> None:
        """Store the roots of new batches, uint8[N, 512]."""

    @abc.abstractmethod
    def remove_roots(self, device: Ints, first: Ints) -> None:
        """Delete the roots of batches."""

    @abc.abstractmethod
    def append_held(self, due: int, records: Records) -> None:
        """Store the held reports of this batch whose time bucket ends at `due` (Unix seconds)."""

    @abc.abstractmethod
    def held_records(self) -> list[tuple[int, Records]]:
        """Return all held reports that were not taken out yet, with the end of their time bucket (Unix seconds)."""

    @abc.abstractmethod
    def due_reports(self, now: int, latest: int) -> DueReports:
        """Return held reports whose time bucket has ended by `now` or ends after `latest` (Unix seconds): all, or many."""

    @abc.abstractmethod
    def remove_due_reports(self, reports: DueReports) -> None:
        """Delete these held reports."""

    @abc.abstractmethod
    def waiting(self, only: Ints) -> tuple[Ints, list[bytes]]:
        """Return those devices that have waiting reports, and these as packed `WAITING` records."""

    @abc.abstractmethod
    def put_waiting(self, device: Ints, reports: Ragged) -> None:
        """Replace the waiting reports of devices."""

    @abc.abstractmethod
    def aged(self, before: float, now: float) -> Aged:
        """Return the next batch of events at the beginning of the log that are older than `before` (Unix seconds)."""

    @abc.abstractmethod
    def bases(self, only: Ints) -> DeviceTestTable:
        """Return the devices' test states at the beginning of the log, for devices with pruned events."""

    @abc.abstractmethod
    def prune(self, aged: Aged, bases: DeviceTestTable) -> None:
        """Delete these events and keep their sums; `bases` are the test states at the new beginning of the log."""

    @abc.abstractmethod
    def roll_up(self, now: float) -> bool:
        """Roll up all events, and build some units that ended before a time (Unix seconds); return whether it built any."""

    @abc.abstractmethod
    def drop_fine(self, before: float) -> None:
        """Keep tallies and roll-ups by whole days before a time (Unix seconds), as far as days are built."""

    @abc.abstractmethod
    def forget_bucket_spans(self, before: int) -> None:
        """Delete the devices' number ranges in buckets before one: no report is put into those any more."""

    @abc.abstractmethod
    def give_back(self) -> bool:
        """Return some free pages to the file system; return whether more are left."""


class Archive(abc.ABC):
    """Reads the log, tallies, device states, exposures and counters of a fleet."""

    bucket_seconds: int
    """Size of the tallies' time buckets."""
    partitions: int
    """Number of partitions, a power of two. SQLite has 1."""

    @abc.abstractmethod
    def stores(self) -> Iterator[Store]:
        """Yield each partition's store, open until the next one is asked for. A store yields itself."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """The path, or the address without secrets, for messages."""

    @abc.abstractmethod
    def verify_place(self) -> None:
        """Raise `StoreReplaced` if the open database is no longer the one at `place`. Cheap."""

    @abc.abstractmethod
    def size_bytes(self) -> int:
        """Return the database's size on disk."""

    @abc.abstractmethod
    def fill(self, source: Archive) -> None:
        """Copy everything from another archive, which must not be written meanwhile. `StoreMismatch` unless this one is empty."""

    @abc.abstractmethod
    def registry(self) -> DirectoryVersion:
        """Return the newest state of the fleet's registry that a gateway has used."""

    @abc.abstractmethod
    def follow_registry(self, follow: Callable[[DirectoryVersion], DirectoryVersion]) -> None:
        """Replace that state by `follow(state)` in one transaction. If `follow` raises, nothing changes."""

    @abc.abstractmethod
    def generation(self) -> int:
        """Return the number of committed transactions. Caches are valid while it stays the same."""

    @abc.abstractmethod
    def tallies(
        self, profile: int, *, since: float | None = None, until: float | None = None, bucket_seconds: int | None = None
    ) -> TallyTable:
        """Return a profile's tallies per bucket of `bucket_seconds` (a multiple of the store's), or summed as bucket 0."""

    def device_tallies(
        self,
        profile: int,
        *,
        since: float | None = None,
        until: float | None = None,
        bucket_seconds: int | None = None,
        only: Ints | None = None,
    ) -> DeviceTallyTable:
        """Return the tallies of each device, or of some (ascending ids), from the roll-ups."""
        parts = self.device_tally_parts(profile, since=since, until=until, bucket_seconds=bucket_seconds, only=only)
        return DeviceTallyTable.join(list(parts))

    @abc.abstractmethod
    def device_tally_parts(
        self,
        profile: int,
        *,
        since: float | None = None,
        until: float | None = None,
        bucket_seconds: int | None = None,
        only: Ints | None = None,
    ) -> Iterator[DeviceTallyTable]:
        """Yield the same, some buckets at a time, so that few are in memory. Reads one snapshot, and delays no other query."""

    @abc.abstractmethod
    def withdrawn_devices(self, profile: int) -> int:
        """Return the number of withdrawn devices that reported under this profile."""

    @abc.abstractmethod
    def exposures(
        self,
        which: ExposureFilter | None = None,
        *,
        limit: int = 100,
        before: int | None = None,
        after: int | None = None,
        upto: int | None = None,
    ) -> list[Exposure]:
        """List exposures, newest first, with ids below `before`. With `after`: oldest first, ids above `after` and up to `upto`."""

    @abc.abstractmethod
    def audit(
        self, *, device: int | None = None, limit: int | None = None, before: int | None = None
    ) -> list[AuditEntry]:
        """List the audit trail, newest first, with ids below `before`."""

    @abc.abstractmethod
    def history(self) -> AbstractContextManager[Iterator[tuple[LogTable, GapTable]]]:
        """Open a snapshot and iterate over the log in pieces, in order within each partition."""

    @abc.abstractmethod
    def devices(self, only: Ints | None = None) -> DeviceTable:
        """Return the states of all devices ever heard, or of some, by id."""

    @abc.abstractmethod
    def newest_reports(self) -> NewestReports:
        """Return the newest reports of all devices ever heard, by id."""

    @abc.abstractmethod
    def first_received(self) -> float | None:
        """Return the time of the first report in Unix seconds; None before it."""

    @abc.abstractmethod
    def counts(self) -> Counts:
        """Return the totals."""

    @abc.abstractmethod
    def exposed(self) -> DeviceTable:
        """Return the states of the exposed devices, by id."""

    @abc.abstractmethod
    def device_reports(self, only: Ints | None = None) -> dict[int, dict[Verdict, int]]:
        """Return the number of logged reports per device and verdict, pruned ones included, without reading the log."""

    @abc.abstractmethod
    def forfeited_reports(self, only: Ints) -> dict[int, int]:
        """Return the number of accepted reports per device that a pardon left withdrawn."""

    @abc.abstractmethod
    def unanswered(self, only: Ints | None = None) -> dict[int, int]:
        """Return when unanswered audits and challenges began, Unix milliseconds, by device: of all devices, or of some."""

    @abc.abstractmethod
    def save_lost(self) -> Path | None:
        """If the open database file was moved or deleted, copy it into a new file and return that path.

        A deleted file vanishes when the last process closes it.
        """

    @abc.abstractmethod
    def check(self) -> None:
        """Raise `StoreCorrupt` for damage that shows without the fleet's keys."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the database; safe to call twice."""


class RollupCheck(abc.ABC):
    """Compares the roll-ups of a snapshot with its log."""

    @abc.abstractmethod
    def add(self, log: LogTable) -> None:
        """Add reports of the log."""

    @abc.abstractmethod
    def differences(self) -> Iterator[Difference]:
        """Yield sums that differ, once all reports were added."""


@dataclass(frozen=True)
class Inspection:
    """A snapshot of a store, for the recount."""

    kept: StoredState
    events: Callable[[], Iterator[tuple[LogTable, GapTable]]]
    """Iterates over the log in pieces, from its beginning on each call."""
    device_tests: Callable[[Ints], DeviceTestTable]
    """Checkpoints of some devices (ascending ids)."""
    bases: Callable[[Ints], DeviceTestTable]
    """Test states at the beginning of the log, of devices with pruned events."""
    rollups: RollupCheck


class Store(Archive):
    """An archive that can be written. On PostgreSQL it is one partition."""

    partition: int
    """This store's partition, from 0."""

    @abc.abstractmethod
    def read_coins(self, only: Ints) -> tuple[bytes, CoinTable]:
        """Return the era, and the coins of devices."""

    @abc.abstractmethod
    def has_due_coins(self, now: int, latest: int) -> bool:
        """Return whether a group of verified coins is to be challenged: see `Transaction.due_reports`."""

    @abc.abstractmethod
    def marks(self) -> frozenset[int]:
        """Return the marks that this database may have. A copy that was put back has another."""

    @abc.abstractmethod
    def next_mark(self, former: int | None) -> int:
        """Return a new mark, which is kept beside the database with the former one. Call it within a transaction that stores it."""

    @abc.abstractmethod
    def begin(self) -> AbstractContextManager[Transaction]:
        """Open the only write transaction: it commits on a clean exit and rolls back on an exception."""

    @abc.abstractmethod
    def inspect(self) -> AbstractContextManager[Inspection]:
        """Open a snapshot of everything stored."""
