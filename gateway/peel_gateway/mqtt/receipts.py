# SPDX-License-Identifier: MIT
"""Receipts: telling devices what has been stored of theirs, soon after the first report and then not too often.

A device keeps a report until it is told. Whatever is heard of a device after a commit, a redelivery too, makes a receipt due; it is
published at once, or when the pause after the last one is over. It is retained and at QoS 0: one that is lost is missed by nobody but
its device, which sends its reports again and is told again. Nothing of this is stored; all of it follows from the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from peel_core.topics import device_topic
from peel_gateway.model.heard import Heard

__all__ = ["Receipts"]

Ints = npt.NDArray[np.int64]
Publish = Callable[[Sequence[tuple[str, bytes]]], None]
"""Takes topics and payloads that are to be published, retained."""


class _Source(Protocol):
    """What knows the store: the engine."""

    def receipts(self, heard: Heard) -> list[tuple[int, bytes]] | None: ...


class Receipts:
    """Says what is stored, per device at most once in `pause` seconds. For one thread, which calls `flush` now and then."""

    def __init__(
        self,
        source: _Source,
        fleet: str,
        publish: Publish,
        *,
        pause: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._fleet = fleet
        self._publish = publish
        self._pause = pause
        self._clock = clock
        self._due = Heard.nothing()
        self._recent = np.zeros(0, np.int64)
        self._recent_at = np.zeros(0)

    def add(self, heard: Heard) -> None:
        """Note devices of which something was stored, or had been; after the commit."""
        self._due = self._due.joined(heard)

    def flush(self) -> None:
        """Publish what is due and not too soon."""
        now = self._clock()
        recent = self._recent_at > now - self._pause
        self._recent, self._recent_at = self._recent[recent], self._recent_at[recent]
        ready = ~np.isin(self._due.device, self._recent)
        if not ready.any():
            return
        chosen = self._due.only(ready)
        written = self._source.receipts(chosen)
        if written is None:
            return
        self._due = self._due.only(~ready)
        self._recent = np.concatenate([self._recent, chosen.device])
        self._recent_at = np.concatenate([self._recent_at, np.full(len(chosen.device), now)])
        self._publish([(device_topic(self._fleet, device, "receipt"), payload) for device, payload in written])
