# SPDX-License-Identifier: MIT
"""What the tests of the page share."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

__all__ = ["PATIENCE_MS", "OpenPage"]

OpenPage = Callable[..., Page]
"""Takes an address, and `width`, `scheme` (light or dark), `tolerated` (what the console may say)."""

PATIENCE_MS = 20_000
