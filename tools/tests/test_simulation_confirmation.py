# SPDX-License-Identifier: MIT
"""Simulated devices keep what no gateway has confirmed, and send it again after pauses that grow."""

from __future__ import annotations

import numpy as np
import pytest

from peel_core.receipts import write_receipts
from peel_tools.simulation.runner import Confirmation
from peel_tools.simulation.truth import Outgoing

KEY = bytes(range(16))
PAUSE = 10.0


def message(id_: int, *numbers: int, device: int = 1) -> Outgoing:
    return Outgoing(id_, device, "topic", b"payload", len(numbers), numbers)


def receipt(upto: int, device: int = 1, key: bytes = KEY) -> tuple[str, bytes]:
    (payload,) = write_receipts([device], np.frombuffer(key, np.uint8).reshape(1, 16), [upto], np.zeros((0, 2)), [0])
    return f"peel/v1/lab/01/{device:08x}/receipt", payload


@pytest.fixture
def desk() -> Confirmation:
    return Confirmation({1: KEY, 2: bytes(16)}, pause=PAUSE)


def test_a_message_waits_until_all_its_reports_are_settled(desk: Confirmation) -> None:
    desk.sent([message(1, 1, 2), message(2, 3)])
    assert desk.acknowledged([1, 2], 0.0) == []
    assert desk.waiting == 2
    assert desk.received(*receipt(1)) == []
    assert desk.received(*receipt(2)) == [1]
    assert desk.received(*receipt(9)) == [2]
    assert (desk.waiting, desk.heard, desk.refused) == (0, 3, 0)


def test_messages_with_nothing_to_store_wait_for_nobody(desk: Confirmation) -> None:
    desk.sent([message(1)])
    assert desk.acknowledged([1], 0.0) == [1]


def test_a_receipt_may_be_faster_than_the_broker(desk: Confirmation) -> None:
    desk.sent([message(1, 1)])
    assert desk.received(*receipt(1)) == []
    assert desk.acknowledged([1], 0.0) == [1]


def test_forged_and_foreign_receipts_settle_nothing(desk: Confirmation) -> None:
    desk.sent([message(1, 1)])
    desk.acknowledged([1], 0.0)
    assert desk.received(*receipt(9, key=bytes(16))) == []
    assert desk.received(*receipt(9, device=2, key=bytes(16))) == []
    assert desk.received(*receipt(9, device=3)) == []
    assert (desk.waiting, desk.refused) == (1, 1)


@pytest.mark.parametrize("topic", ["peel/v1/lab/gateway/main/status", "receipt", "", "peel/v1/lab/01/0000000g/receipt"])
def test_what_nobody_asked_for_is_passed_over(desk: Confirmation, topic: str) -> None:
    assert desk.received(topic, b"x") == []
    assert desk.refused == 0


def test_pauses_grow(desk: Confirmation) -> None:
    first = message(1, 1)
    desk.sent([first])
    desk.acknowledged([1], 0.0)
    assert desk.overdue(PAUSE / 2 - 0.1) == []
    assert desk.overdue(PAUSE) == [first]
    desk.sent([first])
    assert desk.overdue(2 * PAUSE) == [], "it is on its way"
    desk.acknowledged([1], 2 * PAUSE)
    assert desk.overdue(2 * PAUSE + PAUSE - 0.1) == []
    assert desk.overdue(4 * PAUSE) == [first]


def test_a_boot_forgets_pauses(desk: Confirmation) -> None:
    first = message(1, 1)
    desk.sent([first])
    desk.acknowledged([1], 0.0)
    assert desk.overdue(0.0) == []
    desk.forget_pauses()
    assert desk.overdue(0.0) == [first]
