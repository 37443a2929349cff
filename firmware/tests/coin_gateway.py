# SPDX-License-Identifier: MIT
"""An honest gateway for one device with verified coins, and a link that connects both without a broker."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from peel_core import primitives
from peel_core.coin_receipts import CoinReceipt, write_coin_receipt
from peel_core.coins import (
    AUDIT_ANSWER,
    BATCH_NUMBERS,
    COMMITMENT,
    OPENING,
    audit_many,
    challenge_indices,
    challenge_seed,
    coin_names,
    coin_roots,
    open_message,
    opening_bytes,
    verify_openings,
)
from peel_core.frame import NUMBER, frame_bytes
from peel_core.receipts import Receipt
from peel_device.app import App
from peel_device.config import Config
from peel_device.outbox import Outbox

KEEP, CHANGE, SYMBOLS, TABLE = 8, 3, 2, 11
"""The coins of the bundle in host_board.py."""
HEADER = 16
TAG = 8
CHALLENGE_KEY = bytes(range(16))


def runs_of(numbers: list[int]) -> tuple[tuple[int, int], ...]:
    """Return the runs of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return tuple(runs)


@dataclass
class Row:
    """A committed batch."""

    roots: np.ndarray[Any, Any]
    audit: int
    approved: bool = False
    void: bool = False

    def numbers(self, first: int, *, revealed: bool) -> list[int]:
        """Return the audited numbers, or the others."""
        return [first + place for place in range(BATCH_NUMBERS) if bool(self.audit >> place & 1) == revealed]


@dataclass
class Asked:
    """A challenge."""

    count: int
    seed: bytes
    numbers: list[int]
    opened: dict[int, int] = field(default_factory=dict)


class Gateway:
    """Audits, challenges and counts the reports of one device, as SPEC section 13.5 says. Asserts that the device is honest."""

    def __init__(self, settings: Config, era: int = 1 << 32) -> None:
        assert settings.profile.audits is not None
        self.config = settings
        self.audits = settings.profile.audits
        self.era = era
        self.batches: dict[int, Row] = {}
        self.reports: dict[int, int] = {}
        """The masked answers, by number."""
        self.counted: dict[int, int] = {}
        """The symbols of opened reports, by number."""
        self.unchallenged: list[int] = []
        self.asked: Asked | None = None
        self.opened = 0
        self.dropped = 0
        """All batches up to this number were dropped."""
        self.frames: dict[tuple[int, int], bytes] = {}
        """All frames, by type and number. The device never sends two different ones."""
        self.refused: list[int] = []
        """Reports under numbers that no approved batch has."""
        profile = settings.profile
        self._codewords = {
            primitives.codeword(profile.seed, profile.width, column, minus): 1 - minus
            for column in range(profile.columns)
            for minus in (0, 1)
        }

    # Messages

    def take(self, payload: bytes) -> None:
        """Take the frames of a payload."""
        sizes = {
            0: frame_bytes(self.config.profile.width),
            COMMITMENT: HEADER + 512 + TAG,
            AUDIT_ANSWER: HEADER + 16 * self.audits + TAG,
            OPENING: HEADER + opening_bytes(TABLE) + TAG,
        }
        assert len(payload) <= 1400
        while payload:
            kind, size = payload[1], sizes[payload[1]]
            frame, payload = payload[:size], payload[size:]
            number = NUMBER.of(frame)
            assert self.frames.setdefault((kind, number), frame) == frame, "the device changed its mind"
            self._take(kind, number, frame)

    def _take(self, kind: int, number: int, frame: bytes) -> None:
        if kind == 0:
            self._report(number, frame)
            return
        found, body = open_message(self.config.coin_key.reveal(), len(frame) - HEADER - TAG, frame)
        assert found == kind
        if kind == COMMITMENT:
            self._commit(number, frame, body)
        elif kind == AUDIT_ANSWER:
            self._answer(number, body)
        else:
            self._open(number, body)

    def _commit(self, first: int, frame: bytes, body: bytes) -> None:
        if first in self.batches:
            return
        assert first >= max((known + BATCH_NUMBERS for known in self.batches), default=1)
        assert self.waiting is None, "one batch at a time"
        roots = np.frombuffer(body, np.uint8).reshape(BATCH_NUMBERS, 16)
        header = np.frombuffer(frame[:HEADER], np.uint8).reshape(1, HEADER)
        audit = int(audit_many(CHALLENGE_KEY, header, roots.reshape(1, 512), self.audits)[0])
        self.batches[first] = Row(roots, audit)

    def _answer(self, first: int, body: bytes) -> None:
        row = self.batches[first]
        if row.void:
            return
        revealed = row.numbers(first, revealed=True)
        seeds = np.frombuffer(body, np.uint8).reshape(self.audits, 16)
        places = np.array(revealed) - first
        assert not [number for number in revealed if (0, number) in self.frames], "the seed of a reported number"
        assert np.array_equal(coin_roots(self.names(revealed), seeds), row.roots[places])
        row.approved = True

    def _report(self, number: int, frame: bytes) -> None:
        if number in self.reports:
            return
        row = self.row_of(number)
        if row is None or not row.approved or row.void:
            self.refused.append(number)
            return
        assert not row.audit >> (number - self.first_of(number)) & 1, "a revealed number"
        _, trits = primitives.frame_open(self.config.seal_key.reveal(), self.config.profile.width, frame)
        self.reports[number] = self._codewords[trits]
        self.unchallenged.append(number)

    def _open(self, number: int, body: bytes) -> None:
        if self.asked is None or number not in self.asked.numbers:
            return
        row = self.row_of(number)
        assert row is not None
        index = challenge_indices(np.frombuffer(self.asked.seed, np.uint8).reshape(1, 16), [number], [TABLE])
        root = row.roots[number - self.first_of(number)].reshape(1, 16)
        openings = np.frombuffer(body, np.uint8).reshape(1, -1)
        outcome = int(verify_openings(root, self.names([number]), index, openings)[0])
        assert outcome >= 0, "a wrong opening"
        self.asked.opened[number] = outcome
        if len(self.asked.opened) == len(self.asked.numbers):
            for each, y in self.asked.opened.items():
                self.counted[each] = (y + self.reports[each]) % SYMBOLS
            self.opened, self.asked = self.asked.count, None

    # What it asks

    def end_bucket(self) -> None:
        """Challenge all stored reports, unless a batch or a challenge waits for the device."""
        if self.waiting is None and self.asked is None and self.unchallenged:
            numbers = sorted(self.unchallenged)
            roots = np.array([self._root(number) for number in numbers])
            masked = [self.reports[number] for number in numbers]
            count = self.opened + 1
            seed = challenge_seed(CHALLENGE_KEY, self.config.device, count, numbers, roots, masked)
            self.asked, self.unchallenged = Asked(count, seed, numbers), []

    def new_era(self) -> None:
        """Begin another era, as after a restored database."""
        self.era += 1
        self.asked, self.unchallenged = None, []
        for row in self.batches.values():
            row.void = True

    def release(self) -> None:
        """Drop all batches and held reports of the device, as an operator does."""
        self.dropped = max(self.batches) + BATCH_NUMBERS - 1
        self.opened += self.asked is not None
        self.asked, self.unchallenged = None, []
        for row in self.batches.values():
            row.void = True

    def content(self, **changes: Any) -> CoinReceipt:
        """Return what the receipt says now."""
        waiting = self.waiting
        passed = [first for first, row in self.batches.items() if row.approved or row.void]
        asked = self.asked
        revealed = [n for first, row in self.batches.items() if row.approved for n in row.numbers(first, revealed=True)]
        settled = runs_of([*self.reports, *revealed])
        upto = settled[0][1] if settled and settled[0][0] == 1 else 0
        made = CoinReceipt(
            settled=Receipt(upto, tuple(run for run in settled if run[0] > upto)[-16:]),
            era=self.era.to_bytes(8, "little"),
            approved=max([self.dropped, *passed]),
            audit_first=waiting or 0,
            audit=self.batches[waiting].audit if waiting else 0,
            opened=self.opened,
            challenge_seed=asked.seed if asked else b"",
            challenge=self._runs(asked.numbers) if asked else (),
        )
        return replace(made, **changes)

    def receipt(self, **changes: Any) -> bytes:
        """Return the current receipt, perhaps with other fields."""
        return write_coin_receipt(self.config.receipt_key.reveal(), self.config.device, self.content(**changes))

    @property
    def waiting(self) -> int | None:
        """The first number of the batch that waits for its audit."""
        return next((first for first, row in self.batches.items() if not row.approved and not row.void), None)

    # Tools

    def fork(self) -> Gateway:
        """Return a gateway with the same state that shares nothing that changes."""
        return copy.deepcopy(self, {id(self.config): self.config, id(self._codewords): self._codewords})

    def first_of(self, number: int) -> int:
        """Return the first number of a number's batch."""
        return max(first for first in self.batches if first <= number)

    def row_of(self, number: int) -> Row | None:
        """Return the batch of a number."""
        found = [first for first in self.batches if first <= number < first + BATCH_NUMBERS]
        return self.batches[found[0]] if found else None

    def names(self, numbers: list[int]) -> np.ndarray[Any, Any]:
        """Return the names of the coins of numbers."""
        devices = [self.config.device] * len(numbers)
        return coin_names(self.config.profile.id, devices, numbers, KEEP, CHANGE, SYMBOLS)

    def _root(self, number: int) -> np.ndarray[Any, Any]:
        row = self.row_of(number)
        assert row is not None
        root: np.ndarray[Any, Any] = row.roots[number - self.first_of(number)]
        return root

    def _runs(self, numbers: list[int]) -> tuple[tuple[int, int], ...]:
        """Return the runs of a challenge. Revealed numbers do not end a run."""
        runs = list(runs_of(numbers))
        merged = [runs[0]]
        for first, last in runs[1:]:
            between = range(merged[-1][1] + 1, first)
            if all(self._revealed(number) for number in between):
                merged[-1] = merged[-1][0], last
            else:
                merged.append((first, last))
        return tuple(merged)

    def _revealed(self, number: int) -> bool:
        row = self.row_of(number)
        return row is not None and bool(row.audit >> (number - self.first_of(number)) & 1)


class DirectLink:
    """A link without a broker: payloads go to `deliver`, receipts come from `fetch` after each."""

    def __init__(self, app: App, deliver: Callable[[bytes], None], fetch: Callable[[], bytes | None]) -> None:
        self._app = app
        self._deliver = deliver
        self._fetch = fetch
        self.online = True
        self.up = False
        self.faults = 0
        self.said: list[dict[str, Any]] = []

    def drain(self, outbox: Outbox, birth: dict[str, Any]) -> int:
        sent = 0
        while len(outbox) and self.open(birth):
            frames = outbox.unsent(8)
            if not frames:
                break
            self._deliver(b"".join(frame for _, frame in frames))
            outbox.sent([number for number, _ in frames])
            sent += len(frames)
        return sent

    def open(self, birth: dict[str, Any]) -> bool:
        if self.online and not self.up:
            self.up = True
            self.said.append(birth)
            self.tend()
        return self.online

    def send(self, payload: bytes) -> bool:
        if self.online:
            self._deliver(payload)
        return self.online

    def announce(self, status: dict[str, Any]) -> bool:
        return self.open(status)

    def owes_status(self) -> bool:
        return False

    def tend(self) -> None:
        receipt = self._fetch() if self.online else None
        if receipt is not None:
            self._app.settle(receipt)

    def retry_in(self) -> int:
        return 0

    def stop(self) -> None:
        self.up = False
