# SPDX-License-Identifier: MIT
"""Helpers of the tests of the page."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page

__all__ = ["PATIENCE_MS", "OpenPage"]

OpenPage = Callable[..., Page]
"""Takes an address, and `width`, `scheme` (light or dark), `tolerated` (what the console may say)."""

PATIENCE_MS = 60_000
