# SPDX-License-Identifier: MIT
"""Resend pauses: they double with jitter, restart for another report, and grow across deep sleep without a record."""

from __future__ import annotations

import os
from itertools import pairwise

from host_board import PacedBoard
from peel_device.link import BACKOFF_FIRST_MS, BACKOFF_LAST_MS
from peel_device.timing import RESEND_FIRST_MS, RESEND_LAST_MS, Backoff, Resend, after_waking


def longest(count: int) -> bytes:
    """Return random bytes that make pauses nearly as long as possible."""
    return b"\xff" * count


def test_back_off_doubles_up_to_its_ceiling_with_jitter() -> None:
    low, high = (Backoff(random, BACKOFF_FIRST_MS, BACKOFF_LAST_MS) for random in (bytes, longest))
    assert [low.next() for _ in range(9)] == [500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]
    assert all(500 * 2**step <= high.next() <= 1000 * 2**step for step in range(6))
    low.reset()
    assert low.next() == 500


def sent_at(resend: Resend, board: PacedBoard, oldest: int, seconds: int) -> list[int]:
    """Return the seconds at which the device resends while this report is the oldest unconfirmed one."""
    found = []
    for second in range(seconds):
        board.paces.at += 1000
        if resend.due(oldest):
            found.append(second)
    return found


def test_pauses_grow_to_an_hour() -> None:
    board = PacedBoard()
    sent = sent_at(Resend(board.clock, bytes), board, 7, 10_000)
    assert sent[:7] == [30, 90, 210, 450, 930, 1890, 3690]
    assert {after - before for before, after in pairwise(sent[6:])} == {1800}
    assert (RESEND_FIRST_MS, RESEND_LAST_MS) == (60_000, 3_600_000)


def test_receipts_for_newer_reports_do_not_put_an_older_one_off() -> None:
    board = PacedBoard()
    resend = Resend(board.clock, bytes)
    assert sent_at(resend, board, 1, 120) == [30, 90]
    assert sent_at(resend, board, 5, 25) == [], "another one, and its own pause"
    assert sent_at(resend, board, 5, 10) == [5]
    assert not resend.due(None)
    board.paces.at += 10 * RESEND_LAST_MS
    assert not resend.due(None), "nothing waits"


def test_after_deep_sleep_the_more_wait_the_rarer_they_are_sent() -> None:
    assert not after_waking(bytes, 0)
    assert after_waking(bytes, 1)
    for waiting, expected in ((1, 4), (4, 4), (50, 50)):
        times = sum(after_waking(os.urandom, waiting) for _ in range(20_000))
        mean = 20_000 / expected
        assert abs(times - mean) < 6 * mean**0.5
