# SPDX-License-Identifier: MIT
"""The verified coins of a simulated fleet (SPEC section 13): commitments, audit answers and openings, resent until they are confirmed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_core.coins import OPENING
from peel_core.keys import Keys
from peel_core.kinds import SIGN
from peel_core.receipts import Receipt
from peel_core.topics import device_topic
from peel_tools.simulation.attackers import Attack
from peel_tools.simulation.coin_tricks import CoinMessage, SimulatedCoins
from peel_tools.simulation.piece import Piece
from peel_tools.simulation.truth import Outgoing, Truth

__all__ = ["UNSTORED", "FleetCoins", "counted_cell"]

UNSTORED = 0
"""The id of messages that the truth does not keep: a device makes them again."""
_LONGEST_PAYLOAD = 1400
_LONGEST_PAUSE = 3600.0
_LOOK_SECONDS = 0.5


@dataclass
class _Member:
    """One device."""

    coins: SimulatedCoins
    pause: float
    """Seconds until its unconfirmed messages are resent. They double each time."""
    free: list[int] = field(default_factory=list)
    """The numbers of approved batches that have no report."""
    masked: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Cell and sign of reports with a masked answer, by number."""
    sent: set[bytes] = field(default_factory=set)
    """Unconfirmed messages that were sent before."""
    again_at: float = 0.0
    cheated: bool = False
    """Whether it has sent a message that exposes it. It sends no other after that."""


class FleetCoins:
    """The verified coins of all simulated devices that have them.

    Parameters
    ----------
    attack_of : callable
        Returns the attack that a device plays now, or None.
    pause : float
        Seconds until unconfirmed messages are resent. They double each time, up to an hour, with jitter.
    """

    def __init__(
        self, fleet: str, truth: Truth, attack_of: Callable[[int], Attack | None], *, seed: str, pause: float
    ) -> None:
        self._fleet = fleet
        self._truth = truth
        self._attack_of = attack_of
        self._seed = seed
        self._pause = pause
        self._members: dict[int, _Member] = {}
        self._changed: set[int] = set()
        self._looked = 0.0

    def __contains__(self, device: int) -> bool:
        return device in self._members

    def add(self, profile: Profile, device: int, keys: Keys, first: int) -> None:
        """Add a device. `keys` has one row; `first` is the first number of its bundle."""
        secrets = partial(_secret, f"{self._seed}/{device}", count())
        self._members[device] = _Member(SimulatedCoins(profile, device, keys, first, secrets), self._pause)
        self._changed.add(device)

    def restore(self) -> None:
        """Continue from the truth, once all devices are added."""
        unopened = self._truth.unopened()
        devices = self._truth.devices()
        for device, state in self._truth.coins().items():
            if device in self._members:
                member = self._members[device]
                member.masked = unopened.get(device, {})
                member.coins.restore(state, devices[device][1], member.masked)
                member.free = list(member.coins.free_approved())

    # ---- numbers ----

    def free(self, device: int) -> list[int]:
        """Return the numbers that a device may report under now, ascending."""
        return self._members[device].free

    def take(self, device: int, amount: int) -> list[int]:
        """Take the next free numbers of a device."""
        member = self._members[device]
        taken, member.free = member.free[:amount], member.free[amount:]
        for number in taken:
            member.coins.reported(number)
        self._changed.add(device)
        return taken

    def seeds(self, devices: Sequence[int], numbers: Sequence[int]) -> npt.NDArray[np.uint8]:
        """Return the seeds of numbers, shape (N, 16)."""
        rows = [self._members[device].coins.seed(number) for device, number in zip(devices, numbers, strict=True)]
        return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, 16)

    def sent(self, piece: Piece) -> None:
        """Note a valid report that is sent."""
        if not piece.opened:
            self._members[piece.device].masked[piece.number] = (piece.cell, piece.sign)

    def lost(self, device: int, number: int) -> None:
        """Note that a number has no report that a gateway could challenge: it has no reading, or the network loses it."""
        self._members[device].coins.reported(number, coin=False)

    @property
    def ready(self) -> bool:
        """Whether all honest devices have numbers that they may report under."""
        return all(each.free for device, each in self._members.items() if self._expected(self._attack_of(device)))

    @property
    def unopened(self) -> int:
        """The count of reports that will count and whose coins are not confirmed as opened."""
        return sum(
            member.coins.unopened for device, member in self._members.items() if self._expected(self._attack_of(device))
        )

    @staticmethod
    def _expected(attack: Attack | None) -> bool:
        return attack is None or (attack.layer is None and not attack.stalls)

    # ---- messages ----

    def receive(self, device: int, payload: bytes) -> Receipt:
        """Take a receipt; raise PeelError if it is invalid. Return its settled numbers."""
        member = self._members[device]
        receipt = member.coins.receive(payload)
        member.free = list(member.coins.free_approved())
        member.pause = self._pause
        self._changed.add(device)
        return receipt.settled

    def wake(self) -> None:
        """Make all unconfirmed messages overdue, as on devices that have just booted."""
        for member in self._members.values():
            member.again_at, member.pause = 0.0, self._pause

    def reconsider(self) -> None:
        """Let all devices look for messages that they have not sent: an attack was started or stopped."""
        self._changed.update(self._members)

    def messages(self, now: float) -> list[Outgoing]:
        """Return new messages, and those that are due to be resent."""
        turns = self._changed
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            turns = turns | {device for device, each in self._members.items() if each.sent and each.again_at <= now}
        self._changed = set()
        found: list[tuple[int, list[CoinMessage]]] = []
        for device in sorted(turns):
            messages = self._due(device, self._members[device], now)
            found.append((device, messages))
        # On disk before anything is sent.
        self._truth.keep_coins({device: self._members[device].coins.state() for device in turns})
        self._truth.open([row for device, messages in found for row in self._opened(self._members[device], messages)])
        return [outgoing for device, messages in found for outgoing in self._outgoing(device, messages)]

    def _due(self, device: int, member: _Member, now: float) -> list[CoinMessage]:
        if member.cheated:
            return []
        told = [CoinMessage.read(frame) for frame in member.coins.messages()]
        attack = self._attack_of(device)
        if attack is not None and attack.coin_trick is not None:
            told = [each for message in told if (each := attack.coin_trick(member.coins, message))]
        worst = next((each for each in told if each.bad), None)
        if worst is not None:  # the gateway hears nothing more of an exposed device
            member.cheated = True
            return [worst]
        overdue = member.again_at <= now
        due = [each for each in told if overdue or each.frame not in member.sent]
        if due:
            member.pause = min(_LONGEST_PAUSE, 2 * member.pause) if overdue and member.sent else self._pause
            member.again_at = now + member.pause * random.uniform(0.5, 1)
        member.sent = {each.frame for each in told}
        return due

    def _opened(self, member: _Member, messages: Sequence[CoinMessage]) -> Iterator[tuple[int, int, int, int]]:
        """Yield the reports whose outcome is final with these openings: cell, sign, device, number."""
        openings = [each.number for each in messages if each.kind == OPENING and not each.bad]
        outcomes = member.coins.outcomes() if openings else {}
        for number in openings:
            if number in member.masked:
                cell, sign = counted_cell(member.coins.profile, *member.masked.pop(number), outcomes[number])
                yield cell, sign, member.coins.device, number

    def _outgoing(self, device: int, messages: Sequence[CoinMessage]) -> list[Outgoing]:
        topic = device_topic(self._fleet, device, "report")
        bad = [each for each in messages if each.bad]
        if bad:
            attack = self._attack_of(device)
            assert attack is not None, "honest devices send nothing bad"
            pieces = [Piece(device, each.number, attack.name, True, 0, 0, 1, 0, each.frame) for each in bad]
            return self._truth.intend([(topic, self._members[device].coins.profile.id, pieces)], {})
        return [Outgoing(UNSTORED, device, topic, payload, 0, ()) for payload in _payloads(messages)]


def _secret(seed: str, counter: Iterator[int], size: int) -> bytes:
    """Return a secret. Simulated coins are repeatable; a real device's are not."""
    return hashlib.sha256(f"{seed}/{next(counter)}".encode()).digest()[:size]


def _payloads(messages: Sequence[CoinMessage]) -> Iterator[bytes]:
    """Put messages into payloads of at most 1400 bytes."""
    payload = b""
    for each in messages:
        if payload and len(payload) + len(each.frame) > _LONGEST_PAYLOAD:
            yield payload
            payload = b""
        payload += each.frame
    if payload:
        yield payload


def counted_cell(profile: Profile, cell: int, sign: int, outcome: int) -> tuple[int, int]:
    """Return the cell and the sign that a report counts with, from those of its masked answer and the opened outcome."""
    block = profile.blocks[int(profile.block_of_cell(cell))]
    if block.form == SIGN:
        return cell, 1 if (outcome + (sign > 0)) % 2 else -1
    base = int(profile.cell(profile.unit(cell), block.first_column))
    return base + (outcome + cell - base) % block.outcomes, sign
