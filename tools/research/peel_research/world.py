# SPDX-License-Identifier: MIT
"""A fleet of one profile and the gateway's engine on a real database, in one process, with a simulated clock."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Keys, Profile, derive_keys
from peel_gateway.engine.clock import Reading
from peel_gateway.engine.engine import Engine
from peel_gateway.storage.sqlite.store import SqliteStore

__all__ = ["World"]

START = 1_700_000_000.0
_DAY = 86_400
_MASTER = bytes(32)
"""Keys need not be secret here."""
_BOOT = 1
_MEMORY = Path("/dev/shm")  # noqa: S108  (a directory of its own is made in it)
"""The database is in memory if possible, because it need not outlive the process and syncing takes most of the time."""


@dataclass
class World:
    """Devices 1, 2, ... that were enrolled some days ago, and the engine that judges them. It is also the engine's device directory."""

    engine: Engine
    store: SqliteStore
    rng: np.random.Generator
    profile: Profile
    ids: npt.NDArray[np.uint32]
    keys: Keys
    keyring: Keyring
    enrolled: float
    """Unix seconds, of all of them."""
    now: float = START
    revoked: frozenset[int] = frozenset()

    def enrolled_at(self, devices: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the enrolment times of devices, float64[N]."""
        return np.full(len(devices), self.enrolled)

    def issued_at(self, devices: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return no bundles."""
        return np.zeros(len(devices), np.int64), np.zeros(len(devices))

    @classmethod
    @contextmanager
    def opened(
        cls, fleet: str, profile: Profile, devices: int, *, seed: int, bucket_seconds: int, days: float
    ) -> Iterator[Self]:
        """Open a world whose devices were enrolled this many days ago. Its database is removed at the end."""
        ids = np.arange(1, devices + 1, dtype=np.uint32)
        keys = derive_keys(_MASTER, fleet, ids, 1, bytes(16))
        with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
            store = SqliteStore(Path(folder) / "world.sqlite", bucket_seconds=bucket_seconds)

            def clock() -> Reading:
                return Reading(round(world.now * 1000), _BOOT, round(world.now * 1000))

            world = cls(
                engine=Engine(store, clock=clock),
                store=store,
                rng=np.random.default_rng(seed),
                profile=profile,
                ids=ids,
                keys=keys,
                keyring=Keyring([profile], ids, 1, np.zeros(devices), keys),
                enrolled=START - days * _DAY,
            )
            world.engine.load(world)
            try:
                yield world
            finally:
                store.close()
