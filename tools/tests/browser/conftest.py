# SPDX-License-Identifier: MIT
"""Fixtures: a browser, pages whose console must stay empty, and gateways behind them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_support import PATIENCE_MS, OpenPage, chromium
from field import Field, open_broker
from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


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
