# SPDX-License-Identifier: MIT
"""Answers that take long to find, kept for those who ask again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Memory"]

Answer = TypeVar("Answer")

_QUICK_SECONDS = 0.1
_PATIENCE = 10.0


@dataclass(frozen=True)
class _Kept(Generic[Answer]):
    answer: Answer
    generation: int
    found: float
    """`time.monotonic` when it was there."""
    seconds: float
    """How long it took."""

    def good(self, generation: int) -> bool:
        """Still true, or so slow to find that it is given for ten times as long: no more than a tenth of a core goes into it."""
        if self.generation == generation:
            return True
        return self.seconds >= _QUICK_SECONDS and time.monotonic() - self.found < _PATIENCE * self.seconds


class Memory(Generic[Answer]):
    """Answers by question, for as long as the store has not changed since; one is looked for at a time.

    Parameters
    ----------
    generation : callable
        Grows when the store changes.
    size : callable
        How large an answer is.
    room : int
        How large all that are kept may be together; the oldest go first.
    """

    def __init__(self, generation: Callable[[], int], *, size: Callable[[Answer], int], room: int) -> None:
        self._generation = generation
        self._size = size
        self._room = room
        self._lock = threading.Lock()
        self._kept: dict[Hashable, _Kept[Answer]] = {}

    def recall(self, question: Hashable, find: Callable[[], Answer]) -> Answer:
        """The answer that is kept, or what `find` finds."""
        with self._lock:
            kept = self._kept.get(question)
            if kept is None or not kept.good(self._generation()):
                kept = self._find(find)
                self._kept.pop(question, None)
                self._kept[question] = kept
                self._make_room()
            return kept.answer

    def _make_room(self) -> None:
        while sum(self._size(kept.answer) for kept in self._kept.values()) > self._room:
            del self._kept[next(iter(self._kept))]

    def _find(self, find: Callable[[], Answer]) -> _Kept[Answer]:
        generation, begun = self._generation(), time.monotonic()
        answer = find()
        now = time.monotonic()
        return _Kept(answer, generation, now, now - begun)
