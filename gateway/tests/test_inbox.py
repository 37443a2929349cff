# SPDX-License-Identifier: MIT
"""The inbox: bounds, batches by size, bytes and time."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from peel_gateway.model.messages import Message, MessageBatch
from peel_gateway.mqtt.connection import InFlight
from peel_gateway.mqtt.inbox import Inbox

FOR_EVER = 3600.0
"""A wait that ends only by pytest's timeout."""


def delivery(size: int = 10, identifier: int = 1, age: float = 0.0) -> InFlight:
    link: Any = None  # the inbox only hands it on
    messages = MessageBatch.of([Message("t", bytes(size), 0.0)])
    return InFlight(messages, link, np.array([identifier], np.uint16), time.monotonic() - age)


def identifiers(batch: list[InFlight]) -> list[int]:
    return [identifier for each in batch for identifier in each.identifiers.tolist()]


def filled(count: int, **limits: int) -> Inbox:
    inbox = Inbox(**{"limit_messages": 100, "limit_bytes": 10_000} | limits)
    for identifier in range(1, count + 1):
        inbox.put(delivery(identifier=identifier))
    inbox.wake()
    return inbox


def bring(inbox: Inbox) -> None:
    inbox.put(delivery())
    inbox.wake()


def test_a_batch_has_a_most_and_keeps_the_order() -> None:
    inbox = filled(10)
    batches = [inbox.take(4, 10_000, linger=0, patience=0) for _ in range(4)]
    assert [identifiers(batch) for batch in batches] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10], []]


def test_what_came_together_is_cut_where_a_batch_ends() -> None:
    inbox = Inbox(limit_messages=100, limit_bytes=10_000)
    link: Any = None
    messages = MessageBatch.of([Message("t", bytes([place]) * 10, 0.0) for place in range(10)])
    inbox.put(InFlight(messages, link, np.arange(1, 11, dtype=np.uint16), time.monotonic()))
    first = inbox.take(4, 10_000, linger=0, patience=0)
    second = inbox.take(10, 25, linger=0, patience=0)
    assert [identifiers(first), identifiers(second)] == [[1, 2, 3, 4], [5, 6]]
    assert second[0].messages.payload(1) == bytes([5]) * 10
    assert inbox.pending == 10
    inbox.release([*first, *second])
    assert inbox.pending == 4
    assert identifiers(inbox.take(10, 1, linger=0, patience=0)) == [7]


def test_a_batch_is_bounded_in_bytes_but_never_empty() -> None:
    inbox = filled(5)
    assert len(inbox.take(10, 25, linger=0, patience=0)) == 2
    assert len(inbox.take(10, 1, linger=0, patience=0)) == 1


@pytest.mark.parametrize("limits", [{"limit_messages": 5}, {"limit_bytes": 50}])
def test_room_comes_back_with_release_and_not_with_take(limits: dict[str, int]) -> None:
    inbox = filled(5, **limits)
    assert not inbox.room()
    batch = inbox.take(3, 10_000, linger=0, patience=0)
    assert not inbox.room()
    assert inbox.pending == 5
    inbox.release(batch)
    assert inbox.room()
    assert inbox.pending == 2


def test_it_lingers_for_company_and_not_longer() -> None:
    inbox = filled(1)
    threading.Timer(0.05, lambda: bring(inbox)).start()
    assert len(inbox.take(2, 10_000, linger=FOR_EVER, patience=0)) == 2
    inbox = filled(1)
    started = time.monotonic()
    assert len(inbox.take(2, 10_000, linger=0.1, patience=0)) == 1
    assert time.monotonic() - started >= 0.1


def test_it_does_not_linger_when_full() -> None:
    inbox = filled(5, limit_messages=5)
    assert len(inbox.take(100, 10_000, linger=FOR_EVER, patience=0)) == 5


def test_it_does_not_linger_with_a_batch_that_is_full_by_its_bytes() -> None:
    inbox = filled(3)
    assert len(inbox.take(100, 30, linger=FOR_EVER, patience=0)) == 2


def test_it_does_not_linger_when_a_burst_is_over() -> None:
    """A broker that sends 20 at a time sends no more before they are acknowledged, and does not say that it is 20."""
    inbox = filled(0)
    for _ in range(20):
        inbox.put(delivery(age=0.1 * FOR_EVER))
    assert len(inbox.take(100, 10_000, linger=FOR_EVER, patience=0)) == 20


def test_it_lingers_at_a_steady_pace() -> None:
    """Silence is long or short by what there was before: a report a minute is no reason to store each on its own."""
    inbox = filled(0)
    for minutes in range(5, 0, -1):
        inbox.put(delivery(age=60.0 * minutes))
    threading.Timer(0.1, lambda: bring(inbox)).start()
    assert len(inbox.take(6, 10_000, linger=FOR_EVER, patience=0)) == 6


def test_what_has_waited_long_enough_waits_no_longer() -> None:
    """While another batch was stored, say."""
    inbox = filled(0)
    inbox.put(delivery(age=FOR_EVER))
    assert len(inbox.take(10, 10_000, linger=FOR_EVER, patience=0)) == 1


def test_close_lets_the_taker_go_and_keeps_what_is_there() -> None:
    inbox = filled(0)
    threading.Timer(0.05, inbox.close).start()
    assert inbox.take(10, 10_000, linger=FOR_EVER, patience=FOR_EVER) == []
    inbox = filled(3)
    inbox.close()
    assert not inbox.room()
    assert len(inbox.take(10, 10_000, linger=FOR_EVER, patience=FOR_EVER)) == 3


def test_age_of_the_oldest() -> None:
    inbox = filled(1)
    time.sleep(0.02)
    assert inbox.oldest_age() >= 0.02
    batch = inbox.take(1, 10_000, linger=0, patience=0)
    assert inbox.oldest_age() >= 0.02  # not stored yet
    inbox.release(batch)
    assert inbox.oldest_age() == 0
