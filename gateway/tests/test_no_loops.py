# SPDX-License-Identifier: MIT
"""Honest reports go through the gateway as arrays: ten times as many do not take more lines of Python."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from lab import Lab, MakeLab, Makers


def lines_run(lab: Lab, numbers: range) -> int:
    """Lines of Python, the project's and all others, that a message with these reports of each device takes."""
    payload = b"".join(frame for device in (1, 2, 3, 4) for frame in lab.frames(device, numbers))
    messages = lab.messages([payload])
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        report = lab.engine.process(messages)
    finally:
        sys.settrace(before)
    assert report.reports == 4 * len(numbers)
    return lines


def test_lines_of_python_do_not_grow_with_the_reports(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(*(make_profile() for make_profile in profiles))
    lines_run(lab, range(1, 101))  # the first batch reads the book and fills caches
    few = lines_run(lab, range(101, 201))
    many = lines_run(lab, range(201, 1201))
    assert many < 1.2 * few
