# SPDX-License-Identifier: MIT
"""Honest devices with verified coins on the real engine, what a malicious gateway learns from a coin, and all figures of both."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from peel_core import encode_many
from peel_core.coin_device import CoinDevice
from peel_gateway.model.messages import Message
from peel_gateway.model.verdict import Verdict
from peel_research.promise import verified_gateway, verified_insiders
from peel_research.promise.verified_fleet import BUCKET_SECONDS, Fleet, means, verified_profile

__all__ = ["figures", "honest", "malicious_gateway_excess"]

_PER_BUCKET = 24
_LOST = 0.05
"""The part of payloads that the network loses, in each direction; another part comes twice."""
_POWER_CUT = 0.02
"""The probability of a power cut in a time bucket: of each device, and of the gateway."""


@dataclass
class _Honest:
    coins: CoinDevice
    outbox: dict[int, bytes]
    highest: int = 0
    """The highest number that it has reported under."""

    def report(self, fleet: Fleet, count: int, chance: np.random.Generator) -> None:
        numbers = list(self.coins.free())[:count]
        if not numbers:
            return
        readings = chance.integers(-32768, 32769, (len(numbers), 4)).astype(np.int32)
        ids, keys = np.full(len(numbers), self.coins.device), self.coins.keys.of(np.zeros(len(numbers), np.int64))
        frames = encode_many(
            fleet.profile, ids, keys, numbers, readings, entropy=chance.bytes(64), coin_seeds=self.coins.seeds(numbers)
        )
        for number, frame in zip(numbers, frames, strict=True):
            self.coins.reported(number)
            self.outbox[number] = frame.tobytes()
        self.highest = numbers[-1]

    def cut_power(self) -> None:
        """Start again from what a device keeps on flash."""
        before = self.coins
        self.coins = CoinDevice(before.profile, before.device, before.keys, random=before.random)
        self.coins.restore(before.state(), self.highest, before.unopened_numbers())

    def payloads(self) -> Iterator[bytes]:
        """Yield everything that no receipt has confirmed, as a device does after a power cut."""
        frames = [*self.coins.messages(), *self.outbox.values()]
        for begin in range(0, len(frames), 8):
            yield b"".join(frames[begin : begin + 8])

    def hear(self, payload: bytes) -> None:
        receipt = self.coins.receive(payload).settled
        for number in list(self.outbox):
            if number <= receipt.upto or any(first <= number <= last for first, last in receipt.runs):
                del self.outbox[number]


def honest(reports: int, devices: int = 200, seed: int = 1) -> dict[str, int]:
    """Let honest devices report through a network that loses, repeats and reorders, and through power cuts of all.

    Returns the counts of reports and of exposed devices.
    """
    chance = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), devices, verified_profile(means(4)))
        fleet_devices = [
            _Honest(CoinDevice(fleet.profile, at + 1, fleet.keys.of([at]), random=chance.bytes), {})
            for at in range(devices)
        ]
        counted = 0
        while counted < reports:
            for each in fleet_devices:
                each.report(fleet, _PER_BUCKET, chance)
            for place in np.flatnonzero(chance.random(devices) < _POWER_CUT).tolist():
                fleet_devices[place].cut_power()
            if chance.random() < _POWER_CUT:
                fleet.cut_power()
            for _ in range(4):
                counted += _deliver(fleet, fleet_devices, chance)
                fleet.now += BUCKET_SECONDS / 4
        exposed = int((fleet.store.devices().cause != 0).sum())
        fleet.store.close()
    return {"honest_reports": counted, "honest_exposed": exposed}


def _deliver(fleet: Fleet, devices: Sequence[_Honest], chance: np.random.Generator) -> int:
    payloads = [payload for each in devices for payload in each.payloads()]
    times = chance.choice([0, 1, 2], len(payloads), p=[_LOST, 1 - 2 * _LOST, _LOST])
    sent = [payload for payload, count in zip(payloads, times.tolist(), strict=True) for _ in range(count)]
    chance.shuffle(sent)
    done = fleet.engine.process([Message("peel", payload, fleet.now) for payload in sent])
    for device, receipt in fleet.engine.receipts(done.senders) or ():
        if chance.random() > _LOST:
            devices[device - 1].hear(receipt)
    return done.counts.get(Verdict.ACCEPTED, 0)


def malicious_gateway_excess(
    coins: Sequence[tuple[int, int, int]] = ((8, 3, 2), (8, 3, 3), (8, 3, 16), (3, 1, 2)),
) -> float:
    """Return how far the likelihood ratio of all that a gateway sees of a report exceeds the odds, at most, by enumeration.

    This is about the coin alone, of any size. `verified_gateway` plays against a device with a small one.

    Coins are given as keep, change and symbols. For each answer and each outcome that the gateway may pick, the pairs of mask and shift
    are counted that give a masked answer and an opened outcome. The ratio of two counts is the likelihood ratio.
    """
    return float(max(_excess(*coin) for coin in coins))


def _excess(keep: int, change: int, symbols: int) -> Fraction:
    size = keep + (symbols - 1) * change
    pattern = [0] * keep + [offset for offset in range(1, symbols) for _ in range(change)]
    most = Fraction(0)
    for index in range(size):
        seen: list[dict[tuple[int, int], int]] = []
        for answer in range(symbols):
            counts: dict[tuple[int, int], int] = {}
            for mask in range(symbols):
                for shift in range(size):
                    view = ((answer - mask) % symbols, (mask + pattern[(shift + index) % size]) % symbols)
                    counts[view] = counts.get(view, 0) + 1
            seen.append(counts)
        for view in seen[0]:
            counts_of_view = [each.get(view, 0) for each in seen]
            most = max(most, Fraction(max(counts_of_view), min(counts_of_view)) / Fraction(keep, change) - 1)
    return most


def figures(reports: int) -> dict[str, Any]:
    """Return the figures of verified coins that are measured on the engine, or enumerated. `reports` are those of honest devices."""
    explored = verified_gateway.figures()
    return {
        **honest(reports),
        "malicious_gateway_excess": max(malicious_gateway_excess(), explored["malicious_gateway_excess"]),
        "malicious_gateway_states": explored["malicious_gateway_states"],
        **verified_insiders.figures(on_progress=lambda line: print(line, file=sys.stderr)),
    }
