# SPDX-License-Identifier: MIT
"""Messages between the network and the store: bounded, taken in batches by size and time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

from peel_gateway.mqtt.connection import InFlight

__all__ = ["Inbox"]

_PACE_MESSAGES = 4
"""Fewer have no pace."""
_SILENT_GAPS = 8.0
"""Silence that is so many times the usual gap between two messages is no chance: one in 3,000 where they come at random."""
_SILENT_PART = 0.05
"""Less than this part of the time to linger is no silence at any pace: machines and lines stutter."""


class Inbox:
    """One thread puts, another takes. Pending means put and not yet released, so a batch in the making counts.

    Each counter has one writer, so that the hot path needs no lock; `wake` wakes the taker once per burst.
    """

    def __init__(self, *, limit_messages: int, limit_bytes: int) -> None:
        self._limit_messages = limit_messages
        self._limit_bytes = limit_bytes
        self._waiting: deque[InFlight] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._put_messages = self._put_bytes = 0
        self._taken_messages = self._taken_bytes = 0
        self._released_messages = self._released_bytes = 0
        self._taken_first: float | None = None

    @property
    def pending(self) -> int:
        """Messages put and not released."""
        return self._put_messages - self._released_messages

    def room(self, *, beyond: int = 0) -> int:
        """How many messages may be put, or could be if the limit were higher by `beyond`; 0 once the limit of bytes is reached."""
        if self._closed or self._put_bytes - self._released_bytes >= self._limit_bytes:
            return 0
        return max(0, self._limit_messages + beyond - self.pending)

    def put(self, received: InFlight) -> None:
        """Add messages; `wake` has to follow."""
        self._waiting.append(received)
        self._put_messages += len(received.mail)
        self._put_bytes += received.mail.size

    def wake(self) -> None:
        """Wake the taker."""
        with self._changed:
            self._changed.notify()

    def take(self, most: int, most_bytes: int, *, linger: float, patience: float) -> list[InFlight]:
        """Wait up to `patience` seconds for a first message, then for others: until there are `most`, or it is time to go without.

        Returns at most `most` messages with `most_bytes` of topics and payloads; a single message may have more.
        """
        with self._changed:
            if not self._waiting and not self._closed:
                self._changed.wait(patience)
            while self._waiting and not self._enough(most, most_bytes):
                remaining = self._time_to_go(linger) - time.monotonic()
                if remaining <= 0:
                    break
                self._changed.wait(remaining)
        return self._pop(most, most_bytes)

    def _enough(self, most: int, most_bytes: int) -> bool:
        """Whether what waits is a full batch, or all that there will be: a full inbox gets no more."""
        messages, size = self._put_messages - self._taken_messages, self._put_bytes - self._taken_bytes
        return self._closed or messages >= most or size >= most_bytes or not self.room()

    def _time_to_go(self, linger: float) -> float:
        """When the first message has waited for `linger` seconds, or when others that came at a pace have suddenly ceased to.

        Either there are no more, or the broker holds them back until some of these are acknowledged. How many it sends before that is
        its own affair, 20 or 32 with the usual ones: to linger then would make that many the rate.
        """
        first, last = self._waiting[0].arrived, self._waiting[-1].arrived
        count = self._put_messages - self._taken_messages
        if count < _PACE_MESSAGES:
            return first + linger
        gap = (last - first) / (count - 1)
        return min(first + linger, last + max(_SILENT_PART * linger, _SILENT_GAPS * gap))

    def _pop(self, most: int, most_bytes: int) -> list[InFlight]:
        batch: list[InFlight] = []
        while self._waiting and most > 0:
            first = self._waiting.popleft()
            fits = min(most, max(not batch, first.mail.fitting(most_bytes)))
            if fits < len(first.mail):
                self._waiting.appendleft(first.part(fits, len(first.mail)))
            if fits == 0:
                break
            batch.append(first.part(0, fits))
            most, most_bytes = most - fits, most_bytes - batch[-1].mail.size
        if batch:
            self._taken_first = batch[0].arrived
        self._taken_messages += sum(len(received.mail) for received in batch)
        self._taken_bytes += sum(received.mail.size for received in batch)
        return batch

    def release(self, batch: Sequence[InFlight]) -> None:
        """Make room: these messages are stored."""
        self._taken_first = None
        self._released_messages += sum(len(received.mail) for received in batch)
        self._released_bytes += sum(received.mail.size for received in batch)

    def oldest_age(self) -> float:
        """Return the seconds since the oldest message that is not stored yet came; 0 when there is none."""
        first = self._taken_first
        if first is None:
            try:
                first = self._waiting[0].arrived
            except IndexError:
                return 0.0
        return time.monotonic() - first

    def close(self) -> None:
        """Refuse further messages and let `take` return at once with what is left."""
        self._closed = True
        self.wake()
