# SPDX-License-Identifier: MIT
"""A small fleet whose devices speak through the real encoder, and a gateway engine on a real database."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile, derive_keys, encode_many, index_many, make_profile
from peel_core.primitives import ascon_seal, codeword
from peel_core.projection import search_seed
from peel_gateway.engine.clock import Reading
from peel_gateway.engine.engine import Engine
from peel_gateway.estimation.estimate import Estimates, estimates
from peel_gateway.model.message import Message
from peel_gateway.screening.book import Book
from peel_gateway.storage.sqlite.store import SqliteStore

WIDTH = 48
START = 1_700_000_000.0


@functools.cache
def harmony_profile(
    k: int = 4, *, epsilon: float = 1.0, quota: int = 100_000, period: int = 60, name: str = "field"
) -> Profile:
    """A profile with a sound seed and attributes a0, a1, ... from 0 to 10."""
    seed, _ = search_seed(WIDTH, k)
    attributes = [{"name": f"a{i}", "unit": "C", "low": 0, "high": 10} for i in range(k)]
    return make_profile(
        {
            "name": name,
            "mechanism": "harmony",
            "epsilon": epsilon,
            "width": WIDTH,
            "seed": seed,
            "quota": quota,
            "period": period,
        }
        | {"attribute": attributes}
    )


@functools.cache
def krr_profile(k: int = 4, *, epsilon: float = 1.0) -> Profile:
    """A profile that counts k categories."""
    seed, _ = search_seed(WIDTH, k)
    attribute = {"name": "state", "categories": [f"c{i}" for i in range(k)]}
    return make_profile(
        {
            "name": "states",
            "mechanism": "krr",
            "epsilon": epsilon,
            "width": WIDTH,
            "seed": seed,
            "quota": 100_000,
            "period": 60,
        }
        | {"attribute": [attribute]}
    )


@functools.cache
def hashing_profile(domain: int = 1000, *, epsilon: float = 1.0) -> Profile:
    """A profile that counts so many categories, without names, by local hashing."""
    seed, _ = search_seed(WIDTH, WIDTH)
    return make_profile(
        {
            "name": "words",
            "mechanism": "hashing",
            "epsilon": epsilon,
            "width": WIDTH,
            "seed": seed,
            "quota": 100_000,
            "period": 60,
        }
        | {"attribute": [{"name": "word", "domain": domain}]}
    )


class Lab:
    """A fleet, its devices' encoders, and the engine that hears them. Time is what the test says, and the wall clock is off by `skew`."""

    def __init__(self, path: Path, profiles: Sequence[Profile], devices: int, chance: np.random.Generator) -> None:
        self.path = path
        self._chance = chance
        self.profiles = tuple(profiles)
        self.ids = np.arange(1, devices + 1, dtype=np.uint32)
        self.profile_of = np.arange(devices) % len(profiles)
        self.seal, self.index = derive_keys(b"k" * 32, "lab", self.ids)
        self.keyring = Keyring(self.profiles, self.ids, self.profile_of, self.seal, self.index)
        self.revoked: frozenset[int] = frozenset()
        self.enrolled: dict[int, float] = dict.fromkeys(self.ids.tolist(), START)
        self.issued: dict[int, tuple[int, float]] = {}
        self.now = START
        self.skew = 0.0
        self.boot = 1
        self.store = SqliteStore(path)
        self.engine = self.make_engine()

    def clock(self) -> Reading:
        """What the gateway's machine reads."""
        return Reading(round((self.now + self.skew) * 1000), self.boot, round(self.now * 1000))

    @property
    def book(self) -> Book:
        """What the engine remembers of the devices."""
        assert self.engine._book is not None, "no batch yet"
        return self.engine._book

    def make_engine(self, **options: object) -> Engine:
        """An engine on the lab's store, as after a restart."""
        engine = Engine(self.store, clock=self.clock, **options)  # type: ignore[arg-type]
        engine.load(self)
        return engine

    def reboot(self, *, off: float, skew: float = 0.0, **options: object) -> None:
        """Switch the gateway's machine off for some seconds, and on again with its wall clock off by `skew`."""
        self.now += off
        self.skew = skew
        self.boot += 1
        self.engine = self.make_engine(**options)

    def reopen(self) -> None:
        """Close the database and begin again from the file."""
        self.store.close()
        self.store = SqliteStore(self.path)
        self.engine = self.make_engine()

    def prune(self, before: float) -> int:
        """Drop what was received before, whatever the clock says; return how many log rows went."""
        dropped = 0
        while gone := self.engine._prune_some(before):
            dropped += gone
        return dropped

    def frames(
        self, device: int, numbers: Sequence[int] | npt.NDArray[np.int64], reading: float = 0.0, **options: object
    ) -> list[bytes]:
        """Frames of one device; a Harmony reading is on [-1, 1], a kRR one is the category."""
        profile = self.profiles[self.profile_of[device - 1]]
        count = len(numbers)
        who = np.full(count, device - 1)
        if profile.mechanism == "harmony":
            readings = np.full((count, profile.k), round(reading * 32768), np.int32)
        else:
            readings = np.full(count, int(reading), np.int32)
        frames = encode_many(
            profile,
            self.ids[who],
            self.seal[who],
            self.index[who],
            numbers,
            readings,
            entropy=self._chance.bytes(64),
            **options,  # type: ignore[arg-type]
        )
        return [frame.tobytes() for frame in frames]

    def sealed(
        self,
        device: int,
        number: int,
        index: int | None = None,
        minus: int = 0,
        *,
        rule: int | None = None,
        trits: bytes | None = None,
    ) -> bytes:
        """One frame with any content under the device's own seal: what a compromised device can send. By default J is the assigned one."""
        profile = self.profiles[self.profile_of[device - 1]]
        if index is None:
            index = int(index_many(profile, [device], self.index[device - 1 : device], [number])[0])
        header = b"".join(
            value.to_bytes(size, "little")
            for value, size in ((0x10, 1), (profile.mechanism_id, 1), (profile.id, 4), (device, 4), (number, 6))
        )
        body = (profile.rule if rule is None else rule).to_bytes(4, "little")
        body += codeword(profile.seed, profile.width, index, minus) if trits is None else trits
        text, tag = ascon_seal(self.seal[device - 1].tobytes(), header, b"", body)
        return header + text + tag[:8]

    def messages(self, frames: Sequence[bytes]) -> list[Message]:
        """One message per frame, received now."""
        return [Message("peel/v1/lab/00/x/report", frame, self.now) for frame in frames]

    def estimates(self) -> list[Estimates]:
        """What the first profile's reports say so far."""
        return estimates(self.profiles[0], self.store.device_tallies(self.profiles[0].id))

    def send(self, frames: Sequence[bytes], **options: object) -> dict[str, int]:
        """Process frames as one batch; return reports by verdict."""
        report = self.engine.process(self.messages(frames), **options)  # type: ignore[arg-type]
        return {verdict.label: count for verdict, count in report.counts.items()}


Makers = tuple[Callable[..., Profile], Callable[..., Profile]]
"""Of Harmony profiles and of kRR profiles."""

MakeLab = Callable[..., Lab]
"""From profiles and a number of devices."""
