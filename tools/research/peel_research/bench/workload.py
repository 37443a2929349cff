# SPDX-License-Identifier: MIT
"""Honest reports for benchmarks: a fleet in memory, whose devices speak in turn through the real encoder."""

from __future__ import annotations

import functools
import os
import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile, derive_keys, encode_many, make_profile
from peel_core.projection import search_seed
from peel_gateway.model.messages import MessageBatch
from peel_gateway.screening.decode_context import DeviceSource, TimesFromDicts

__all__ = ["BATCH", "Workload", "bench_profile", "small_registry"]

BATCH = 2000
"""Reports that the engine takes at once: about what a full queue brings."""
_TOPIC = b"peel/v1/bench/00/00000001/report"


@functools.cache
def bench_profile(k: int) -> Profile:
    """Harmony with so many attributes, at a pace that nothing here exceeds."""
    width = max(48, k)
    attributes = [{"name": f"a{i}", "low": 0, "high": 1} for i in range(k)]
    table = {"name": "bench", "mechanism": "harmony", "epsilon": 1, "quota": 100_000, "period": 1}
    return make_profile({**table, "width": width, "seed": search_seed(width, k)[0], "attribute": attributes})


@dataclass(frozen=True)
class _Registry(TimesFromDicts):
    keyring: Keyring
    revoked: frozenset[int] = frozenset()
    enrolled: dict[int, float] = field(default_factory=dict)
    issued: dict[int, tuple[int, float]] = field(default_factory=dict)


def small_registry(k: int, devices: int) -> DeviceSource:
    """So many devices of one profile."""
    ids = np.arange(1, devices + 1, dtype=np.uint32)
    keys = derive_keys(bytes(32), "bench", ids, 1, bytes(16))
    return _Registry(Keyring([bench_profile(k)], ids, 1, np.zeros(devices), keys))


class Workload:
    """Batches of single frames, one report of each device after the other.

    Parameters
    ----------
    registry : Registry
        Devices of one profile, with one bundle each.
    speaking : int, optional
        How many of them speak, spread over all.
    """

    def __init__(self, registry: DeviceSource, speaking: int | None = None) -> None:
        self.registry = registry
        keyring = registry.keyring
        (self.profile,) = keyring.profiles
        devices = len(keyring.device_ids)
        count = devices if speaking is None else speaking
        chosen = np.arange(count) * devices // count
        self._ids = keyring.device_ids[chosen]
        self._keys = keyring.keys.of(keyring.last_bundle[chosen])
        self._sent = 0

    @property
    def first_contacts(self) -> int:
        """Batches until every device has spoken."""
        return -(-len(self._ids) // BATCH)

    def batch(self, size: int = BATCH) -> MessageBatch:
        """The next reports, one per message, received now."""
        turn = self._sent + np.arange(size)
        self._sent += size
        who, numbers = turn % len(self._ids), 1 + turn // len(self._ids)
        readings = np.zeros((size, self.profile.readings), np.int32)
        frames = encode_many(
            self.profile, self._ids[who], self._keys.of(who), numbers, readings, entropy=os.urandom(64)
        )
        return MessageBatch(
            payloads=frames.tobytes(),
            payload_ends=_ends(size, frames.shape[1]),
            topics=_TOPIC * size,
            topic_ends=_ends(size, len(_TOPIC)),
            received=np.full(size, round(time.time() * 1000), np.int64),
        )


def _ends(count: int, size: int) -> npt.NDArray[np.uint64]:
    return np.arange(1, count + 1, dtype=np.uint64) * np.uint64(size)
