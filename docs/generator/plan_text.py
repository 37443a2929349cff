# SPDX-License-Identifier: MIT
"""The output of `peel plan`."""

from __future__ import annotations

from textwrap import indent, wrap

from click.testing import CliRunner

from peel_tools.cli import main

__all__ = ["plan_text"]

_WIDTH = 112


def plan_text(*arguments: str) -> str:
    """Return the command and its output. Options are given without their dashes: `devices 200`."""
    call = [f"--{word}" if place % 2 == 0 else word for place, word in enumerate(arguments)]
    answer = CliRunner().invoke(main, ["plan", *call], catch_exceptions=False)
    if answer.exit_code:
        raise ValueError(f"peel plan {' '.join(call)}: {answer.output}")
    lines = [f"$ peel plan {' '.join(call)}", *_folded(answer.output)]
    return indent("\n".join(lines), "    ", lambda line: bool(line.strip())) + "\n"


def _folded(text: str) -> list[str]:
    """Wrap long lines; keep tables."""
    folded: list[str] = []
    for line in text.splitlines():
        room = len(line) - len(line.lstrip())
        long = len(line) > _WIDTH
        folded += (
            wrap(line.strip(), _WIDTH, initial_indent=" " * room, subsequent_indent=" " * (room + 2))
            if long
            else [line]
        )
    return folded
