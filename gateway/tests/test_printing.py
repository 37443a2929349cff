# SPDX-License-Identifier: MIT
"""Tables: the same content for a file and for a terminal, where it fits the width."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys

import pytest

from peel_gateway.printing import print_json, print_table

PROGRAM = """
from peel_gateway.printing import print_table
print_table(["device", "reports", "note"], [["0000001f", 12, "in the [red]cellar[/red], " + "behind the boiler " * 12]])
"""


def test_columns_are_aligned_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name", "n"], [["a", 5], ["long", None], ["b", 1234]])
    assert capsys.readouterr().out == "name     n\na        5\nlong     -\nb     1234\n"


def test_lists_are_separated_by_commas(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["device", "tags"], [["1", ["a", "北棟"]], ["2", []]])
    assert capsys.readouterr().out.split("\n")[1:3] == ["     1  a, 北棟", "     2  -"]


@pytest.mark.parametrize("unseen", ["\x1b[2J", "\x9b2J", "\x85", "\u2028", "\u202e"])
def test_json_has_no_character_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str], unseen: str) -> None:
    print_json({"unit": "°C", "topic": unseen})
    shown = capsys.readouterr().out
    assert shown.removesuffix("\n").isprintable()
    assert json.loads(shown) == {"unit": "°C", "topic": unseen}
    print_json({"unit": "°C"})
    assert "°C" in capsys.readouterr().out, "where all of it can be read, it is"


def _on_terminal(columns: int) -> str:
    """Return the program's output on a terminal of this width."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
        assert process.wait() == 0
    os.close(ours)
    return shown.decode()


def test_a_terminal_is_not_overrun() -> None:
    shown = _on_terminal(60)
    assert "0000001f" in shown
    assert "[red]" in shown, "what is printed is no markup"
    assert all(len(re.sub(r"\x1b\[\d*m", "", line)) <= 60 for line in shown.splitlines())
    assert shown.count("boiler") == 12
