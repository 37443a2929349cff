# SPDX-License-Identifier: MIT
"""A bounded queue of messages between the network thread and the ingest thread, which takes them in batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

from peel_gateway.mqtt.connection import InFlight

__all__ = ["Inbox"]

_PACE_MESSAGES = 4
"""The rate of arrival is estimated from at least this many messages."""
_SILENT_GAPS = 8.0
"""A pause is taken for the end of a burst after this many mean gaps. With random arrivals that is wrong once in 3,000 times (e^-8)."""
_SILENT_PART = 0.05
"""A shorter pause, as a part of the linger time, never ends a burst: machines and networks stutter."""


class Inbox:
    """One thread puts messages, another takes them. A message is pending from `put` until `release`.

    Each counter has one writer, so that the hot path needs no lock. `wake` wakes the taking thread once per burst.
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
        """Return how many messages may be put if the limit is raised by `beyond`; 0 once the limit of bytes is reached."""
        if self._closed or self._put_bytes - self._released_bytes >= self._limit_bytes:
            return 0
        return max(0, self._limit_messages + beyond - self.pending)

    def put(self, received: InFlight) -> None:
        """Add messages. Call `wake` afterwards."""
        self._waiting.append(received)
        self._put_messages += len(received.messages)
        self._put_bytes += received.messages.size

    def wake(self) -> None:
        """Wake the thread that takes messages."""
        with self._changed:
            self._changed.notify()

    def take(self, most: int, most_bytes: int, *, linger: float, patience: float) -> list[InFlight]:
        """Wait up to `patience` seconds for a first message, then until the batch is full, `linger` has passed or the burst has ended.

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
        """Whether a full batch waits, or no more messages can come because the inbox is full or closed."""
        messages, size = self._put_messages - self._taken_messages, self._put_bytes - self._taken_bytes
        return self._closed or messages >= most or size >= most_bytes or not self.room()

    def _time_to_go(self, linger: float) -> float:
        """Return when to take the batch: `linger` seconds after its first message, or earlier at the end of a burst.

        A burst ends because there are no more messages, or because the broker waits for acknowledgements. Common brokers
        send only 20 or 32 unacknowledged messages; to linger would limit the rate to that many per `linger`.
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
            fits = min(most, max(not batch, first.messages.fitting(most_bytes)))
            if fits < len(first.messages):
                self._waiting.appendleft(first.part(fits, len(first.messages)))
            if fits == 0:
                break
            batch.append(first.part(0, fits))
            most, most_bytes = most - fits, most_bytes - batch[-1].messages.size
        if batch:
            self._taken_first = batch[0].arrived
        self._taken_messages += sum(len(received.messages) for received in batch)
        self._taken_bytes += sum(received.messages.size for received in batch)
        return batch

    def release(self, batch: Sequence[InFlight]) -> None:
        """Make room after these messages were stored."""
        self._taken_first = None
        self._released_messages += sum(len(received.messages) for received in batch)
        self._released_bytes += sum(received.messages.size for received in batch)

    def oldest_age(self) -> float:
        """Return the age in seconds of the oldest message that is not stored yet; 0 if all are."""
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
