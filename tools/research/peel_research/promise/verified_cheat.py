# SPDX-License-Identifier: MIT
"""A device that cheats with its verified coins: malformed tables, and messages that an honest device would not send."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from peel_core import Keys, Profile
from peel_core.coin_device import CoinDevice
from peel_core.coins import (
    AUDIT_ANSWER,
    BATCH_NUMBERS,
    COMMITMENT,
    OPENING,
    ROOT_BYTES,
    challenge_indices,
    mask_answers,
    open_coins,
)
from peel_core.primitives import hash_

__all__ = ["Cheat", "MalformedTable"]

_CHILDREN = 4
_NODE_MARK = 64
_NONCE_BYTES = 13


class MalformedTable:
    """A table of any outcomes, with the root and the openings of SPEC section 13.2.

    Parameters
    ----------
    name : bytes
        The coin's name, 20 bytes.
    outcomes : sequence of int
        One for each entry.
    nonces : sequence of bytes
        13 bytes for each entry.
    """

    def __init__(self, name: bytes, outcomes: Sequence[int], nonces: Sequence[bytes]) -> None:
        self.outcomes = tuple(outcomes)
        self._nonces = tuple(nonces)
        leaves = [
            _hash(name + bytes([j, outcome]) + nonce)
            for j, (outcome, nonce) in enumerate(zip(outcomes, nonces, strict=True))
        ]
        self._levels = [leaves]
        while len(self._levels[-1]) > 1:
            below, mark = self._levels[-1], bytes([_NODE_MARK + len(self._levels)])
            nodes = [
                _hash(name + mark + b"".join(below[at : at + _CHILDREN])) for at in range(0, len(below), _CHILDREN)
            ]
            self._levels.append(nodes)

    @property
    def root(self) -> bytes:
        """The root, which commits to all outcomes."""
        return self._levels[-1][0]

    def opening(self, index: int, size: int) -> bytes:
        """Return the opening of an entry, with zeros up to `size` bytes."""
        opening, place = bytes([self.outcomes[index]]) + self._nonces[index], index
        for level in self._levels[:-1]:
            first = place // _CHILDREN * _CHILDREN
            opening += b"".join(level[at] for at in range(first, min(first + _CHILDREN, len(level))) if at != place)
            place //= _CHILDREN
        return opening.ljust(size, b"\0")


def _hash(data: bytes) -> bytes:
    return hash_("peel/1 coin", data, ROOT_BYTES)


class Cheat(CoinDevice):
    """A device that keeps its messages to itself until it is asked for one, and may cheat with each."""

    def __init__(self, profile: Profile, device: int, keys: Keys, random: Callable[[int], bytes]) -> None:
        super().__init__(profile, device, keys, random=random)
        self._forged: dict[int, MalformedTable] = {}
        self._answered = 0

    # ---- numbers ----

    @property
    def next_numbers(self) -> range:
        """The numbers of the batch that it commits to next."""
        return range(self._next, self._next + BATCH_NUMBERS)

    def unrevealed(self, first: int) -> list[int]:
        """Return the numbers of a batch that its audit does not ask for."""
        batch = self._batch(first)
        return [number for number in batch.numbers if not batch.revealed(number)]

    def batch_numbers(self, first: int) -> range:
        """Return the numbers of a batch."""
        return self._batch(first).numbers

    def mask(self, number: int) -> int:
        """Return the mask of a number's table."""
        (symbols,) = self._names_of([number])[:, 16].tolist()
        (unmasked,) = mask_answers(self.seeds([number]), symbols, [0]).tolist()
        return -int(unmasked) % int(symbols)

    # ---- messages ----

    def commit(self, forged: Collection[int] = ()) -> tuple[int, bytes]:
        """Make a batch in which some numbers have malformed tables. Return its first number and the commitment.

        A malformed table has one outcome only, that of the mask: the report then counts as the answer, without a coin.
        """
        batch = self._make_batch()
        roots = bytearray(batch.roots)
        for number in forged:
            table = self._malformed(number, self.mask(number))
            at = ROOT_BYTES * (number - batch.first)
            roots[at : at + ROOT_BYTES] = table.root
            self._forged[number] = table
        batch.roots = bytes(roots)
        return batch.first, self._seal(COMMITMENT, batch.first, batch.roots)

    def recommit(self, first: int) -> bytes:
        """Return a second commitment for the numbers of a batch, to fair tables of the same seeds."""
        numbers = np.array(self._batch(first).numbers, np.uint64)
        names = self._names(numbers)
        roots = open_coins(names, self.seeds(numbers.tolist()), np.zeros(BATCH_NUMBERS, np.int64), self._size).roots
        return self._seal(COMMITMENT, first, roots.tobytes())

    def answer_audit(self, first: int) -> bytes:
        """Return the seeds of the audited numbers, also if they contradict the roots."""
        return self._seal(AUDIT_ANSWER, first, self._seeds(self._batch(first)))

    def challenged(self) -> list[int]:
        """Return the numbers of a challenge that `new_challenge` has not returned yet."""
        newest = max(self._challenges, default=0)
        return self._challenges[newest].numbers if newest > self._answered else []

    def new_challenge(self) -> list[int]:
        """Return the numbers of a challenge, once; none without a new challenge."""
        numbers = self.challenged()
        self._answered = max(self._challenges, default=self._answered)
        return numbers

    def drawn(self, numbers: Sequence[int]) -> list[int]:
        """Return the outcomes of challenged numbers."""
        return [body[0] for body in self.openings(numbers)]

    def openings(self, numbers: Sequence[int]) -> list[bytes]:
        """Return the bodies of the messages that open challenged numbers."""
        indices = self._indices(numbers)
        opened = open_coins(self._names_of(numbers), self.seeds(numbers), indices, self._size).openings
        return [
            self._forged[number].opening(index, self._size) if number in self._forged else row.tobytes()
            for number, index, row in zip(numbers, indices, opened, strict=True)
        ]

    def opened(self, number: int, body: bytes) -> bytes:
        """Return a message that opens a number with any body."""
        return self._seal(OPENING, number, body)

    def other_entry(self, number: int, outcome: int) -> bytes:
        """Return the opening of another entry of a number's table, one that has this outcome."""
        names, seed = self._names_of([number]), self.seeds([number])
        (size,) = self._sizes(names)
        for index in range(size):
            body = open_coins(names, seed, [index], self._size).openings[0].tobytes()
            if body[0] == outcome:
                break
        return self.opened(number, body)

    def other_table(self, number: int, outcome: int) -> bytes:
        """Return the opening of the challenged entry of a table that was never committed, and has this outcome everywhere."""
        table = self._malformed(number, outcome)
        return self.opened(number, table.opening(self._indices([number])[0], self._size))

    def forget_batches(self) -> None:
        """Give up all batches."""
        self._batches.clear()
        self._challenges.clear()
        self._answered = 0

    # ---- helpers ----

    @property
    def _size(self) -> int:
        return self.profile.opening_bytes

    def _names_of(self, numbers: Sequence[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
        return self._names(np.array(numbers, np.uint64))

    @staticmethod
    def _sizes(names: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> list[int]:
        odds = names[:, 14:17].astype(np.int64)
        return [int(size) for size in odds[:, 0] + (odds[:, 2] - 1) * odds[:, 1]]

    def _indices(self, numbers: Sequence[int]) -> list[int]:
        seed = self._challenges[max(self._challenges)].seed
        seeds = np.tile(np.frombuffer(seed, np.uint8), (len(numbers), 1))
        indices = challenge_indices(seeds, np.array(numbers, np.uint64), self._sizes(self._names_of(numbers)))
        return [int(index) for index in indices]

    def _malformed(self, number: int, outcome: int) -> MalformedTable:
        names = self._names_of([number])
        (size,) = self._sizes(names)
        nonces = [self.random(_NONCE_BYTES) for _ in range(size)]
        return MalformedTable(names[0].tobytes(), [outcome] * size, nonces)
