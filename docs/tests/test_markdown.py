# SPDX-License-Identifier: MIT
"""Markdown files have lines that fit a terminal, and links that work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from project_files import ROOT, name_of, tracked

COLUMNS = 120
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(document: Path) -> set[str]:
    """Return GitHub's anchors of the headings: lower case, punctuation dropped, spaces to hyphens."""
    titles = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", tracked("*.md"), ids=name_of)
def test_lines_are_wrapped(document: Path) -> None:
    lines = enumerate(document.read_text(encoding="utf-8").splitlines(), start=1)
    long = [number for number, line in lines if len(line) > COLUMNS and not line.lstrip().startswith("|")]
    assert not long, f"{name_of(document)}: longer than {COLUMNS} columns, and no table: lines {long}"


def test_the_readme_leads_to_every_document() -> None:
    readme = ROOT / "README.md"
    linked = {(ROOT / link).resolve() for link in LINK.findall(readme.read_text(encoding="utf-8"))}
    # The changelog is found by its name, and GitHub shows the template.
    elsewhere = {readme, ROOT / "CHANGELOG.md", *tracked(".github/*.md")}
    unlinked = [name_of(path) for path in tracked("*.md") if path not in linked | elsewhere]
    assert not unlinked, f"README.md does not lead to {', '.join(unlinked)}"


@pytest.mark.parametrize("document", tracked("*.md"), ids=name_of)
def test_links_lead_somewhere(document: Path) -> None:
    for link in LINK.findall(document.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = (document.parent / target) if target else document
        assert file.exists(), f"{name_of(document)} links to {target}, which is not there"
        assert not anchor or anchor in anchors(file), f"{name_of(document)} links to {link}: no such heading"
