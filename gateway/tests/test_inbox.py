# SPDX-License-Identifier: MIT
"""The inbox: bounds, batches by size, bytes and time."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from peel_gateway.model.message import Message
from peel_gateway.mqtt.inbox import Delivery, Inbox

FOR_EVER = 3600.0
"""Who waits for so long is ended by pytest's timeout."""


def delivery(size: int = 10, identifier: int = 1) -> Delivery:
    link: Any = None  # the inbox only hands it on
    return Delivery(Message("t", bytes(size), 0.0), link, identifier, time.monotonic())


def filled(count: int, **limits: int) -> Inbox:
    inbox = Inbox(**{"limit_messages": 100, "limit_bytes": 10_000} | limits)
    for identifier in range(1, count + 1):
        inbox.put(delivery(identifier=identifier))
    inbox.announce()
    return inbox


def test_a_batch_has_a_most_and_keeps_the_order() -> None:
    inbox = filled(10)
    batches = [inbox.take(4, 10_000, linger=0, patience=0) for _ in range(4)]
    assert [[each.identifier for each in batch] for batch in batches] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10], []]


def test_a_batch_is_bounded_in_bytes_but_never_empty() -> None:
    inbox = filled(5)
    assert len(inbox.take(10, 25, linger=0, patience=0)) == 2
    assert len(inbox.take(10, 1, linger=0, patience=0)) == 1


@pytest.mark.parametrize("limits", [{"limit_messages": 5}, {"limit_bytes": 50}])
def test_room_comes_back_with_release_and_not_with_take(limits: dict[str, int]) -> None:
    inbox = filled(5, **limits)
    assert not inbox.has_room()
    batch = inbox.take(3, 10_000, linger=0, patience=0)
    assert not inbox.has_room()
    assert inbox.pending == 5
    inbox.release(batch)
    assert inbox.has_room()
    assert inbox.pending == 2


def test_it_lingers_for_company_and_not_longer() -> None:
    inbox = filled(1)

    def bring_company() -> None:
        inbox.put(delivery())
        inbox.announce()

    threading.Timer(0.05, bring_company).start()
    assert len(inbox.take(2, 10_000, linger=FOR_EVER, patience=0)) == 2
    inbox = filled(1)
    started = time.monotonic()
    assert len(inbox.take(2, 10_000, linger=0.1, patience=0)) == 1
    assert time.monotonic() - started >= 0.1


def test_it_does_not_linger_when_full() -> None:
    inbox = filled(5, limit_messages=5)
    assert len(inbox.take(100, 10_000, linger=FOR_EVER, patience=0)) == 5


def test_close_lets_the_taker_go_and_keeps_what_is_there() -> None:
    inbox = filled(0)
    threading.Timer(0.05, inbox.close).start()
    assert inbox.take(10, 10_000, linger=FOR_EVER, patience=FOR_EVER) == []
    inbox = filled(3)
    inbox.close()
    assert not inbox.has_room()
    assert len(inbox.take(10, 10_000, linger=FOR_EVER, patience=FOR_EVER)) == 3


def test_age_of_the_oldest() -> None:
    inbox = filled(1)
    time.sleep(0.02)
    assert inbox.oldest_age() >= 0.02
    inbox.take(1, 10_000, linger=0, patience=0)
    assert inbox.oldest_age() == 0
