# SPDX-License-Identifier: MIT
"""The attacks on messages of verified coins (SPEC section 13): the message that a device sends in place of an honest one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from peel_core.coin_device import CoinDevice
from peel_core.coins import AUDIT_ANSWER, COMMITMENT, OPENING, ROOT_BYTES, coin_roots, seal_message
from peel_core.frame import NUMBER

__all__ = [
    "CoinMessage",
    "CoinTrick",
    "SimulatedCoins",
    "forge_opening",
    "malform",
    "refuse_audits",
    "withhold_openings",
]


class CoinMessage(NamedTuple):
    """A message of verified coins."""

    kind: int
    """Its type."""
    number: int
    frame: bytes
    bad: bool = False
    """Whether it must expose the device."""

    @classmethod
    def read(cls, frame: bytes) -> CoinMessage:
        """Return an honest message from its frame."""
        return cls(frame[1], int.from_bytes(frame[NUMBER.start : NUMBER.end], "little"), frame)


class SimulatedCoins(CoinDevice):
    """The verified coins of a simulated device, which may cheat."""

    def sealed(self, kind: int, number: int, body: bytes) -> bytes:
        """Return a message with any body."""
        return seal_message(self.keys.coin.tobytes(), kind, self.profile.id, self.device, number, body)

    def malform(self, first: int) -> bytes:
        """Spoil the roots of every other number of a batch, once. Return all its roots."""
        batch = self._batch(first)
        if self._wrong(list(batch.numbers)):
            return batch.roots
        roots = np.frombuffer(batch.roots, np.uint8).reshape(-1, ROOT_BYTES).copy()
        roots[::2] ^= 1
        batch.roots = roots.tobytes()
        return batch.roots

    def contradicts(self, message: CoinMessage) -> bool:
        """Return whether the seeds or the opening in an honest message contradict the committed roots."""
        if message.kind == OPENING:
            return self._wrong([message.number])
        batch = self._batch(message.number)
        return self._wrong([number for number in batch.numbers if batch.revealed(number)])

    def _wrong(self, numbers: list[int]) -> bool:
        batch = self._batch(numbers[0])
        if not batch.roots:
            return False  # forgotten: it was approved before a restart
        made = coin_roots(self._names(np.array(numbers, np.uint64)), self.seeds(numbers))
        committed = np.frombuffer(batch.roots, np.uint8).reshape(-1, ROOT_BYTES)
        return bool((made != committed[np.array(numbers) - batch.first]).any())


CoinTrick = Callable[[SimulatedCoins, CoinMessage], CoinMessage | None]
"""Returns the message that is sent in place of an honest one, or None for no message."""


def malform(device: SimulatedCoins, message: CoinMessage) -> CoinMessage | None:
    """Commit to wrong roots. The audit reveals some of them."""
    if message.kind == COMMITMENT:
        return message._replace(frame=device.sealed(COMMITMENT, message.number, device.malform(message.number)))
    return message._replace(bad=device.contradicts(message))


def forge_opening(device: SimulatedCoins, message: CoinMessage) -> CoinMessage | None:
    """Open a coin with zeros in place of outcome, nonce and siblings."""
    if message.kind != OPENING:
        return message
    return message._replace(frame=device.sealed(OPENING, message.number, bytes(device.profile.opening_bytes)), bad=True)


def withhold_openings(device: SimulatedCoins, message: CoinMessage) -> CoinMessage | None:
    return None if message.kind == OPENING else message


def refuse_audits(device: SimulatedCoins, message: CoinMessage) -> CoinMessage | None:
    return None if message.kind == AUDIT_ANSWER else message
