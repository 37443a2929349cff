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
from peel_gateway.model.audit import AuditEntry
from peel_gateway.model.exposure import Exposure, ExposureFilter
from peel_gateway.model.moment import Moment
from peel_gateway.model.registry_state import RegistryState
from peel_gateway.model.tables import (
    Aged,
    ConductTable,
    Counts,
    DeviceTable,
    DeviceTallyTable,
    Effects,
    Found,
    GapTable,
    Kept,
    LogTable,
    Questions,
    TallyTable,
    Written,
)
from peel_gateway.model.verdict import Verdict

__all__ = [
    "Archive",
    "Inspection",
    "Lease",
    "Leases",
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
    """The store could not do what was asked; nothing was applied. Waiting may mend it, unless it is a `StoreUnusable`."""

    exit_code = Exit.MISSING


class StoreUnusable(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """No waiting mends it: somebody has to do something about the database, or about the settings."""

    exit_code = Exit.STORE


class StoreFull(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """No room left on the device, or a size limit was reached. Free space, then retry."""


class StoreLocked(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """Another process holds the database for longer than the timeout. Retry."""


class StoreCorrupt(StoreUnusable):
    """The file is damaged, or is not a Peel database. It is left untouched."""


class StoreTooNew(StoreUnusable):
    """A newer version of the gateway made or upgraded the database."""


class StoreTooOld(StoreUnusable):
    """An older version of the gateway made the database: `peel gateway upgrade`."""


class StoreMismatch(StoreUnusable):
    """The file was made with other settings than the ones asked for."""


class StoreFailed(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """The disk, or the file system, reported an error."""


class StoreReplaced(StoreFailed):
    """The database file was moved, replaced or deleted while it is open. Retry: the same file may come back."""


class StoreAway(StoreFailed):
    """The server that has the database cannot be reached. Retry: it may come back."""


class StoreRejected(StoreError):  # noqa: N818 - the name says what is wrong with the data
    """The database rejected the data: a violated constraint, a value out of range. A retry with the same data fails again."""


class StoreLost(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """Somebody else owns this partition now: nothing was applied, and nothing more may be written or acknowledged."""


class Transaction(abc.ABC):
    """What the engine may ask and do between begin and commit."""

    @property
    @abc.abstractmethod
    def generation(self) -> int:
        """Number of the last committed transaction; tells whether somebody else has written since."""

    @abc.abstractmethod
    def clock(self) -> Moment:
        """Return the gateway's time at the last transaction."""

    @abc.abstractmethod
    def set_clock(self, moment: Moment) -> None:
        """Note the gateway's time, where there is nothing else to write."""

    @property
    @abc.abstractmethod
    def arrival(self) -> int:
        """The last event of the log."""

    @property
    @abc.abstractmethod
    def checkpointed(self) -> int:
        """All checkpoints know the events up to this one, as far as they are about their device."""

    @abc.abstractmethod
    def devices(self, only: Ints) -> DeviceTable:
        """Return the states of some devices, as far as they were ever heard, by id."""

    @abc.abstractmethod
    def conduct(self, only: Ints) -> ConductTable:
        """Return the checkpoints of the bets on some devices, by id."""

    @abc.abstractmethod
    def events(self, after: int) -> tuple[LogTable, GapTable]:
        """Return what was logged after an event."""

    @abc.abstractmethod
    def checkpoint(self, conduct: ConductTable, upto: int) -> None:
        """Replace the checkpoints of some devices; with them all events up to one are known."""

    @abc.abstractmethod
    def totals(self) -> TallyTable:
        """Return the tallies summed over all buckets (bucket is 0)."""

    @abc.abstractmethod
    def find(self, questions: Questions) -> Found:
        """Look up what a plan needs to know of the log."""

    @abc.abstractmethod
    def take(self, ids: Sequence[int]) -> None:
        """Remove exposures (to screen their frames again) and take them off the counters."""

    @abc.abstractmethod
    def write(self, effects: Effects) -> Written:
        """Apply all effects."""

    @abc.abstractmethod
    def pardon(self, device: int, *, restore: bool, reason: str, who: str, moment: Moment) -> AuditEntry | None:
        """Take back what exposed a device and write that down; None where nothing has.

        Its bets and its token bucket begin anew. What it had counted before comes back, or stays withdrawn for ever.
        """

    @abc.abstractmethod
    def aged(self, before: float, now: float) -> Aged:
        """Find the events at the beginning of the log that are older than `before` (Unix seconds), some at a time."""

    @abc.abstractmethod
    def bases(self, only: Ints) -> ConductTable:
        """Return the states of bets where the log begins, for those of some devices that retention has taken something from."""

    @abc.abstractmethod
    def prune(self, aged: Aged, bases: ConductTable) -> None:
        """Drop these events and keep their sums; `bases` are the states of bets where the log begins from now on."""

    @abc.abstractmethod
    def forget_filed(self, before: int) -> None:
        """Forget which numbers devices have in buckets before one: nothing is filed there any more."""

    @abc.abstractmethod
    def give_back(self) -> bool:
        """Give some of the room that became free back to the file system; return whether there is more."""


class Archive(abc.ABC):
    """Logs, tallies, device states, exposures and counters of a fleet."""

    bucket_seconds: int
    """The finest time bucket of the tallies."""
    partitions: int
    """How many partitions there are: a power of two."""

    @abc.abstractmethod
    def stores(self) -> Iterator[Store]:
        """Yield each partition, to be written too, open for as long as it is looked at; of a store, itself."""

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """Where it is, for people: a path, or an address without secrets."""

    @abc.abstractmethod
    def verify_place(self) -> None:
        """Raise `StoreReplaced` where what is committed would not be found again under `place`. Cheap."""

    @abc.abstractmethod
    def size_bytes(self) -> int:
        """Return how much room it takes where it is."""

    @abc.abstractmethod
    def fill(self, source: Archive) -> None:
        """Take everything from another archive, which nobody may write meanwhile. `StoreMismatch` where this one is not new."""

    @abc.abstractmethod
    def registry(self) -> RegistryState:
        """Return the newest state of the fleet's registry that a gateway has used."""

    @abc.abstractmethod
    def follow_registry(self, follow: Callable[[RegistryState], RegistryState]) -> None:
        """Replace that state by what `follow` returns for it, in one transaction; what `follow` raises changes nothing."""

    @abc.abstractmethod
    def generation(self) -> int:
        """Return the number of committed transactions: what was read before the last one may have changed."""

    @abc.abstractmethod
    def tallies(
        self, profile: int, *, since: float | None = None, until: float | None = None, bucket_seconds: int | None = None
    ) -> TallyTable:
        """Return a profile's tallies, per bucket of `bucket_seconds` (a multiple of the store's), or in one (bucket 0)."""

    @abc.abstractmethod
    def device_tallies(
        self, profile: int, *, since: float | None = None, until: float | None = None, bucket_seconds: int | None = None
    ) -> DeviceTallyTable:
        """Return the same for each device, computed from the log: it takes as long as reading the log does, and holds up nobody.

        What retention has dropped is of an unknown device, but in the sum over all time.
        """

    @abc.abstractmethod
    def withdrawn_devices(self, profile: int) -> int:
        """Return how many exposed devices had reports counted under this profile."""

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
        """List exposures, newest first; `before` continues below an id. With `after` oldest first, above that id, `upto` another."""

    @abc.abstractmethod
    def audit(
        self, *, device: int | None = None, limit: int | None = None, before: int | None = None
    ) -> list[AuditEntry]:
        """List the audit trail, newest first; `before` continues below an id."""

    @abc.abstractmethod
    def gaps(self) -> GapTable:
        """Return the gaps in the log, by device and number."""

    @abc.abstractmethod
    def log(self, device: int | None = None) -> LogTable:
        """Return the reports in the log of a device, or of all, by device and number. For small logs: it takes them all into memory."""

    @abc.abstractmethod
    def history(self) -> AbstractContextManager[Iterator[tuple[LogTable, GapTable]]]:
        """Show the events of the log in order, some at a time and partition by partition: all as of one moment."""

    @abc.abstractmethod
    def devices(self, only: Ints | None = None) -> DeviceTable:
        """Return the states of all devices ever heard, or of some of them, by id."""

    @abc.abstractmethod
    def first_received(self) -> float | None:
        """Return when the first report came, in Unix seconds; None before there is one."""

    @abc.abstractmethod
    def counts(self) -> Counts:
        """Return the totals."""

    @abc.abstractmethod
    def exposed(self) -> DeviceTable:
        """Return the states of the devices that are exposed, by id."""

    @abc.abstractmethod
    def device_reports(self, only: Ints | None = None) -> dict[int, dict[Verdict, int]]:
        """Return the number of logged reports per verdict, of all devices or of some, pruned ones included, without reading the log."""

    @abc.abstractmethod
    def forfeited_reports(self, only: Ints) -> dict[int, int]:
        """Return how many accepted reports of some devices count no more, because a pardon left them withdrawn."""

    @abc.abstractmethod
    def save_lost(self) -> Path | None:
        """Copy everything into a new file if the database file has lost its name, and return that file.

        A deleted file vanishes when the last process closes it.
        """

    @abc.abstractmethod
    def check(self) -> None:
        """Verify what can be verified without the fleet's keys; `StoreCorrupt` says what is wrong."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release it; safe to call twice."""


@dataclass(frozen=True)
class Inspection:
    """All that a store has, as of one moment."""

    kept: Kept
    events: Callable[[], Iterator[tuple[LogTable, GapTable]]]
    """The log in order, some events at a time; from its beginning each time that it is called."""
    conduct: Callable[[Ints], ConductTable]
    """The states of the bets on some devices (ascending)."""
    bases: Callable[[Ints], ConductTable]
    """The same where the log begins, of those that retention has taken something from."""


class Store(Archive):
    """One partition of an archive, with the right to write."""

    partition: int
    """Which one, from 0."""

    @abc.abstractmethod
    def begin(self) -> AbstractContextManager[Transaction]:
        """Open the partition's one write transaction: commits on a clean exit, rolls back on an exception."""

    @abc.abstractmethod
    def inspect(self) -> AbstractContextManager[Inspection]:
        """Show all that is kept."""


@dataclass(frozen=True)
class Lease:
    """A partition's owner, as of the moment when it was asked for."""

    partition: int
    owner: str
    """Empty where there is none. No two processes may have the same name, nor one process after its restart."""
    epoch: int
    """Grows with every owner: a store opened with an older one writes nothing any more."""
    seconds: float
    """How long it lasts; negative where it has run out."""


class Leases(abc.ABC):
    """The leases of an archive. StoreError where something failed, and then nothing has changed."""

    @abc.abstractmethod
    def all(self) -> list[Lease]:
        """All partitions, by number."""

    @abc.abstractmethod
    def acquire(self, partition: int, owner: str, seconds: float) -> Lease | None:
        """Become a partition's owner where nobody is, or whoever was has let it run out; None where somebody is."""

    @abc.abstractmethod
    def renew(self, lease: Lease, seconds: float) -> bool:
        """Let a lease last from now on; False where the partition has another owner."""

    @abc.abstractmethod
    def release(self, lease: Lease) -> None:
        """Give a partition back; nothing where it has another owner."""

    @abc.abstractmethod
    def attend(self, owner: str, seconds: float) -> int:
        """Say that a worker is there, for a while, whether it owns partitions or not; return how many are."""

    @abc.abstractmethod
    def depart(self, owner: str) -> None:
        """Say that a worker is no longer there."""

    @abc.abstractmethod
    def workers(self) -> dict[str, float]:
        """Workers that are there, and the seconds for which that is known."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release the connection; it is made again when it is needed."""
