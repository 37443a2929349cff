# SPDX-License-Identifier: MIT
"""Devices with verified coins that talk to a lab's engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from lab import Lab

from peel_core import Profile, encode_many
from peel_core.coin_device import CoinDevice
from peel_core.coin_receipts import CoinReceipt
from peel_gateway.model.coins import Batches, CoinTable
from peel_gateway.model.messages import Senders
from peel_gateway.model.tables import DeviceTable
from peel_gateway.storage.store import Store

__all__ = ["StoredCoins", "Talker", "coins_of", "verified"]


@dataclass(frozen=True)
class StoredCoins:
    """One device's verified coins in a store."""

    era: bytes
    table: CoinTable
    """One entry, or none if it never committed."""
    batches: Batches
    states: DeviceTable

    @property
    def held(self) -> int:
        """Reports that wait for their coins."""
        return int(self.states.held.sum())

    @property
    def free(self) -> int:
        """Numbers that it may still report under."""
        last = self.states.last_number if len(self.states) else np.zeros(1, np.int64)
        return int(self.batches.free(last).sum())

    @property
    def asked(self) -> int:
        """When the open audit or challenge began; 0 without one."""
        return int(self.table.asked.sum())


def coins_of(store: Store, device: int = 1) -> StoredCoins:
    """Read the verified coins of a device."""
    ids = np.array([device], np.int64)
    era, table = store.read_coins(ids)
    return StoredCoins(era, table, Batches.of_devices(table.batches), store.devices(ids))


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
