# SPDX-License-Identifier: MIT
"""Messages between the network and the store: bounded, taken in batches by size and time."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from peel_gateway.model.message import Message
from peel_gateway.mqtt.link import Link

__all__ = ["Delivery", "Inbox"]


class Delivery(NamedTuple):
    """A message, and what it takes to acknowledge it."""

    message: Message
    link: Link
    identifier: int
    """Packet identifier on that link; 0 when nothing is to be acknowledged."""
    arrived: float
    """Monotonic seconds."""


class Inbox:
    """One thread puts, another takes. Pending means put and not yet released, so a batch in the making counts.

    Each counter has one writer, so that the hot path needs no lock; `announce` wakes the taker once per burst.
    """

    def __init__(self, *, limit_messages: int, limit_bytes: int) -> None:
        self._limit_messages = limit_messages
        self._limit_bytes = limit_bytes
        self._waiting: deque[Delivery] = deque()
        self._news = threading.Condition()
        self._closed = False
        self._put_messages = self._put_bytes = 0
        self._released_messages = self._released_bytes = 0

    @property
    def pending(self) -> int:
        """Messages put and not released."""
        return self._put_messages - self._released_messages

    def has_room(self, *, beyond: int = 0) -> bool:
        """Whether another message may be put, or could be if the limit were higher by `beyond`."""
        fits = self.pending < self._limit_messages + beyond
        return fits and self._put_bytes - self._released_bytes < self._limit_bytes and not self._closed

    def put(self, delivery: Delivery) -> None:
        """Add a message; `announce` has to follow."""
        self._waiting.append(delivery)
        self._put_messages += 1
        self._put_bytes += delivery.message.size

    def announce(self) -> None:
        """Wake the taker."""
        with self._news:
            self._news.notify()

    def take(self, most: int, most_bytes: int, *, linger: float, patience: float) -> list[Delivery]:
        """Wait up to `patience` seconds for a first message, then up to `linger` for others.

        Returns at most `most` messages with `most_bytes` of topics and payloads; a single message may have more.
        """
        with self._news:
            if not self._waiting and not self._closed:
                self._news.wait(patience)
            deadline = time.monotonic() + linger
            while self._waiting and len(self._waiting) < most and not self._closed:
                remaining = deadline - time.monotonic()
                if remaining <= 0 or not self.has_room():  # a full inbox gets no others to wait for
                    break
                self._news.wait(remaining)
        return self._pop(most, most_bytes)

    def _pop(self, most: int, most_bytes: int) -> list[Delivery]:
        batch: list[Delivery] = []
        size = 0
        while self._waiting and len(batch) < most:
            size += self._waiting[0].message.size
            if batch and size > most_bytes:
                break
            batch.append(self._waiting.popleft())
        return batch

    def release(self, batch: Sequence[Delivery]) -> None:
        """Make room: these messages are stored."""
        self._released_messages += len(batch)
        self._released_bytes += sum(delivery.message.size for delivery in batch)

    def oldest_age(self) -> float:
        """Seconds that the oldest message not yet taken has waited; 0 when there is none."""
        try:
            return time.monotonic() - self._waiting[0].arrived
        except IndexError:
            return 0.0

    def close(self) -> None:
        """Refuse further messages and let `take` return at once with what is left."""
        self._closed = True
        self.announce()
