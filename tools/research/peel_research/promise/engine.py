# SPDX-License-Identifier: MIT
"""Insiders against the whole engine: what needs time buckets, late delivery, other devices or a new name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Profile, encode_many, index_many, make_profile
from peel_core.kinds import SIGN
from peel_core.primitives import READING_ONE, codeword
from peel_gateway.model.messages import Message
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.bucketing import NO_BUCKET
from peel_gateway.storage.records import read_log
from peel_research.world import World
from peel_tools.simulation.piece import sealed_frame

__all__ = ["Coalition", "Site", "burst_share_over_fair", "coalition", "late_delivery"]

Ints = npt.NDArray[np.int64]

QUOTA, PERIOD = 288, 86_400
"""A report every five minutes."""
BUCKET = 3600
K = 8


def _profile() -> Profile:
    attributes = [{"name": f"a{i}", "kind": "mean", "low": -1, "high": 1} for i in range(K)]
    table = {"name": "promise", "epsilon": 1, "verify": False, "seed": 1, "quota": QUOTA, "period": PERIOD}
    return make_profile({**table, "width": 48, "attribute": attributes})


class Site(World):
    """Devices that know what they want to say."""

    def honest(self, device: int, numbers: Sequence[int], reading: float) -> list[bytes]:
        """Return reports of a true or false reading, made with an honest coin; of category 1 about choices."""
        who = np.full(len(numbers), device - 1)
        answers = [round(reading * READING_ONE) if each.form == SIGN else 1 for each in self.profile.questions]
        readings = np.tile(np.array(answers, np.int32), (len(numbers), 1))
        frames = encode_many(
            self.profile,
            self.ids[who],
            self.keys.of(who),
            numbers,
            readings,
            entropy=self.rng.bytes(64),
        )
        return [frame.tobytes() for frame in frames]

    def plus(self, device: int, numbers: Sequence[int]) -> list[bytes]:
        """Plus, whatever the coin says, under the device's own seal."""
        who = np.full(len(numbers), device - 1)
        assigned = index_many(self.profile, self.ids[who], self.keys.of(who), numbers)
        key, seed, width = self.keys.seal[device - 1].tobytes(), self.profile.seed, self.profile.width
        return [
            sealed_frame(
                self.profile, device, number, key, codeword(seed, width, int(j), 0), self.profile.blocks[0].rule
            )
            for number, j in zip(numbers, assigned, strict=True)
        ]

    def send(self, frames: Sequence[bytes]) -> list[int]:
        """Have one batch processed; return the devices that it exposed."""
        report = self.engine.process([Message("", frame, self.now) for frame in frames])
        return [each.device for each in report.exposed_devices]


def _site(devices: int, seed: int) -> AbstractContextManager[Site]:
    return Site.opened("promise", _profile(), devices, seed=seed, bucket_seconds=BUCKET, days=14)


def burst_share_over_fair() -> float:
    """The most that a hoard holds of any bucket, over what an honest device at full quota holds: for each order of delivery."""
    orders: tuple[Callable[[list[bytes]], list[list[bytes]]], ...] = (
        lambda frames: [frames],
        lambda frames: [[frame] for frame in frames],
        lambda frames: [[frame] for frame in reversed(frames)],
    )
    worst = 0.0
    for order in orders:
        with _site(devices=2, seed=5) as site:
            for batch in order(site.honest(2, range(1, 401), 1.0)):
                site.send(batch)
            log = read_log(site.store)
            counted = (log.verdict == Verdict.ACCEPTED) & (log.bucket != NO_BUCKET)
            held = Counter(log.bucket[counted].tolist())
            worst = max(worst, max(held.values()) / (QUOTA * BUCKET / PERIOD))
    return worst


def late_delivery() -> int | None:
    """Reports of a device until it is exposed that shows plus, and delivers each number only after it was settled as missing."""
    with _site(devices=2, seed=6) as site:
        site.send(site.honest(2, range(1, 1001, 40), 0.0))
        late = [number for number in range(2, 1000) if number % 40 != 1]
        for sent, number in enumerate(late, start=1):
            if 2 in site.send(site.plus(2, [number])):
                return sent
    return None


@dataclass(frozen=True)
class Coalition:
    """The outcome of a coalition of insiders."""

    slowest: int | None
    """Reports until the last of them was exposed; None if one never was."""
    honest_exposed: int
    honest_reports: int


def coalition(share: float, devices: int = 100, reports: int = 200) -> Coalition:
    """Insiders who show plus to turn the cohort against honest devices at the other extreme.

    The honest ones read -1: whatever sign the cohort has, they differ from it, or agree with it, as often as an honest coin may.
    """
    insiders = set(range(1, round(share * devices) + 1))
    exposed: dict[int, int] = {}
    with _site(devices, seed=7) as site:
        for number in range(1, reports + 1):
            site.now += PERIOD / QUOTA
            frames = [frame for device in insiders for frame in site.plus(device, [number])]
            for device in set(range(1, devices + 1)) - insiders:
                frames += site.honest(device, [number], -1.0)
            for device in site.send(frames):
                exposed[device] = number
    return Coalition(
        slowest=max(exposed[each] for each in insiders) if insiders <= exposed.keys() else None,
        honest_exposed=len(exposed.keys() - insiders),
        honest_reports=(devices - len(insiders)) * reports,
    )
