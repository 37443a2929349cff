# SPDX-License-Identifier: MIT
"""Reports go through the gateway as arrays: ten times as many do not take more lines of Python, refused ones included."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

from lab import Lab, MakeLab, Makers

from peel_gateway.model.messages import MessageBatch


def lines_run(lab: Lab, pieces: Sequence[bytes]) -> int:
    """Count the lines of Python, the project's and all others, that one message with these pieces takes."""
    messages = MessageBatch.of(lab.messages([b"".join(pieces)]))
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
    assert report.reports == len(pieces)
    return lines


def of_all_devices(lab: Lab, numbers: range) -> list[bytes]:
    return [frame for device in (1, 2, 3, 4) for frame in lab.frames(device, numbers)]


def test_lines_of_python_do_not_grow_with_the_reports(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(*(make_profile() for make_profile in profiles))
    lines_run(lab, of_all_devices(lab, range(1, 101)))  # the first batch reads the states and fills caches
    few = lines_run(lab, of_all_devices(lab, range(101, 201)))
    many = lines_run(lab, of_all_devices(lab, range(201, 1201)))
    assert many < 1.2 * few


def test_lines_of_python_do_not_grow_with_refused_frames(lab: Lab) -> None:
    """Beyond what one topic may put into quarantine, a flood of altered frames costs what honest frames cost."""

    def altered(numbers: range) -> list[bytes]:
        return [frame[:-1] + bytes([frame[-1] ^ 1]) for frame in lab.frames(1, numbers)]

    lines_run(lab, altered(range(1, 201)))
    few = lines_run(lab, altered(range(201, 401)))
    many = lines_run(lab, altered(range(401, 2401)))
    assert many < 1.2 * few
