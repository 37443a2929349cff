# SPDX-License-Identifier: MIT
"""The console of a device under test, against the other end of a pseudo-terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import tty
from collections.abc import Iterator

import pytest

from peel_hil.duts.console import Console, ConsoleError, ConsoleTimeoutError


@pytest.fixture
def ends() -> Iterator[tuple[Console, int]]:
    board, ours = pty.openpty()
    for end in (board, ours):
        tty.setraw(end)
    yield Console(ours), board
    for end in (board, ours):
        with contextlib.suppress(OSError):  # a test may have closed it
            os.close(end)


def test_expect_consumes_up_to_the_match(ends: tuple[Console, int]) -> None:
    console, board = ends
    os.write(board, b"boot 12 ready 34")
    assert console.expect(r"(\d+)", 2)[1] == b"12"
    assert console.expect(r"(\d+)$", 2)[1] == b"34"
    assert bytes(console.log) == b"boot 12 ready 34"


def test_a_pattern_that_does_not_come_times_out_with_what_came(ends: tuple[Console, int]) -> None:
    console, board = ends
    os.write(board, b"something else")
    with pytest.raises(ConsoleTimeoutError, match="something else"):
        console.expect("never", 0.2)


def test_raw_repl(ends: tuple[Console, int]) -> None:
    console, board = ends
    os.write(board, b"OK4\r\n\x04\x04>OK\x04Traceback: no\r\n\x04>")
    console.begin("print(2 + 2)")
    assert os.read(board, 100) == b"print(2 + 2)\x04"
    assert console.finish(2) == ("4\n", "")
    console.begin("no")
    assert console.finish(2) == ("", "Traceback: no\n")


def test_a_board_that_goes_away_is_an_error(ends: tuple[Console, int]) -> None:
    console, board = ends
    os.write(board, b"last words")
    console.expect("last", 2)
    os.close(board)
    with pytest.raises(ConsoleError, match="went away; its last output was b'last words'"):
        console.expect("more", 2)
