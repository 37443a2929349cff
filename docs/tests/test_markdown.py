# SPDX-License-Identifier: MIT
"""Every Markdown file of the project: lines that fit a terminal, links that lead somewhere."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 120
LINK = re.compile(r"\]\(([^)\s]+)\)")


def documents() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines()]


def by_name(document: Path) -> str:
    return str(document.relative_to(ROOT))


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub gives the headings: lower case, punctuation dropped, spaces to hyphens."""
    titles = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", documents(), ids=by_name)
def test_lines_are_wrapped(document: Path) -> None:
    lines = enumerate(document.read_text(encoding="utf-8").splitlines(), start=1)
    long = [number for number, line in lines if len(line) > COLUMNS and not line.lstrip().startswith("|")]
    assert not long, f"{by_name(document)}: longer than {COLUMNS} columns, and no table: lines {long}"


@pytest.mark.parametrize("document", documents(), ids=by_name)
def test_links_lead_somewhere(document: Path) -> None:
    for link in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = (document.parent / target) if target else document
        assert file.exists(), f"{by_name(document)} links to {target}, which is not there"
        assert not anchor or anchor in anchors(file), f"{by_name(document)} links to {link}: no such heading"
