# SPDX-License-Identifier: MIT
"""The state of verified coins (SPEC section 13): batches of numbers, and reports that are held until their coins are opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from peel_core.coins import BATCH_NUMBERS

__all__ = [
    "GROUPED",
    "NO_COIN",
    "UNGROUPED",
    "UNOPENED",
    "CoinBatch",
    "CoinDevice",
    "CoinEffects",
    "CoinWaits",
    "HeldReports",
]

Ints = npt.NDArray[np.int64]

UNGROUPED = 0
"""The challenge of a report that is in no group yet."""
GROUPED = -1
"""The challenge of a report whose group is challenged in several parts, before its own part."""
UNOPENED = -1
"""The outcome of a coin that is not opened yet."""
NO_COIN = 255
"""In place of the masked answer: a report without a reading has no coin."""


@dataclass(frozen=True)
class CoinBatch:
    """A committed batch of numbers."""

    first: int
    audit: int
    """Bit j is set if its number j, from 0, is to be revealed."""
    approved: bool
    """Whether it has passed its audit."""

    @property
    def last(self) -> int:
        """Its last number."""
        return self.first + BATCH_NUMBERS - 1

    def has_revealed(self, number: int) -> bool:
        """Return whether a number of the batch is one of the audited."""
        return bool(self.audit >> (number - self.first) & 1)

    @cached_property
    def revealed(self) -> list[int]:
        """Its audited numbers."""
        return [self.first + place for place in range(BATCH_NUMBERS) if self.audit >> place & 1]


@dataclass
class CoinDevice:
    """The coins of one device."""

    device: int
    committed: int = 0
    """The highest committed number."""
    approved: int = 0
    """The first number of the newest batch that has passed its audit, or is void."""
    reported: int = 0
    """The highest number that has a stored report or is void."""
    challenges: int = 0
    """The number of challenges so far."""
    opened: int = 0
    """Of these, the answered ones."""
    asked: int = 0
    """When the open audit or challenge began, Unix milliseconds; 0 without one."""
    due: int = 0
    """When the next group may be challenged, Unix seconds; 0 without one, or while something is open."""
    void: int = 0
    """The count of numbers in batches that were made void."""
    seed: bytes = b""
    """The seed of the open challenge; empty without one."""
    batches: list[CoinBatch] = field(default_factory=list)
    """In ascending order."""

    @property
    def waiting(self) -> CoinBatch | None:
        """The batch that waits for its audit, or None."""
        return self.batches[-1] if self.batches and not self.batches[-1].approved else None

    @property
    def free(self) -> int:
        """The count of numbers that may have a report and have none yet."""
        return sum(
            max(0, each.last - max(self.reported, each.first - 1))
            - sum(number > self.reported for number in each.revealed)
            for each in self.batches
        )

    def make_void(self) -> None:
        """Make all batches void: the device's unopened reports never count."""
        self.void += sum(max(0, each.last - max(self.reported, each.first - 1)) for each in self.batches)
        self.approved = self.reported = max(self.reported, self.committed)
        self.opened = self.challenges
        self.batches, self.seed, self.asked, self.due = [], b"", 0, 0

    def batch_of(self, number: int) -> CoinBatch | None:
        """Return the batch of a number."""
        return next((batch for batch in reversed(self.batches) if batch.first <= number <= batch.last), None)


@dataclass
class HeldReports:
    """Reports whose coins are not opened yet, as columns."""

    device: Ints
    number: Ints
    profile: Ints
    """Profile id."""
    unit: Ints
    """The unit that the number assigns."""
    masked: Ints
    """The masked answer, or `NO_COIN`."""
    received: Ints
    """Unix milliseconds."""
    body: Ints
    """32 bits of the seal's tag, as in the log."""
    challenge: Ints
    """The challenge that asks for the coin, `UNGROUPED` or `GROUPED`."""
    outcome: Ints
    """The opened outcome, or `UNOPENED`."""

    def __len__(self) -> int:
        return len(self.device)

    def at(self, rows: npt.NDArray[np.bool_] | Ints | slice) -> HeldReports:
        """Return some rows."""
        return HeldReports(**{name: column[rows] for name, column in vars(self).items()})

    @classmethod
    def nothing(cls) -> HeldReports:
        """No reports."""
        return cls(*(np.zeros(0, np.int64) for _ in fields(cls)))

    @classmethod
    def join(cls, parts: Sequence[HeldReports]) -> HeldReports:
        """Put tables one behind the other."""
        names = [each.name for each in fields(cls)]
        return cls(*(np.concatenate([np.zeros(0, np.int64), *(getattr(p, name) for p in parts)]) for name in names))


@dataclass(frozen=True)
class CoinWaits:
    """The devices that the gateway waits for."""

    held: dict[int, int]
    """The number of held reports, by device."""
    newest: dict[int, int]
    """When the newest of them was received, Unix milliseconds, by device."""
    asked: dict[int, int]
    """When an unanswered audit or challenge began, Unix milliseconds, by device."""


@dataclass
class CoinEffects:
    """Changes of the coins in one transaction."""

    devices: list[CoinDevice] = field(default_factory=list)
    """To be replaced."""
    commitments: list[tuple[int, int, bytes]] = field(default_factory=list)
    """New batches: device, first number, roots."""
    closed: list[tuple[int, int]] = field(default_factory=list)
    """Batches that are not needed any more: device, first number."""
    held: list[HeldReports] = field(default_factory=list)
    """New reports."""
    changed: list[HeldReports] = field(default_factory=list)
    """Reports with another challenge or outcome."""
    counted: list[HeldReports] = field(default_factory=list)
    """Reports that leave, because they count now, or never will."""
