# SPDX-License-Identifier: MIT
"""The attack lab's page in a browser, with the figures of the docs: it loads nothing, fits any screen, and says first what is missed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from browser_support import OpenPage

from peel_research.lab.page import write_page

FIGURES = Path(__file__).resolve().parents[3] / "docs" / "lab.json"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_opens_and_fits(open_page: OpenPage, tmp_path: Path, width: int, scheme: str) -> None:
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    page = open_page(write_page(figures, tmp_path).as_uri(), width=width, scheme=scheme)
    assert page.locator("h2").first.text_content() == "Attacks that are not exposed"
    assert page.locator("table").count() == page.locator("section").count() == page.locator("nav a").count()
    loaded = page.evaluate("performance.getEntriesByType('resource').length")
    wide, ink, paper = page.evaluate(
        "[document.documentElement.scrollWidth, getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert loaded == 0 and wide <= width
    assert (_brightness(ink) > _brightness(paper)) is (scheme == "dark")


def _brightness(colour: str) -> int:
    return sum(int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(","))
