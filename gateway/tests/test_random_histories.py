# SPDX-License-Identifier: MIT
"""Random histories of devices, clocks and operators: no batch fails, and a recount of the log gives what is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pytest
from lab import Lab, MakeLab, harmony_profile, hashing_profile, krr_profile

from peel_core.primitives import codeword
from peel_gateway.engine.pardon import pardon
from peel_gateway.engine.recount import recount
from peel_gateway.engine.replay import replay
from peel_gateway.model.messages import Message

DAY = 86_400.0
SKEWS = [0.0, 0.0, 3600.0, DAY, -DAY, 1e9, -1.69e9, 3e9, 200 * 365 * DAY]
"""Seconds that a clock may be off: set right, an hour, a day, in 1970, beyond 2106."""
ROOMS = [1, 9_000, 2**28]
NUMBERS = [1, 2**31, 2**32, 2**47, 2**48 - 1]
RULES = [0, 1, 7, 2**31, 2**32 - 1]

Chance = np.random.Generator
T = TypeVar("T")


class Story:
    """Devices of every mechanism, with the next number of each, and all that was ever sent."""

    def __init__(self, lab: Lab, chance: Chance) -> None:
        self._lab, self._chance = lab, chance
        self._next = dict.fromkeys(lab.ids.tolist(), 1)
        self._sent: list[bytes] = []

    def happens(self) -> None:
        """Something to the gateway, now and then; time passes."""
        things: list[Callable[[], object]] = [self._set_clock, self._reboot, self._prune, self._pardon, self._replay]
        if self._chance.random() < 0.25:
            self._one(things)()
        self._lab.now += self._one([0.0, 1.0, 60.0, 300.0, 4000.0])

    def frames(self) -> list[bytes]:
        """Return one batch: honest reports with losses, faulty ones, old ones again, and junk."""
        kinds = [self._honest] * 5 + [
            self._again,
            self._any_number,
            self._any_rule,
            self._any_trits,
            self._seen,
            self._junk,
        ]
        found: list[bytes] = []
        for _ in range(self._chance.integers(8)):
            found += self._one(kinds)(self._one(self._lab.ids.tolist()))
        self._sent += found
        return [found[place] for place in self._chance.permutation(len(found))]

    def _one(self, choices: Sequence[T]) -> T:
        return choices[int(self._chance.integers(len(choices)))]

    def _set_clock(self) -> None:
        self._lab.skew = self._one(SKEWS)

    def _reboot(self) -> None:
        self._lab.reboot(off=self._one([0.0, 10.0, 1e6]), skew=self._one(SKEWS), cache_bytes=self._one(ROOMS))

    def _prune(self) -> None:
        self._lab.engine.prune(self._one([60.0, 3600.0, DAY]), self._one([None, 3600.0, DAY]))

    def _pardon(self) -> None:
        known = self._lab.store.devices()
        for device in known.device[known.cause != 0].tolist()[:1]:
            restore = bool(self._chance.integers(2))
            pardon(self._lab.store, [device], restore=restore, reason="any", who="story", clock=self._lab.clock)

    def _replay(self) -> None:
        replay(self._lab.store, self._lab.engine)

    def _honest(self, device: int) -> list[bytes]:
        first, count = self._next[device], int(self._chance.integers(1, 40))
        self._next[device] += count + self._one([0, 0, 0, 1, 17, 40, 1100, 100_000])
        return self._lab.frames(device, range(first, first + count))

    def _again(self, device: int) -> list[bytes]:
        return [self._lab.sealed(device, max(1, self._next[device] - int(self._chance.integers(1, 3000))), index=0)]

    def _any_number(self, device: int) -> list[bytes]:
        return [self._lab.sealed(device, self._one(NUMBERS), index=0)]

    def _any_rule(self, device: int) -> list[bytes]:
        return [self._lab.sealed(device, self._next[device], index=0, rule=self._one(RULES))]

    def _any_trits(self, device: int) -> list[bytes]:
        profile = self._lab.profile(device, 1)
        size = len(codeword(profile.seed, profile.width, 0, 0))
        return [self._lab.sealed(device, self._next[device], index=0, trits=self._chance.bytes(size))]

    def _seen(self, _: int) -> list[bytes]:
        return [self._one(self._sent)] if self._sent else []

    def _junk(self, _: int) -> list[bytes]:
        return [self._chance.bytes(int(self._chance.integers(80)))]


@pytest.mark.parametrize("seed", range(3))
def test_any_history_can_be_stored_and_recounted(make_lab: MakeLab, rng: Chance, seed: int) -> None:
    lab = make_lab(harmony_profile(4, quota=60, period=3600), krr_profile(4), hashing_profile(200), devices=6)
    story = Story(lab, rng)
    for step in range(90):
        story.happens()
        frames, stamp = story.frames(), max(0.0, lab.now + lab.skew)
        pieces = frames if step % 5 else [b"".join(frames)]
        report = lab.engine.process([Message("t", piece, stamp) for piece in pieces])
        lab.engine.receipts(report.senders)
    found = recount(lab.store, lab)
    assert found.agrees, found.differences[:5]
