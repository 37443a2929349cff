# SPDX-License-Identifier: MIT
"""The verified coins of one device in memory (SPEC section 13.4), for simulated fleets and tests. Boards have `firmware/peel_device`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from peel_core import coins
from peel_core.batch import index_many
from peel_core.coin_receipts import CoinReceipt, read_coin_receipt
from peel_core.coins import AUDIT_ANSWER, BATCH_NUMBERS, COMMITMENT, OPENING
from peel_core.keys import Keys
from peel_core.profile import Profile

__all__ = ["CoinDevice"]


@dataclass
class _Batch:
    first: int
    secret: bytes
    roots: bytes
    audit: int = 0

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + BATCH_NUMBERS)

    def revealed(self, number: int) -> bool:
        return bool(self.audit >> (number - self.first) & 1)


@dataclass
class _Challenge:
    seed: bytes
    numbers: list[int]
    """The reported numbers that it asks for."""
    frames: list[bytes] = field(default_factory=list)
    """Its openings, once they are made."""
    outcomes: list[int] = field(default_factory=list)
    """The opened outcomes, likewise."""


@dataclass
class CoinDevice:
    """An honest device. It keeps its batches in memory and loses them when the process ends.

    Parameters
    ----------
    keys : Keys
        One row: the keys of the device's bundle.
    first : int
        The first number of the bundle.
    random : callable
        Returns so many random bytes.
    """

    profile: Profile
    device: int
    keys: Keys
    first: int = 1
    random: Callable[[int], bytes] = field(default=os.urandom, repr=False)

    def __post_init__(self) -> None:
        self._batches: list[_Batch] = []
        self._next = self.first
        self._reported: dict[int, bool] = {}
        """Numbers with a report, and whether it has a coin that is not opened yet."""
        self._highest = 0
        self._challenges: dict[int, _Challenge] = {}
        self._opened = 0
        self._approved = 0
        self.era = bytes(8)

    # ---- numbers ----

    @property
    def reserve(self) -> int:
        """The approved numbers that it holds at least."""
        return -(-self.profile.reserve // BATCH_NUMBERS) * BATCH_NUMBERS

    def free(self) -> Iterator[int]:
        """Yield the numbers that may have a report, ascending."""
        return (number for batch in self._batches if batch.audit for number in self._free(batch))

    def free_approved(self) -> Iterator[int]:
        """Yield the free numbers of approved batches, ascending. A gateway takes reports under these alone."""
        approved = (batch for batch in self._batches if batch.audit and batch.first <= self._approved)
        return (number for batch in approved for number in self._free(batch))

    def _free(self, batch: _Batch) -> Iterator[int]:
        return (n for n in batch.numbers if n > self._highest and not batch.revealed(n))

    def seeds(self, numbers: Sequence[int]) -> NDArray[np.uint8]:
        """Return the seeds of numbers' coins, shape (N, 16), for `encode_many`."""
        secrets = b"".join(self._batch(number).secret for number in numbers)
        return coins.coin_seeds(np.frombuffer(secrets, np.uint8).reshape(-1, 16), numbers)

    def seed(self, number: int) -> bytes:
        """Return the seed of a number's coin, for `Encoder.encode`."""
        return self.seeds([number]).tobytes()

    def reported(self, number: int, *, coin: bool = True) -> None:
        """Note that a number has a report; without a reading it has no coin."""
        self._reported[number] = coin
        self._highest = max(self._highest, number)

    def _batch(self, number: int) -> _Batch:
        return next(batch for batch in self._batches if number in batch.numbers)

    # ---- messages ----

    def messages(self) -> list[bytes]:
        """Return all messages that no receipt has confirmed, as sealed frames; make a batch if one is needed."""
        waiting = [batch for batch in self._batches if not batch.audit]
        # A gateway challenges nothing while a batch waits for its audit, so there is a pause after each batch.
        unapproved = any(batch.first > self._approved for batch in self._batches)
        if not unapproved and len(list(self.free())) < self.reserve:
            waiting = [self._make_batch()]
        frames = [self._seal(COMMITMENT, batch.first, batch.roots) for batch in waiting]
        for batch in self._batches:
            if batch.audit and batch.first > self._approved:
                frames.append(self._seal(AUDIT_ANSWER, batch.first, self._seeds(batch)))
        for count, challenge in sorted(self._challenges.items()):
            if count > self._opened:
                frames += self._openings(challenge)
        return frames

    def receive(self, payload: bytes) -> CoinReceipt:
        """Take a receipt; raise PeelError if it is invalid."""
        receipt = read_coin_receipt(self.keys.receipt.tobytes(), self.device, payload)
        if receipt.era[::-1] < self.era[::-1]:
            return receipt
        if receipt.era != self.era:
            self.era, self._opened = receipt.era, 0
            self._challenges.clear()
            self._void(lambda batch: batch.audit != 0)
        self._approve(receipt.approved)
        waiting = self._unapproved
        if waiting is not None and not waiting.audit and waiting.first == receipt.audit_first:
            waiting.audit = receipt.audit if receipt.audit.bit_count() == self.profile.audits else 0
        self._opened = max(self._opened, receipt.opened)
        self._forget_opened()
        if receipt.challenge and receipt.opened == self._opened and not self._challenges:
            asked = [n for first, last in receipt.challenge for n in range(first, last + 1) if self._reported.get(n)]
            self._challenges[receipt.opened + 1] = _Challenge(receipt.challenge_seed, asked)
        return receipt

    @property
    def _unapproved(self) -> _Batch | None:
        """The batch that waits for its audit or its approval."""
        newest = self._batches[-1] if self._batches else None
        return newest if newest is not None and newest.first > self._approved else None

    def _approve(self, approved: int) -> None:
        """Approve the batch that waits. Any other number says that the gateway has dropped all batches up to it."""
        if approved <= self._approved:
            return
        waiting = self._unapproved
        passed = waiting is not None and waiting.audit and waiting.first == approved
        self._approved = approved
        if not passed:
            self._void(lambda batch: batch.first <= approved)

    def _void(self, which: Callable[[_Batch], bool]) -> None:
        """Forget batches, and the reports under their numbers: their coins are never opened."""
        self._batches = [batch for batch in self._batches if not which(batch)]
        alive = {number for batch in self._batches for number in batch.numbers}
        self._reported = {number: coin for number, coin in self._reported.items() if number in alive}
        for challenge in self._challenges.values():
            challenge.numbers = [number for number in challenge.numbers if number in alive]
            challenge.frames, challenge.outcomes = [], []

    @property
    def unopened(self) -> int:
        """The count of reports whose coins no receipt has confirmed as opened."""
        return len(self.unopened_numbers())

    def unopened_numbers(self) -> list[int]:
        """Return the numbers of these reports."""
        return [number for number, coin in self._reported.items() if coin]

    def outcomes(self) -> dict[int, int]:
        """Return the outcomes that it opens in unconfirmed challenges, by number."""
        found: dict[int, int] = {}
        for challenge in self._challenges.values():
            self._openings(challenge)
            found |= zip(challenge.numbers, challenge.outcomes, strict=True)
        return found

    def _forget_opened(self) -> None:
        """Forget answered challenges, and batches whose numbers are all used and opened."""
        for count in [count for count in self._challenges if count <= self._opened]:
            for number in self._challenges.pop(count).numbers:
                self._reported[number] = False
        kept = {number for number, coin in self._reported.items() if coin}
        self._batches = [
            batch
            for batch in self._batches
            if batch.numbers[-1] > self._highest or not kept.isdisjoint(batch.numbers) or batch.first > self._approved
        ]
        self._reported = dict.fromkeys(kept, True)

    # ---- flash ----

    def state(self) -> str:
        """Return what it must keep across a restart, as JSON. The reported numbers are not in it."""
        return json.dumps(
            {
                "batches": [
                    [each.first, each.secret.hex(), each.roots.hex() if each.first > self._approved else "", each.audit]
                    for each in self._batches
                ],
                "challenges": [[n, each.seed.hex(), each.numbers] for n, each in self._challenges.items()],
                "next": self._next,
                "approved": self._approved,
                "opened": self._opened,
                "era": self.era.hex(),
            }
        )

    def restore(self, state: str, highest: int, unopened: Iterable[int]) -> None:
        """Continue from a state, with the highest reported number and the reported numbers whose coins are not opened."""
        kept = json.loads(state)
        self._batches = [
            _Batch(first, bytes.fromhex(secret), bytes.fromhex(roots), audit)
            for first, secret, roots, audit in kept["batches"]
        ]
        self._challenges = {n: _Challenge(bytes.fromhex(seed), numbers) for n, seed, numbers in kept["challenges"]}
        self._next, self._approved, self._opened = kept["next"], kept["approved"], kept["opened"]
        self.era = bytes.fromhex(kept["era"])
        self._highest = highest
        self._reported = dict.fromkeys(unopened, True)

    def _make_batch(self) -> _Batch:
        secret = self.random(16)
        numbers = np.arange(self._next, self._next + BATCH_NUMBERS, dtype=np.uint64)
        roots = coins.coin_roots(self._names(numbers), self._seeds_of(secret, numbers)).tobytes()
        batch = _Batch(self._next, secret, roots)
        self._batches.append(batch)
        self._next += BATCH_NUMBERS
        return batch

    def _seeds(self, batch: _Batch) -> bytes:
        numbers = np.array([n for n in batch.numbers if batch.revealed(n)], np.uint64)
        return self._seeds_of(batch.secret, numbers).tobytes()

    def _openings(self, challenge: _Challenge) -> list[bytes]:
        if challenge.frames or not challenge.numbers:
            return challenge.frames
        numbers = np.array(challenge.numbers, np.uint64)
        names = self._names(numbers)
        sizes = names[:, 14].astype(np.int64) + (names[:, 16].astype(np.int64) - 1) * names[:, 15]
        indices = coins.challenge_indices(np.repeat(_row(challenge.seed), len(numbers), axis=0), numbers, sizes)
        opened = coins.open_coins(names, self.seeds(challenge.numbers), indices, self.profile.opening_bytes)
        challenge.outcomes = opened.openings[:, 0].tolist()
        challenge.frames = [
            self._seal(OPENING, number, opening.tobytes())
            for number, opening in zip(challenge.numbers, opened.openings, strict=True)
        ]
        return challenge.frames

    def _names(self, numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
        count, profile = len(numbers), self.profile
        devices = np.full(count, self.device, np.uint32)
        unit = index_many(profile, devices, self.keys.of(np.zeros(count, np.int64)), numbers).astype(np.int64)
        block = np.broadcast_to(profile.block_of_unit(unit), unit.shape)
        keep, change, symbols = (
            np.array([getattr(each, name) for each in profile.blocks], np.int64)[block]
            for name in ("keep", "change", "outcomes")
        )
        return coins.coin_names(profile.id, devices, numbers, keep, change, symbols)

    def _seeds_of(self, secret: bytes, numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
        return coins.coin_seeds(np.repeat(_row(secret), len(numbers), axis=0), numbers)

    def _seal(self, kind: int, number: int, body: bytes) -> bytes:
        return coins.seal_message(self.keys.coin.tobytes(), kind, self.profile.id, self.device, number, body)


def _row(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8).reshape(1, -1)
