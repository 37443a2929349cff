# SPDX-License-Identifier: MIT
"""A small fleet whose devices speak through the real encoder, and a gateway engine on a real database."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from databases import Database, SqliteFile

from peel_core import Keyring, Keys, Profile, derive_keys, encode_many, index_many, make_profile
from peel_core.coins import challenge_root
from peel_core.kinds import SIGN
from peel_core.primitives import ascon_seal, codeword
from peel_core.projection import search_seed
from peel_gateway.engine.clock import Reading
from peel_gateway.engine.engine import Engine, look_up
from peel_gateway.estimation.estimate import Estimates, estimates
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.messages import Message
from peel_gateway.model.tables import Slots
from peel_gateway.screening.decode_context import TimesFromDicts
from peel_gateway.screening.state_cache import StateCache

WIDTH = 48
START = 1_700_000_000.0
_MASTER = b"k" * 32


@functools.cache
def harmony_profile(
    k: int = 4, *, epsilon: float = 1.0, quota: int = 100_000, period: int = 60, name: str = "field"
) -> Profile:
    """A profile with a sound seed and attributes a0, a1, ... from 0 to 10."""
    seed, _ = search_seed(WIDTH, k)
    attributes = [{"name": f"a{i}", "kind": "mean", "unit": "C", "low": 0, "high": 10} for i in range(k)]
    return make_profile(
        {
            "name": name,
            "epsilon": epsilon,
            "verify": False,
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
    attribute = {"name": "state", "kind": "category", "categories": [f"c{i}" for i in range(k)]}
    return make_profile(
        {
            "name": "states",
            "epsilon": epsilon,
            "verify": False,
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
            "epsilon": epsilon,
            "verify": False,
            "width": WIDTH,
            "seed": seed,
            "quota": 100_000,
            "period": 60,
        }
        | {"attribute": [{"name": "word", "kind": "hashed", "domain": domain}]}
    )


def chances_of(profile: Profile) -> tuple[float, float]:
    """Return the least and the largest chance with which a report of a profile with one block speaks for a statistic."""
    questions = questions_of(profile)
    return float(questions.least[0]), float(questions.most[0])


class Lab(TimesFromDicts):
    """A fleet, its devices' encoders, and the engine that hears them. Time is what the test says, and the wall clock is off by `skew`."""

    def __init__(
        self, database: Database, profiles: Sequence[Profile], devices: int, chance: np.random.Generator
    ) -> None:
        self.database = database
        self._chance = chance
        self.profiles = tuple(profiles)
        self.ids = np.arange(1, devices + 1, dtype=np.uint32)
        self._bundles = [(device, 1, (device - 1) % len(profiles)) for device in self.ids.tolist()]
        self.keyring = self.whole = self.keyring_of(self.ids)
        self.revoked: frozenset[int] = frozenset()
        self.enrolled: dict[int, float] = dict.fromkeys(self.ids.tolist(), START)
        self.issued: dict[int, tuple[int, float]] = {}
        self.now = START
        self.skew = 0.0
        self.boot = 1
        self.store = database.open()
        self.engine = self.make_engine()

    def keyring_of(self, devices: npt.ArrayLike) -> Keyring:
        """All bundles of some devices."""
        rows = np.array(self._bundles)
        ids, firsts, profile_of = rows[np.isin(rows[:, 0], devices)].T
        keys = derive_keys(_MASTER, "lab", ids, firsts, bytes(16))
        root = challenge_root(_MASTER, "lab")
        return Keyring(self.profiles, ids, firsts, profile_of, keys, challenge_root=root)

    def provision(self, device: int, first_number: int, profile: int | None = None) -> None:
        """Give a device a further bundle, of the profile it has unless told otherwise; the engine learns of it."""
        same = int(self.whole.profile_of[device - 1])
        self._bundles.append((device, first_number, same if profile is None else profile))
        self.keyring = self.whole = self.keyring_of(self.ids)
        self.engine.load(self)

    def keys_of(self, device: int, numbers: npt.ArrayLike) -> Keys:
        """The keys that a device has for some numbers."""
        return self.whole.keys.of(self.whole.find(np.full(np.shape(numbers), device), numbers))

    def chance_bytes(self, size: int) -> bytes:
        """Return random bytes of this test."""
        return self._chance.bytes(size)

    def clock(self) -> Reading:
        """Return a reading of the machine's clocks."""
        return Reading(round((self.now + self.skew) * 1000), self.boot, round(self.now * 1000))

    @property
    def cache(self) -> StateCache:
        """The engine's device states in memory."""
        assert self.engine._cache is not None, "no batch yet"
        return self.engine._cache

    def known(self) -> list[object]:
        """All that the engine knows of each device, whether it has it in memory or must look it up."""
        cache, slots = self.cache, Slots(np.arange(len(self.keyring.device_ids)))
        with self.store.begin() as transaction:
            look_up(cache, slots, transaction)
        test_states = []
        for position, device_tests in enumerate(cache.device_tests):
            rows = device_tests.rows(Slots(np.flatnonzero(cache.context.members(position))))
            test_states.append(device_tests.states[rows].tobytes())
        states = {name: column.tolist() for name, column in cache.gather(slots).columns()}
        return [states, test_states, [total.tolist() for total in cache.totals], cache.arrival]

    def make_engine(self, **options: Any) -> Engine:
        """An engine on the lab's store, as after a restart."""
        engine = Engine(self.store, clock=self.clock, **options)
        engine.load(self)
        return engine

    def reboot(self, *, off: float, skew: float = 0.0, **options: Any) -> None:
        """Switch the gateway's machine off for some seconds, and on again with its wall clock off by `skew`."""
        self.now += off
        self.skew = skew
        self.boot += 1
        self.engine = self.make_engine(**options)

    @property
    def path(self) -> Path:
        """The file that the store is."""
        assert isinstance(self.database, SqliteFile)
        return self.database.path

    def reopen(self, **options: Any) -> None:
        """Close the store and begin again from what it has stored."""
        self.store.close()
        self.store = self.database.open(**options)
        self.engine = self.make_engine()

    def prune(self, before: float) -> int:
        """Drop what was received before, whatever the clock says; return how many log rows went."""
        dropped = 0
        while (aged := self.engine._prune_some(before, max(before, self.now))).arrival:
            dropped += len(aged.log)
        return dropped

    def frames(
        self,
        device: int,
        numbers: Sequence[int] | npt.NDArray[np.int64],
        reading: float = 0.0,
        *,
        bundle: int | None = None,
        readings: Sequence[Sequence[int]] | None = None,
        **options: Any,
    ) -> list[bytes]:
        """Frames of one device; a reading is on [-1, 1], or a category. `readings` has one integer per report and question instead.

        Keys and profile are those of the numbers (of the first one), or those of the bundle that begins with another number.
        """
        count = len(numbers)
        if not count:
            return []
        using = numbers if bundle is None else np.full(count, bundle)
        profile = self.profile(device, using[0])
        value = round(reading * 32768) if profile.blocks[0].form == SIGN else int(reading)
        given = np.full((count, len(profile.questions)), value, np.int32) if readings is None else readings
        frames = encode_many(
            profile,
            np.full(count, device),
            self.keys_of(device, using),
            numbers,
            given,
            entropy=self._chance.bytes(64),
            **options,
        )
        return [frame.tobytes() for frame in frames]

    def profile(self, device: int, number: int) -> Profile:
        """Return the profile of a device's report with this number."""
        (bundle,) = self.whole.find([device], [number])
        return self.profiles[int(self.whole.bundle_profile[bundle])]

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
        profile, keys = self.profile(device, number), self.keys_of(device, [number])
        unit = int(index_many(profile, [device], keys, [number])[0])
        if index is None:
            block = profile.blocks[profile.block_of_unit(unit)]
            index = block.first_column + (unit - block.first_unit if block.form == SIGN else 0)
        header = b"".join(
            value.to_bytes(size, "little")
            for value, size in ((0x10, 1), (0, 1), (profile.id, 4), (device, 4), (number, 6))
        )
        body = (int(profile.rules(unit)) if rule is None else rule).to_bytes(4, "little")
        body += codeword(profile.seed, profile.width, index, minus) if trits is None else trits
        text, tag = ascon_seal(keys.seal[0].tobytes(), header, b"", body)
        return header + text + tag[:8]

    def messages(self, frames: Sequence[bytes]) -> list[Message]:
        """One message per frame, received now."""
        return [Message("peel/v1/lab/00/x/report", frame, self.now + self.skew) for frame in frames]

    def estimates(self) -> list[Estimates]:
        """Return the first profile's estimates."""
        return estimates(self.profiles[0], self.store.device_tallies(self.profiles[0].id))

    def send(self, frames: Sequence[bytes], **options: Any) -> dict[str, int]:
        """Process frames as one batch; return reports by verdict."""
        report = self.engine.process(self.messages(frames), **options)
        return {verdict.label: count for verdict, count in report.counts.items()}


Makers = tuple[Callable[..., Profile], Callable[..., Profile]]
"""Of Harmony profiles and of kRR profiles."""

MakeLab = Callable[..., Lab]
"""From profiles and a number of devices."""
