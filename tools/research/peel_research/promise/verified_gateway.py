# SPDX-License-Identifier: MIT
"""A malicious gateway against the real code of a device with verified coins: what it learns about one answer, exactly.

`explore` lets the gateway send receipts in any order, each in two eras, from a menu:

- three audits of each of two batches, one of a wrong size,
- approvals of both batches, and of one that never was,
- two challenges of the reported number, before and after the report,
- counts of opened challenges that fit or do not.

Old receipts come again, because each may come at any time. The device may be started again, and may get a fresh bundle. The gateway may
stop after each step.

A gateway that adapts gains nothing over that: given all that it has seen, the receipts that it sent are fixed. So the likelihood of what
it sees under an adaptive play is the likelihood under some fixed list of receipts. All lists up to a length are explored, from the first
step on and after each part of an honest exchange.

The table of the reported number has g K equally likely pairs of mask and shift. `excess` finds a secret for each pair, plays the list
again on a device with that secret, and counts. Unopened entries are hidden by random nonces, and other numbers have independent tables:
this rests on Ascon, and is not enumerated.
"""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from itertools import count
from math import inf
from typing import Any, Protocol

import numpy as np

from peel_core import PeelError, Profile, derive_keys, make_profile
from peel_core.coin_device import CoinDevice
from peel_core.coin_receipts import CoinReceipt, write_coin_receipt
from peel_core.coins import (
    AUDIT_ANSWER,
    BATCH_NUMBERS,
    OPENING,
    challenge_indices,
    coin_names,
    coin_seeds,
    mask_answers,
    open_coins,
    open_message,
)
from peel_core.frame import NUMBER
from peel_core.receipts import Receipt

__all__ = [
    "DEVICE",
    "REPORT",
    "REPROVISION",
    "RESTART",
    "Explored",
    "HostDevice",
    "Secrets",
    "Step",
    "Subject",
    "coin_profile",
    "excess",
    "explore",
    "figures",
    "honest_steps",
]

DEVICE = 5
REPORT, RESTART, REPROVISION = "report", "restart", "reprovision"
Step = CoinReceipt | str
_AUDITS = (0xFF, 0xFF00, 0x7F)
"""The first 8 numbers of a batch, the next 8, and one too few."""
_FIRSTS = (1, 1 + BATCH_NUMBERS)
_ERAS = (b"\0\0\0\0\1\0\0\0", b"\0\0\0\0\2\0\0\0")
_CANDIDATE = 9
"""A number that may have the report, for challenges that come before it."""
_PROFILES = ((0.7, 2), (0.7, 3), (1.0, 2))
"""Epsilon and symbols: odds 2:1 with 3 entries, 2:1 with 4, and 8:3 with 11."""
_LENGTH = 3
"""Steps after each part of an honest exchange."""


class Secrets:
    """Fixed secrets of 16 bytes for the batches of a device. One of them may be replaced."""

    def __init__(self, place: int = -1, secret: bytes = b"") -> None:
        self._place, self._secret, self._made = place, secret, 0

    def __call__(self, size: int) -> bytes:
        self._made += 1
        return self.at(self._made - 1)

    def at(self, place: int) -> bytes:
        """Return the secret of the batch that was made in this place, from 0."""
        return self._secret if place == self._place else bytes([place + 1]) * 16


class Subject(Protocol):
    """A device under test. The secrets of its batches are given."""

    profile: Profile
    coin_keys: list[bytes]
    """Of all its bundles."""
    reported: int
    """The number that has the report in question, 0 before it."""

    def take(self, step: Step) -> list[bytes]:
        """Do a step. Return all messages that the device sends then."""

    def state(self) -> Hashable:
        """Return all that decides what it will send, without secrets."""


Build = Callable[[Secrets], Subject]
"""Returns a fresh device."""


def coin_profile(epsilon: float, symbols: int) -> Profile:
    """Return a profile with one question: a mean for 2 symbols, a category for more."""
    question: dict[str, object] = {"name": "a", "kind": "mean", "low": -1, "high": 1}
    if symbols > 2:
        names = [f"c{i}" for i in range(symbols)]
        question = {"name": "a", "kind": "category", "categories": names, "force_category": True}
    head = {"name": "small", "epsilon": epsilon, "seed": 1, "width": 48, "quota": 60, "period": 3600}
    return make_profile({**head, "verify": True, "offline": 360, "bucket": 300, "attribute": [question]})


class HostDevice:
    """`CoinDevice`, which simulated fleets have."""

    def __init__(self, profile: Profile, secrets: Secrets) -> None:
        self.profile = profile
        self.reported = 0
        self.coin_keys: list[bytes] = []
        self._secrets = secrets
        self._provision(1)

    def _provision(self, first: int) -> None:
        """Begin with a fresh bundle: other keys, no batch, higher numbers."""
        self._keys = derive_keys(bytes(32), "small", np.array([DEVICE], np.uint32), first, bytes(16))
        self._device = CoinDevice(self.profile, DEVICE, self._keys, first, random=self._secrets)
        self.coin_keys = [*self.coin_keys, self._keys.coin.tobytes()]

    def __deepcopy__(self, memo: dict[int, Any]) -> HostDevice:
        twin = copy.copy(self)
        memo |= {id(each): each for each in (self.profile, self._keys)}
        twin._secrets = copy.deepcopy(self._secrets, memo)
        twin._device = copy.deepcopy(self._device, memo)
        return twin

    def take(self, step: Step) -> list[bytes]:
        device = self._device
        if isinstance(step, CoinReceipt):
            device.receive(write_coin_receipt(self._keys.receipt.tobytes(), DEVICE, step))
        elif step == REPORT:
            number = next(device.free_approved(), None)
            if number is not None and not self.reported:
                device.reported(number)
                self.reported = number
        elif step == RESTART:
            unopened = [number for number, coin in device._reported.items() if coin]
            self._device = CoinDevice(self.profile, DEVICE, device.keys, device.first, random=self._secrets)
            self._device.restore(device.state(), device._highest, unopened)
        else:
            self._provision(device._next)
        return self._device.messages()

    def state(self) -> Hashable:
        device = self._device
        batches = tuple((batch.first, batch.audit) for batch in device._batches)
        asked = tuple((count, each.seed, tuple(each.numbers)) for count, each in sorted(device._challenges.items()))
        numbers = device.first, device._next, device._highest, device._approved, device._opened, self.reported
        return batches, asked, tuple(sorted(device._reported.items())), numbers, device.era


@dataclass(frozen=True)
class _Seen:
    """All that the gateway has seen."""

    seeds: frozenset[bytes] = frozenset()
    openings: frozenset[tuple[int, bytes]] = frozenset()

    def with_messages(self, subject: Subject, frames: Sequence[bytes]) -> _Seen:
        seeds, openings = set(self.seeds), set(self.openings)
        for frame in frames:
            kind, body = _open(subject, frame)
            if kind == AUDIT_ANSWER:
                seeds |= {body[at : at + 16] for at in range(0, len(body), 16)}
            elif kind == OPENING:
                openings.add((NUMBER.of(frame), body))
        return _Seen(frozenset(seeds), frozenset(openings))


def _open(subject: Subject, frame: bytes) -> tuple[int, bytes]:
    for key in subject.coin_keys:
        with suppress(PeelError):
            return open_message(key, len(frame) - 24, frame)
    raise AssertionError("a device seals its messages")


@dataclass(frozen=True)
class _Table:
    """The table of the reported number."""

    mask: int
    shift: int
    seed: bytes
    openings: tuple[bytes, ...]

    @classmethod
    def of(cls, profile: Profile, number: int, secret: bytes) -> _Table:
        (block,) = profile.blocks
        keep, change, symbols = block.keep, block.change, block.outcomes
        size = keep + (symbols - 1) * change
        seed = coin_seeds(np.frombuffer(secret, np.uint8).reshape(1, 16), [number])
        mask = -int(mask_answers(seed, symbols, [0])[0]) % symbols
        names = np.repeat(coin_names(profile.id, [DEVICE], [number], keep, change, symbols), size, axis=0)
        opened = open_coins(names, np.repeat(seed, size, axis=0), np.arange(size), profile.opening_bytes).openings
        offsets = [0] * keep + [offset for offset in range(1, symbols) for _ in range(change)]
        outcomes = opened[:, 0].tolist()
        fits = [
            shift
            for shift in range(size)
            if outcomes == [(mask + offsets[(shift + j) % size]) % symbols for j in range(size)]
        ]
        (shift,) = fits
        return cls(mask, shift, seed.tobytes(), tuple(each.tobytes() for each in opened))

    def sight(self, number: int, seen: _Seen) -> tuple[frozenset[int], bool]:
        """Return which entries are opened, and whether the seed is revealed."""
        bodies = {body for opened, body in seen.openings if opened == number}
        assert bodies <= set(self.openings), "a device opens the table that it committed to"
        return frozenset(i for i, body in enumerate(self.openings) if body in bodies), self.seed in seen.seeds


@dataclass(frozen=True)
class Explored:
    """The states that a malicious gateway can reach, and its views in them."""

    states: int
    sights: dict[tuple[int, frozenset[int], bool], tuple[Step, ...]]
    """The reported number, its opened entries, and whether its seed was revealed; with the steps that lead there."""


def explore(build: Build, length: int, *begins: Sequence[Step]) -> Explored:
    """Visit all states that lists of up to `length` steps reach, after each list in `begins` too. Note what the gateway sees."""
    visited: set[Hashable] = set()
    sights: dict[tuple[int, frozenset[int], bool], tuple[Step, ...]] = {}
    tables: dict[int, _Table] = {}
    for begin in ((), *begins):
        subject, seen = _played(build(Secrets()), begin)
        queue = deque([(subject, seen, tuple(begin))])
        while queue:
            subject, seen, path = queue.popleft()
            if subject.reported:
                number = subject.reported
                if number not in tables:
                    tables[number] = _Table.of(subject.profile, number, Secrets().at(_place_of(number)))
                sights.setdefault((number, *tables[number].sight(number, seen)), path)
            if len(path) == len(begin) + length:
                continue
            for step in _menu(subject):
                twin = copy.deepcopy(subject)
                after = seen.with_messages(twin, twin.take(step))
                key = twin.state(), after
                if key not in visited:
                    visited.add(key)
                    queue.append((twin, after, (*path, step)))
    return Explored(len(visited), sights)


def _played(subject: Subject, path: Sequence[Step]) -> tuple[Subject, _Seen]:
    """Let a device do steps. Return it, and what the gateway sees."""
    seen = _Seen().with_messages(subject, subject.take(RESTART))
    for step in path:
        seen = seen.with_messages(subject, subject.take(step))
    return subject, seen


def honest_steps(profile: Profile) -> tuple[Step, ...]:
    """Return what leads to a report in the first batch, and to its challenge."""
    bare = CoinReceipt(Receipt(0, ()), _ERAS[0])
    seed, _ = _challenge_seeds(profile, _CANDIDATE)
    asked = replace(bare, approved=1, challenge_seed=seed, challenge=((_CANDIDATE, _CANDIDATE),))
    return replace(bare, audit_first=1, audit=_AUDITS[0]), replace(bare, approved=1), REPORT, asked


def _place_of(number: int) -> int:
    """Return which of the device's batches has a number: the first, the second, and so on."""
    return (number - 1) // BATCH_NUMBERS


def _menu(subject: Subject) -> Iterator[Step]:
    """Yield everything that may happen next."""
    yield from (REPORT, RESTART, REPROVISION)
    number = subject.reported or _CANDIDATE
    for era in _ERAS:
        yield from (
            CoinReceipt(Receipt(0, ()), era, approved=first - 1, audit_first=first, audit=audit)
            for first in _FIRSTS
            for audit in _AUDITS
        )
        yield from (CoinReceipt(Receipt(0, ()), era, approved=approved) for approved in (*_FIRSTS, 1000))
        for opened in (0, 1, 5):
            bare = CoinReceipt(Receipt(0, ()), era, approved=number - (number - 1) % BATCH_NUMBERS, opened=opened)
            yield bare
            for seed in _challenge_seeds(subject.profile, number):
                yield replace(bare, challenge_seed=seed, challenge=((number, number),))


@cache
def _challenge_seeds(profile: Profile, number: int) -> tuple[bytes, bytes]:
    """Return two challenges that pick different entries."""
    (block,) = profile.blocks
    found: dict[int, bytes] = {}
    for place in count():
        seed = place.to_bytes(16, "little")
        row = np.frombuffer(seed, np.uint8).reshape(1, 16)
        found.setdefault(int(challenge_indices(row, [number], [block.odds.total])[0]), seed)
        if len(found) == 2:
            one, other = found.values()
            return one, other
    raise AssertionError


def excess(build: Build, explored: Explored) -> Fraction | float:
    """Return how far the likelihood ratio of what the gateway sees exceeds the odds, at most; infinity if a view rules an answer out."""
    return max((_excess(build, number, path) for (number, *_), path in explored.sights.items()), default=Fraction(0))


def _excess(build: Build, number: int, path: Sequence[Step]) -> Fraction | float:
    """Play a list of steps with each table of the number, and count what the gateway sees, by answer."""
    (block,) = build(Secrets()).profile.blocks
    views: list[Counter[Hashable]] = [Counter() for _ in range(block.outcomes)]
    for secret, table in _tables(build, number):
        subject, seen = _played(build(Secrets(_place_of(number), secret)), path)
        assert subject.reported == number, "the number of a report does not depend on its table"
        entries, revealed = table.sight(number, seen)
        opened = tuple((entry, table.openings[entry][0]) for entry in sorted(entries))
        for answer, counter in enumerate(views):
            counter[
                (answer - table.mask) % block.outcomes, opened, (table.mask, table.shift) if revealed else None
            ] += 1
    ratios = [Fraction(max(each), min(each)) if min(each) else inf for each in _counts(views)]
    return max(ratios) / Fraction(block.keep, block.change) - 1


def _counts(views: Sequence[Counter[Hashable]]) -> Iterator[list[int]]:
    """Yield how often each view comes, by answer."""
    for view in set().union(*views):
        yield [counter[view] for counter in views]


def _tables(build: Build, number: int) -> Iterator[tuple[bytes, _Table]]:
    """Yield one secret for each pair of mask and shift, with the table that it gives to the number."""
    profile = build(Secrets()).profile
    (block,) = profile.blocks
    found: set[tuple[int, int]] = set()
    for place in count():
        secret = (place + 1).to_bytes(16, "big")
        table = _Table.of(profile, number, secret)
        if (table.mask, table.shift) not in found:
            found.add((table.mask, table.shift))
            yield secret, table
        if len(found) == block.outcomes * block.odds.total:
            return


def figures() -> dict[str, Any]:
    """Return the excess over all profiles, and how much was explored."""
    worst: Fraction | float = Fraction(0)
    states = 0
    for epsilon, symbols in _PROFILES:
        profile = coin_profile(epsilon, symbols)
        build, steps = partial(HostDevice, profile), honest_steps(profile)
        explored = explore(build, _LENGTH, steps[:2], steps[:3], steps)
        worst, states = max(worst, excess(build, explored)), states + explored.states
    return {"malicious_gateway_excess": float(worst), "malicious_gateway_states": states}
