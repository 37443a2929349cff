# SPDX-License-Identifier: MIT
"""The tables that the engine and the store exchange: columns as arrays, one entry per row.

The fields of a table are its columns, named here and nowhere else; the stores take names and order from them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, NewType, Self

import numpy as np
import numpy.typing as npt

from peel_gateway.model.coins import CoinTable
from peel_gateway.model.exposure import AuditEntry, Exposure
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.verdict import Verdict

__all__ = [
    "DEVICE_COLUMNS",
    "LOG_COLUMNS",
    "MOVING_COLUMNS",
    "NO_HOLES",
    "STATE_COLUMNS",
    "Aged",
    "BucketSpanTable",
    "Counts",
    "DeviceIds",
    "DeviceStates",
    "DeviceTable",
    "DeviceTallyTable",
    "DeviceTestTable",
    "Difference",
    "DirectoryVersion",
    "Effects",
    "Found",
    "GapTable",
    "LogTable",
    "NewestReports",
    "Positions",
    "PrunedTable",
    "Questions",
    "RollupTable",
    "Rows",
    "Slots",
    "StoredState",
    "TallyTable",
    "Written",
]

Ints = npt.NDArray[np.int64]

Objects = npt.NDArray[np.object_]

DeviceIds = NewType("DeviceIds", Ints)
"""Device ids, as in frames and in the store."""

Slots = NewType("Slots", Ints)
"""Positions of devices in the keyring; -1 for a device that it does not have."""

Rows = NewType("Rows", Ints)
"""Rows of a table of device states or test states in memory; `RowCache` assigns them to slots."""

Positions = NewType("Positions", Ints)
"""Positions in arrays with one entry per device: the senders of a batch, or the devices of a recount."""

NO_HOLES = b""
"""The holes of a device whose numbers simply go on."""


@dataclass
class LogTable:
    """Reports in the log as columns. Each authenticated report has one row, a device's number at most one.

    A held report has a second row, with verdict `ACCEPTED`, when its verified coin is opened.
    """

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
    """32 bits of the seal's tag: they tell this frame from any other with the same number. If a device makes two with the same bits,
    the second is still refused, as a redelivery."""
    bucket: Ints
    """Start of the time bucket that it is bucketed in, Unix seconds; 0 where none had room."""
    opened: Ints
    """1 for the second row of a held report: its number is used already."""
    arrival: Ints
    """Its place in the order in which reports and gaps of all devices were judged, from 1."""

    def __len__(self) -> int:
        return len(self.device)


LOG_COLUMNS: tuple[str, ...] = tuple(each.name for each in fields(LogTable))


@dataclass(frozen=True, kw_only=True)
class DeviceStates:
    """Device states as columns, one entry per device; zero, or no holes, for a device that never reported."""

    first_number: Ints
    """Reference of the token bucket: the first number seen, or what could be reached when the quota last changed."""
    first_tick: Ints
    """Gateway ticks (milliseconds that never run backwards) at that moment."""
    last_number: Ints
    """Largest number used."""
    settled: Ints
    """Numbers up to this one have been settled as present or missing."""
    low_water: Ints
    """Numbers up to this one were used or given up: what comes under them is refused."""
    holes: Objects
    """The numbers between the two that were not used yet, as `screening.numbers` packs them: bytes."""
    forgone: Ints
    """The count of numbers that were given up."""
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
    newest_bucket: Ints
    """Newest time bucket that holds reports of the device, Unix seconds."""
    bucket_lowest: Ints
    bucket_highest: Ints
    """The lowest and the highest number in it; those of older buckets are in `BucketSpanTable`."""
    bucketed_down_to: Ints
    """Oldest bucket that the device's last backlog reached down to, 0 where there was none."""
    arrival: Ints
    """The device's last event in the log."""
    accepted: Ints
    """Reports that were accepted, over the device's whole life."""
    held: Ints
    """Reports that wait until their verified coins are opened."""
    pardoned: Ints
    """The last event before the device's last pardon, 0 where there was none: what it did until then is not held against it."""
    forfeited: Ints
    """Reports up to this event stay withdrawn, whatever happens: a pardon has left them so."""

    @classmethod
    def new(cls, count: int) -> Self:
        """Return the states of devices that never reported."""
        columns: dict[str, Any] = {name: np.zeros(count, np.int64) for name in STATE_COLUMNS}
        return cls(**columns | {"holes": np.full(count, NO_HOLES, np.object_)})

    def columns(self) -> list[tuple[str, npt.NDArray[Any]]]:
        """Return the columns with their names, in order."""
        own = vars(self)
        return [(name, own[name]) for name in STATE_COLUMNS]

    def at(self, places: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> DeviceStates:
        """Return copies of the states at some places."""
        return DeviceStates(**{name: column[places] for name, column in self.columns()})

    def changed(self, **columns: npt.NDArray[Any]) -> DeviceStates:
        """Return the states with other columns in place of some: `dataclasses.replace` takes ten times as long."""
        assert columns.keys() <= vars(self).keys()
        states = DeviceStates.__new__(DeviceStates)
        vars(states).update(vars(self), **columns)
        return states

    def put(self, places: npt.NDArray[np.integer], states: DeviceStates) -> None:
        """Write states to some places, in place."""
        for name, column in self.columns():
            column[places] = getattr(states, name)

    def extended(self, count: int) -> DeviceStates:
        """Return these states and those of more devices that never reported."""
        new = DeviceStates.new(count)
        return DeviceStates(**{name: np.append(column, getattr(new, name)) for name, column in self.columns()})


STATE_COLUMNS: tuple[str, ...] = tuple(each.name for each in fields(DeviceStates))
"""The columns of a device's state, without its id."""


@dataclass(frozen=True, kw_only=True)
class DeviceTable(DeviceStates):
    """Devices with their states, as a store has them."""

    device: Ints

    def __len__(self) -> int:
        return len(self.device)


DEVICE_COLUMNS = ("device", *STATE_COLUMNS)

MOVING_COLUMNS = (
    "last_number", "settled", "last_received", "newest_bucket", "bucket_lowest", "bucket_highest", "arrival", "accepted",
    "held",
)  # fmt: skip
"""The columns that nearly every report changes; a store may keep them apart from the rest."""


@dataclass
class NewestReports:
    """The newest report and the exposure of each device that was ever heard: a part of `DeviceTable`, which is slow to read whole."""

    device: Ints
    last_number: Ints
    last_received: Ints
    cause: Ints
    held: Ints


@dataclass
class DeviceTestTable:
    """States of the statistics layer's bets, one row per device and profile, each as it was after one event of the device."""

    device: Ints
    profile: Ints
    arrival: Ints
    """The device's last event that the state knows; what came after it is in the log."""
    state: list[bytes]
    """Packed (`screening/device_tests.py`)."""

    def __len__(self) -> int:
        return len(self.device)


@dataclass
class TallyTable:
    """The sums behind the estimates, one row per profile, time bucket and attribute (or category)."""

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
class DeviceTallyTable:
    """The accepted reports of each device, one row per time bucket, device, attribute (or category) and state, in this order."""

    bucket: Ints
    """Start of the bucket, Unix seconds."""
    device: Ints
    index: Ints
    plus: Ints
    minus: Ints
    withdrawn: Ints
    """1 where they do not count (any more)."""

    def __len__(self) -> int:
        return len(self.device)

    @classmethod
    def join(cls, parts: Sequence[DeviceTallyTable]) -> DeviceTallyTable:
        """Put tables one behind the other."""
        if len(parts) == 1:
            return parts[0]
        names = [each.name for each in fields(cls)]
        none = np.zeros(0, np.int64)
        return cls(**{name: np.concatenate([none, *(getattr(part, name) for part in parts)]) for name in names})

    def at(self, rows: slice | npt.NDArray[np.bool_] | Ints) -> DeviceTallyTable:
        """Return some rows."""
        return DeviceTallyTable(**{name: column[rows] for name, column in vars(self).items()})


@dataclass
class RollupTable:
    """Accepted reports, one row per profile, unit of time, device, attribute (or category) and `forfeits`, in this order."""

    profile: Ints
    start: Ints
    """Start of the unit, Unix seconds; 0 for reports without a time."""
    device: Ints
    index: Ints
    forfeits: Ints
    """The number of earlier pardons that left the device's reports withdrawn for good. Rows below its present number do not count."""
    plus: Ints
    minus: Ints

    def __len__(self) -> int:
        return len(self.profile)

    def at(self, rows: slice | npt.NDArray[np.bool_] | Ints) -> RollupTable:
        """Return some rows."""
        return RollupTable(**{name: column[rows] for name, column in vars(self).items()})


@dataclass
class GapTable:
    """Numbers that were never delivered, with the attribute that each of them assigns."""

    device: Ints
    number: Ints
    profile: Ints
    index: Ints
    arrival: Ints
    """Its place in the same order as that of reports."""

    def __len__(self) -> int:
        return len(self.device)


@dataclass
class PrunedTable:
    """Reports that retention has deleted from the log, summed over time."""

    device: Ints
    profile: Ints
    verdict: Ints
    index: Ints
    """Attribute or category of accepted reports, -1 for all others."""
    forfeited: Ints
    """1 where a pardon has left them withdrawn for ever."""
    plus: Ints
    minus: Ints

    def __len__(self) -> int:
        return len(self.device)


@dataclass
class BucketSpanTable:
    """The numbers of reports that count, one row per device and time bucket, without each device's newest bucket."""

    device: Ints
    bucket: Ints
    lowest: Ints
    highest: Ints

    def __len__(self) -> int:
        return len(self.device)


@dataclass(frozen=True)
class Aged:
    """The events that retention drops together: all up to one."""

    arrival: int
    """The last event that goes."""
    log: LogTable
    gaps: GapTable


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The lookups in the store that `judge` needs for a batch."""

    digests: Sequence[bytes]
    """Pieces that may be held as exposures already."""
    span_device: Ints
    span_from: Ints
    span_upto: int
    """Devices whose bucketed reports are wanted, each from a bucket on, all up to one."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The answers to `Questions`."""

    digests: frozenset[bytes]
    """Those that are held."""
    bucket_spans: BucketSpanTable


@dataclass(frozen=True, kw_only=True)
class Effects:
    """All effects of one batch."""

    log: LogTable
    devices: DeviceTable
    """New states of the devices that changed."""
    lasting: npt.NDArray[np.bool_]
    """True for those that changed outside `MOVING_COLUMNS`."""
    device_tests: DeviceTestTable
    """New checkpoints: the former ones of these devices are of no use any more."""
    tallies: TallyTable
    """To be added."""
    bucket_spans: BucketSpanTable
    """To widen the stored rows by."""
    gaps: GapTable
    exposures: Sequence[Exposure]
    dropped: Mapping[Verdict, int]
    """Refused pieces that are counted and not held: their source had enough others in this batch."""
    withdrawn: Sequence[int]
    """Devices whose counted rows leave the estimates with this batch."""
    counts: Mapping[Verdict, int]
    """To be added to the verdict counters."""
    arrival: int
    """The last event of the log, this batch included."""
    moment: GatewayTime


@dataclass(frozen=True)
class Written:
    """Effects of a batch that only the store can compute."""

    dropped: int
    """Pieces that had to leave the quarantine."""
    left: TallyTable
    """The reports that left the estimates, in the withdrawn columns."""


@dataclass(frozen=True)
class Counts:
    """Totals over the life of the database."""

    verdicts: Mapping[Verdict, int]
    """Reports by verdict, each counted once."""
    withdrawn_past: int
    """Accepted rows that left the estimates when their device was exposed."""
    exposed_devices: int
    withdrawn_devices: int
    quarantined: int
    """Pieces held now."""
    quarantined_bytes: int
    dropped: Mapping[Verdict, int]
    """Pieces that left the quarantine for want of room; their verdicts stay counted."""
    gaps: int
    replayed: Mapping[Verdict, int]
    """Pieces that were screened again, by the verdict that they had before."""
    pardons: int
    generation: int
    """Transactions so far."""

    @property
    def exposed(self) -> int:
        """Reports that were refused because a layer objected to them, or to their device."""
        return sum(count for verdict, count in self.verdicts.items() if verdict.layer is not None)

    @property
    def poisoning_ratio(self) -> float:
        """Share of all distinct reports that were refused or withdrawn; 0 when there are none."""
        accepted = self.verdicts.get(Verdict.ACCEPTED, 0)
        total = accepted + self.exposed
        return (self.exposed + self.withdrawn_past) / total if total else 0.0


@dataclass(frozen=True, kw_only=True)
class StoredState:
    """Everything stored except the log and the test states; the recount compares it with the log."""

    devices: DeviceTable
    played: Ints
    """Ids of the devices that there are states of bets of, ascending."""
    pruned: PrunedTable
    tallies: TallyTable
    bucket_spans: BucketSpanTable
    refused: Mapping[tuple[int, int], int]
    """Logged reports that were not accepted, by device and verdict."""
    counters: Mapping[str, Mapping[int, int]]
    """By kind and key."""
    held: Mapping[int, tuple[int, int]]
    """Exposures that are held, and their bytes, by class."""
    held_verdicts: Mapping[int, int]
    coins: CoinTable
    """The verified coins of all devices."""
    committed: frozenset[tuple[int, int]]
    """Device and first number of each batch whose roots are stored."""
    waiting: tuple[Ints, Ints, npt.NDArray[np.bool_]]
    """Device and number of the reports that wait for coins, and whether each has a coin itself. Some of them may be void."""
    pardons: Sequence[AuditEntry]
    """Oldest first."""
    convictions: Sequence[Exposure]
    """Exposures by statistics, oldest first; these never leave."""
    arrival: int
    """The log's last event."""
    pruned_bucket: int
    """The newest bucket that retention has taken something from."""
    spans_from: int
    """The bucket that `bucket_spans` begins with."""
    fine_from: int
    day: int
    """Tallies of buckets before the first are kept by days of this many seconds."""


@dataclass(frozen=True)
class Difference:
    """A cached number that is not what the log says."""

    table: str
    key: str
    stored: object
    recounted: object

    def __str__(self) -> str:
        return f"{self.table} {self.key}: stored {self.stored}, the log says {self.recounted}"


class DirectoryVersion(NamedTuple):
    """A state of `devices.jsonl`. All zero before a gateway has used one."""

    revision: int = 0
    """The number of changes to the file, counted from 1."""
    mark: int = 0
    """32 random bits that belong to that change."""
    last_id: int = 0
    """The highest device id that was given out until then."""
