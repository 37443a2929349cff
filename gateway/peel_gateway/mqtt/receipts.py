# SPDX-License-Identifier: MIT
"""Receipts: tell devices which of their reports are stored, at a limited rate.

A device keeps a report until a receipt acknowledges it. After a commit, each device that sent a report in the batch, even
one that was stored before, is owed a receipt. The receipt is published at once, or when the pause after the device's last one is over.
It is retained, at QoS 0: if it is lost, the device sends its reports again and gets another. What is owed is kept in memory only; a receipt
is computed from the store.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from peel_core.topics import device_topic
from peel_gateway.model.messages import Senders

__all__ = ["Receipts"]

Ints = npt.NDArray[np.int64]
Publish = Callable[[Sequence[tuple[str, bytes]]], None]
"""Publishes retained messages, given by topic and payload."""


class _Source(Protocol):
    """Writes receipts from the content of the store: the engine."""

    def receipts(self, senders: Senders) -> list[tuple[int, bytes]] | None: ...


class Receipts:
    """Publishes receipts, per device at most one in `pause` seconds. Used by one thread, which calls `flush` after each batch."""

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
        self._due = Senders.nothing()
        self._recent = np.zeros(0, np.int64)
        self._recent_at = np.zeros(0)

    def add(self, senders: Senders) -> None:
        """Note devices whose reports are stored. Call it after the commit."""
        self._due = self._due.joined(senders)

    def flush(self) -> None:
        """Publish the receipts that are due and outside their device's pause."""
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
