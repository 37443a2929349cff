# SPDX-License-Identifier: MIT
"""The entry point: the blinks and restarts of a board without a console."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import main
from host_board import HostBoard, bundle
from peel_tools.servers import free_port


class BlinkingBoard(HostBoard):
    """Counts blinks and reboots."""

    def __init__(self) -> None:
        super().__init__()
        self.blinks = self.boots = 0

    def led(self, on: bool) -> None:
        self.blinks += on

    def pause(self, milliseconds: int) -> None:
        pass

    def reset(self) -> None:
        self.boots += 1


@pytest.fixture(autouse=True)
def flash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty flash."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> BlinkingBoard:
    """The board that `find_board` returns, whatever its argument."""
    board = BlinkingBoard()
    monkeypatch.setattr(main, "find_board", lambda name: board)
    return board


@pytest.mark.parametrize("text", [None, "{", json.dumps(bundle(seal_key="short"))], ids=["absent", "half", "wrong"])
def test_a_fault_of_the_bundle_is_blinked_and_waits_for_a_new_one(found: BlinkingBoard, text: str | None) -> None:
    if text is not None:
        Path("peel.json").write_text(text)
    main.main()
    assert (found.blinks, found.boots) == (3 * main.FAULT_ROUNDS, 0)


def test_any_other_fault_is_blinked_and_boots_again(found: BlinkingBoard) -> None:
    Path("peel.json").write_text(json.dumps(bundle(mqtt__port=free_port())))
    found.sources = list  # type: ignore[method-assign]  # of this board alone: it has no randomness
    main.main()
    assert (found.blinks, found.boots) == (4 * main.FAULT_ROUNDS, 1)


def test_a_bundle_that_cannot_be_read_now_may_be_readable_after_a_boot(
    found: BlinkingBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("peel.json").mkdir()
    monkeypatch.setattr(sys, "print_exception", print, raising=False)  # MicroPython's
    main.main()
    assert (found.blinks, found.boots) == (2 * main.FAULT_ROUNDS, 1)


def test_where_nobody_knows_which_board_this_is_nothing_blinks(capsys: pytest.CaptureFixture[str]) -> None:
    main.main()
    assert "peel.json: is not on the device" in capsys.readouterr().out
