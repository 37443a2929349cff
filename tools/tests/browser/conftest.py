# SPDX-License-Identifier: MIT
"""Fixtures: a browser, pages whose console must stay empty, and gateways behind them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_support import PATIENCE_MS, OpenPage
from field import Field, open_broker
from playwright.sync_api import Browser, Page, expect, sync_playwright

from peel_tools.boards.build_tools import MissingToolError


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium; as root it has to do without its sandbox."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise MissingToolError("chromium is missing: apt-get install chromium")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Opens a gateway's page; at the end nothing may have been said to the console but what is `tolerated`."""
    complaints: list[str] = []
    with ExitStack() as undo:

        def open_(url: str, *, tolerated: str | None = None, width: int = 1280, scheme: Any = "light") -> Page:
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
            )
            undo.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(PATIENCE_MS)

            def note(kind: str, text: str) -> None:
                if kind in ("error", "warning") and not (tolerated and tolerated in text):
                    complaints.append(text)

            page.on("console", lambda message: note(message.type, message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(url)
            return page

        yield open_
    assert complaints == []


@pytest.fixture
def field(tmp_path: Path, rng: np.random.Generator) -> Iterator[Field]:
    """A broker and devices that are bare encoders."""
    field = Field(tmp_path, open_broker(tmp_path / "broker"), rng)
    yield field
    field.close()
