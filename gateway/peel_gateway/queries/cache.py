# SPDX-License-Identifier: MIT
"""A cache of query results."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["QueryCache"]

Result = TypeVar("Result")

_QUICK_SECONDS = 0.1
_PATIENCE = 10.0


@dataclass(frozen=True)
class _Entry(Generic[Result]):
    result: Result
    generation: int
    computed: float
    """`time.monotonic` when the result was ready."""
    seconds: float
    """Time that the computation took."""

    def is_valid(self, generation: int) -> bool:
        """Whether the store is unchanged, or the result is slow and recent.

        A slow result stays valid for ten times as long as it took, so that recomputing it uses at most a tenth of a core.
        """
        if self.generation == generation:
            return True
        return self.seconds >= _QUICK_SECONDS and time.monotonic() - self.computed < _PATIENCE * self.seconds


class QueryCache(Generic[Result]):
    """Results by query, valid until the store changes. One result is computed at a time.

    Parameters
    ----------
    generation : callable
        Returns a number that grows when the store changes.
    size : callable
        Returns the size of a result.
    capacity : int
        Largest total size of the results; the oldest are dropped first.
    """

    def __init__(self, generation: Callable[[], int], *, size: Callable[[Result], int], capacity: int) -> None:
        self._generation = generation
        self._size = size
        self._capacity = capacity
        self._lock = threading.Lock()
        self._entries: dict[Hashable, _Entry[Result]] = {}

    def get(self, query: Hashable, compute: Callable[[], Result]) -> Result:
        """Return the cached result, or compute and cache it."""
        with self._lock:
            entry = self._entries.get(query)
            if entry is None or not entry.is_valid(self._generation()):
                entry = self._computed(compute)
                self._entries.pop(query, None)
                self._entries[query] = entry
                self._drop_oldest()
            return entry.result

    def _drop_oldest(self) -> None:
        while sum(self._size(entry.result) for entry in self._entries.values()) > self._capacity:
            del self._entries[next(iter(self._entries))]

    def _computed(self, compute: Callable[[], Result]) -> _Entry[Result]:
        generation, begun = self._generation(), time.monotonic()
        result = compute()
        now = time.monotonic()
        return _Entry(result, generation, now, now - begun)
