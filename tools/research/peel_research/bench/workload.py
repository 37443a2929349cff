# SPDX-License-Identifier: MIT
"""Honest reports for benchmarks: a fleet in memory, whose devices speak in turn through the real encoder."""

from __future__ import annotations

import functools
import os
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Keyring, Profile, derive_keys, encode_many, make_profile
from peel_core.projection import search_seed
from peel_gateway.model.messages import MessageBatch
from peel_gateway.screening.decode_context import DeviceSource, TimesFromDicts

__all__ = ["BATCH", "Workload", "bench_profile", "mixed_profile", "small_registry"]

BATCH = 2000
"""Reports that the engine takes at once: about what a full queue brings."""
_TOPIC = b"peel/v1/bench/00/00000001/report"


@functools.cache
def bench_profile(k: int) -> Profile:
    """Return a profile of k means, with a quota that no benchmark exceeds."""
    return _profile([_attribute(place, "mean") for place in range(k)])


@functools.cache
def mixed_profile() -> Profile:
    """Return a profile of 16 attributes of all kinds: 6 means, 4 with thresholds, 2 ladders, 3 of few categories, one hashed."""
    kinds = ["mean"] * 6 + ["above"] * 4 + ["ladder"] * 2 + ["category"] * 3 + ["hashed"]
    return _profile([_attribute(place, kind) for place, kind in enumerate(kinds)])


_KEYS: dict[str, dict[str, Any]] = {
    "mean": {"low": 0, "high": 1},
    "above": {"thresholds": [0.3, 0.6]},
    "ladder": {"low": 0, "high": 1, "rungs": 8},
    "category": {"categories": ["open", "shut", "ajar"]},
    "hashed": {"domain": 5000},
}


def _attribute(place: int, kind: str) -> dict[str, Any]:
    return {"name": f"a{place}", "kind": kind, **_KEYS[kind]}


def _profile(attributes: list[dict[str, Any]]) -> Profile:
    table = {"name": "bench", "epsilon": 1, "verify": False, "quota": 100_000, "period": 1, "attribute": attributes}
    draft = make_profile({**table, "seed": 0})
    return replace(draft, seed=search_seed(draft.width, draft.k)[0])


@dataclass(frozen=True)
class _Registry(TimesFromDicts):
    keyring: Keyring
    revoked: frozenset[int] = frozenset()
    enrolled: dict[int, float] = field(default_factory=dict)
    issued: dict[int, tuple[int, float]] = field(default_factory=dict)


def small_registry(profile: Profile, devices: int) -> DeviceSource:
    """Return so many devices of a profile."""
    ids = np.arange(1, devices + 1, dtype=np.uint32)
    keys = derive_keys(bytes(32), "bench", ids, 1, bytes(16))
    return _Registry(Keyring([profile], ids, 1, np.zeros(devices), keys))


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
        readings = np.zeros((size, len(self.profile.questions)), np.int32)
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
