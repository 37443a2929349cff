# SPDX-License-Identifier: MIT
"""The store: what the gateway keeps, behind an interface with few methods.

A batch is one transaction: either all its log rows, tallies, device states, exposures and counters are there, or none.
Reading needs no transaction. `sqlite_store` is the implementation.
"""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_gateway.screening.clock import Moment
from peel_gateway.screening.verdict import BLAMED, LOGGED, Verdict

__all__ = [
    "EVIDENCE_COLUMNS",
    "BatchWrite",
    "Counts",
    "DeviceTable",
    "Difference",
    "EvidenceTable",
    "Exposure",
    "ExposureFilter",
    "GapTable",
    "LogTable",
    "Store",
    "StoreCorrupt",
    "StoreError",
    "StoreFailed",
    "StoreFull",
    "StoreLocked",
    "StoreMismatch",
    "StoreTooNew",
    "TallyTable",
    "Transaction",
    "Written",
]

Ints = npt.NDArray[np.int64]

EVIDENCE_COLUMNS = ("plus", "minus", "agree", "disagree", "fresh", "gaps")
"""What is counted per device and attribute for the statistics layer; `eprocess` says what each is for."""


class StoreError(Exception):
    """The store could not do what was asked; nothing was applied."""


class StoreFull(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """No room left on the device, or a size limit was reached. Free space, then retry."""


class StoreLocked(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """Another process holds the database for longer than the timeout. Retry."""


class StoreCorrupt(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """The file is damaged, or is not a Peel database. It is left untouched."""


class StoreTooNew(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """The file was written by a newer version of the gateway."""


class StoreMismatch(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """The file was made with other settings than the ones asked for."""


class StoreFailed(StoreError):  # noqa: N818 - the name says what is wrong with the store
    """The disk, or the file system, reported an error."""


@dataclass
class LogTable:
    """Log rows as columns: one row per authenticated report, keyed by device and number."""

    device: Ints
    number: Ints
    profile: Ints
    """Profile id."""
    received: Ints
    """Unix time in milliseconds."""
    verdict: Ints
    index: Ints
    """Decoded attribute or category; -1 where nothing could be decoded."""
    sign: Ints
    cohort: Ints
    """The cohort's sign for the attribute (Harmony) before this batch: -1, 0, +1."""
    late: Ints
    """1 when the number had already been settled as a gap."""
    body: Ints
    """64 bits that tell this frame from any other with the same number."""

    def __len__(self) -> int:
        return len(self.device)


@dataclass
class DeviceTable:
    """Device states as columns."""

    device: Ints
    first_number: Ints
    """Reference of the token bucket: the first number seen, or what could be reached when the quota last changed."""
    first_tick: Ints
    """Gateway ticks (milliseconds that never run backwards) at that moment."""
    last_number: Ints
    """Largest number in the log."""
    settled: Ints
    """Numbers up to this one have been settled as present or missing."""
    low_water: Ints
    """Numbers up to this one have been pruned from the log."""
    sealed: Ints
    """1 once a sealed report has been verified."""
    cause: Ints
    """Verdict that exposed the device first, 0 while it is not exposed."""
    cause_time: Ints
    """Unix milliseconds of the exposure."""
    withdrawn: Ints
    """1 when its reports do not count (any more)."""
    last_received: Ints
    """Unix milliseconds of the last logged report."""
    first_received: Ints
    quota: Ints
    """Numbers per period that the bucket has been filled by since; 0 where nobody noted it."""
    period: Ints
    """Seconds."""

    def __len__(self) -> int:
        return len(self.device)


@dataclass
class EvidenceTable:
    """Counts of the statistics layer, one row per device, profile and attribute (or category)."""

    device: Ints
    profile: Ints
    index: Ints
    counts: Ints
    """int64[rows, len(EVIDENCE_COLUMNS)]."""

    def __len__(self) -> int:
        return len(self.device)


@dataclass
class TallyTable:
    """What estimates are made of, one row per profile, time bucket and attribute (or category)."""

    profile: Ints
    bucket: Ints
    """Start of the bucket, Unix seconds."""
    index: Ints
    plus: Ints
    minus: Ints
    withdrawn_plus: Ints
    withdrawn_minus: Ints

    def __len__(self) -> int:
        return len(self.profile)


@dataclass
class GapTable:
    """Numbers that were never delivered, with the attribute that each of them assigns."""

    device: Ints
    number: Ints
    profile: Ints
    index: Ints

    def __len__(self) -> int:
        return len(self.device)


@dataclass(frozen=True)
class Exposure:
    """One exposed or quarantined piece, with its evidence."""

    verdict: Verdict
    device: int
    number: int
    profile: int
    received: float
    """Unix seconds."""
    topic: str
    raw: bytes
    """The frame, or the faulty rest of a payload; empty for an exposure by statistics."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """What the layer saw: residual, expected and reconstructed attribute, rule, wealth, ..."""
    id: int = 0
    """Given by the store."""

    @property
    def blamed(self) -> bool:
        """Whether the device itself must have caused it."""
        return self.verdict in BLAMED

    @property
    def digest(self) -> bytes | None:
        """Tells this verdict on these bytes from all others; None for reports that the log tells apart."""
        if self.verdict in LOGGED:
            return None
        return hashlib.blake2b(bytes([self.verdict]) + self.raw, digest_size=16).digest()


@dataclass(frozen=True, kw_only=True)
class ExposureFilter:
    """Which exposures to list; unset fields match all."""

    verdicts: frozenset[Verdict] = frozenset()
    device: int | None = None
    since: float | None = None
    until: float | None = None
    blamed: bool | None = None


@dataclass
class BatchWrite:
    """All effects of one batch."""

    log: LogTable
    devices: DeviceTable
    """New states of the devices that changed."""
    evidence: EvidenceTable
    """To be added."""
    tallies: TallyTable
    """To be added."""
    gaps: GapTable
    exposures: Sequence[Exposure]
    withdrawn: Sequence[int]
    """Devices whose counted rows leave the estimates with this batch."""
    counts: Mapping[Verdict, int]
    """To be added to the verdict counters."""
    moment: Moment


@dataclass(frozen=True)
class Written:
    """What a batch did to the store beyond what it said."""

    dropped: int
    """Pieces that had to leave the quarantine."""
    left: TallyTable
    """What left the estimates, in the withdrawn columns."""


@dataclass(frozen=True)
class Counts:
    """Totals over the life of the database."""

    verdicts: Mapping[Verdict, int]
    """Reports by verdict, each counted once."""
    withdrawn_past: int
    """Accepted rows that left the estimates when their device was exposed."""
    withdrawn_devices: int
    quarantined: int
    """Pieces held now."""
    quarantined_bytes: int
    dropped: Mapping[Verdict, int]
    """Pieces that left the quarantine for want of room; their verdicts stay counted."""
    gaps: int
    generation: int
    """Transactions so far."""

    @property
    def exposed(self) -> int:
        """Reports that were refused because a layer objected to them, or to their device."""
        harmless = (Verdict.ACCEPTED, Verdict.REDELIVERED)
        return sum(count for verdict, count in self.verdicts.items() if verdict not in harmless)

    @property
    def poisoning_ratio(self) -> float:
        """Share of all distinct reports that were refused or withdrawn; 0 when there are none."""
        accepted = self.verdicts.get(Verdict.ACCEPTED, 0)
        total = accepted + self.exposed
        return (self.exposed + self.withdrawn_past) / total if total else 0.0


@dataclass(frozen=True)
class Difference:
    """A cached number that is not what the log says."""

    table: str
    key: str
    stored: object
    recounted: object

    def __str__(self) -> str:
        return f"{self.table} {self.key}: stored {self.stored}, the log says {self.recounted}"


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

    @abc.abstractmethod
    def devices(self) -> DeviceTable:
        """Return the states of all devices ever heard."""

    @abc.abstractmethod
    def evidence(self) -> EvidenceTable:
        """Return all counts of the statistics layer."""

    @abc.abstractmethod
    def totals(self) -> TallyTable:
        """Return the tallies summed over all buckets (bucket is 0)."""

    @abc.abstractmethod
    def bodies(self, devices: Ints, numbers: Ints) -> tuple[npt.NDArray[np.bool_], Ints]:
        """Look up log rows: which of them exist, and their bodies (0 where they do not)."""

    @abc.abstractmethod
    def numbers(self, devices: Ints, above: Ints, upto: Ints) -> tuple[Ints, Ints]:
        """Return (device, number) of the log rows with above < number <= upto, per device."""

    @abc.abstractmethod
    def known_digests(self, digests: Sequence[bytes]) -> set[bytes]:
        """Return those digests whose pieces are held as exposures already."""

    @abc.abstractmethod
    def take(self, ids: Sequence[int]) -> None:
        """Remove exposures (to screen their frames again) and take them off the counters."""

    @abc.abstractmethod
    def write(self, batch: BatchWrite) -> Written:
        """Apply all effects."""


class Store(abc.ABC):
    """A place for log, tallies, device states, exposures and counters."""

    bucket_seconds: int

    @abc.abstractmethod
    def begin(self) -> AbstractContextManager[Transaction]:
        """Open the one write transaction: commits on a clean exit, rolls back on an exception."""

    @abc.abstractmethod
    def tallies(
        self, profile: int, *, since: float | None = None, until: float | None = None, bucket_seconds: int | None = None
    ) -> TallyTable:
        """Return a profile's tallies, per bucket of `bucket_seconds` (a multiple of the store's), or in one (bucket 0)."""

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
    def gaps(self) -> GapTable:
        """Return the gaps that are still in the log."""

    @abc.abstractmethod
    def devices(self) -> DeviceTable:
        """Return the states of all devices ever heard."""

    @abc.abstractmethod
    def evidence(self) -> EvidenceTable:
        """Return all counts of the statistics layer."""

    @abc.abstractmethod
    def counts(self) -> Counts:
        """Return the totals."""

    @abc.abstractmethod
    def device_reports(self) -> dict[int, dict[Verdict, int]]:
        """Return the number of logged reports per device and verdict, pruned ones included, without reading the log."""

    @abc.abstractmethod
    def log_size(self) -> tuple[int, int]:
        """Count (reports, devices) in the log itself, pruned ones included."""

    @abc.abstractmethod
    def prune(self, before: float) -> int:
        """Drop log rows older than `before` (Unix seconds), keep their sums; return how many went."""

    @abc.abstractmethod
    def recount_rows(self, assigning: Sequence[int]) -> list[Difference]:
        """Compare every cached number with the log and return what differs.

        `assigning` are the ids of the profiles whose numbers assign attributes: every settled number of theirs is in the log or a gap.
        """

    @abc.abstractmethod
    def check(self) -> None:
        """Verify the file's integrity; `StoreCorrupt` says what is wrong."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release the store; safe to call twice."""
