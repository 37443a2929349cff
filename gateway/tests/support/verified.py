# SPDX-License-Identifier: MIT
"""Devices with verified coins that talk to a lab's engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from lab import Lab

from peel_core import Profile, encode_many
from peel_core.coin_device import CoinDevice
from peel_core.coin_receipts import CoinReceipt
from peel_gateway.model.messages import Senders

__all__ = ["Talker", "verified"]


def verified(profile: Profile) -> Profile:
    """Return a profile with verified coins: 50 reports per time bucket, and a reserve of 64 numbers."""
    return replace(profile, quota=600, period=3600, offline=360)


class Talker:
    """One honest device and the gateway's answers to it."""

    def __init__(self, lab: Lab, device: int = 1, *, first: int = 1) -> None:
        self.lab = lab
        self.device = device
        keys = lab.keys_of(device, [first])
        self.coins = CoinDevice(lab.profile(device, first), device, keys, first, random=lab.chance_bytes)
        self.said: list[CoinReceipt] = []

    def report(self, count: int, reading: float = 0.0, *, missing: bool = False) -> list[bytes]:
        """Return reports under the next free numbers."""
        numbers = list(self.coins.free())[:count]
        assert len(numbers) == count, "it has no more approved numbers"
        return self.reports(numbers, reading, missing=missing)

    def reports(self, numbers: Sequence[int], reading: float = 0.0, *, missing: bool = False) -> list[bytes]:
        """Return reports under these numbers."""
        profile = self.coins.profile
        value = round(reading * 32768) if profile.blocks[0].form == 1 else int(reading)
        value = -(2**31) if missing else value
        frames = encode_many(
            profile,
            np.full(len(numbers), self.device),
            self.lab.keys_of(self.device, numbers),
            numbers,
            np.full((len(numbers), len(profile.questions)), value, np.int32),
            entropy=self.lab.chance_bytes(64),
            coin_seeds=self.coins.seeds(numbers),
        )
        for number in numbers:
            self.coins.reported(number, coin=not missing)
        return [frame.tobytes() for frame in frames]

    def talk(self, frames: Sequence[bytes] = ()) -> dict[str, int]:
        """Send all messages and some reports, and hear the receipt."""
        verdicts = self.lab.send([*self.coins.messages(), *frames])
        self.hear()
        return verdicts

    def hear(self) -> CoinReceipt | None:
        """Hear the receipt for this device, if there is one."""
        device = np.array([self.device], np.int64)
        for _, payload in self.lab.engine.receipts(Senders.of(device, np.array([1]))) or ():
            self.said.append(self.coins.receive(payload))
            return self.said[-1]
        return None

    def ready(self) -> None:
        """Commit to batches and pass their audits until it has its reserve."""
        while len(list(self.coins.free())) < self.coins.reserve:
            self.talk()
        self.talk()

    def finish(self) -> dict[str, int]:
        """Let the bucket end, answer the challenge, and return what became of the reports."""
        self.lab.now += self.coins.profile.bucket
        counts: dict[str, int] = {}
        for _ in range(6):
            for verdict, count in self.talk().items():
                counts[verdict] = counts.get(verdict, 0) + count
        return counts
