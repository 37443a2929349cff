# SPDX-License-Identifier: MIT
"""Helpers of the tests of the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect, sync_playwright

from peel_tools.boards.build_tools import MissingToolError

__all__ = ["PATIENCE_MS", "OpenPage", "chromium"]

OpenPage = Callable[..., Page]
"""Takes an address, and `width`, `scheme` (light or dark), `tolerated` (what the console may say)."""

PATIENCE_MS = 60_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium. As root it runs without its sandbox."""
    program = shutil.which("chromium")
    if program is None:
        raise MissingToolError("chromium is missing: apt-get install chromium")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        yield launched
        launched.close()
