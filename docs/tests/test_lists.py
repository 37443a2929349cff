# SPDX-License-Identifier: MIT
"""Hand-written lists of the documents are complete: keys of a template, vectors, tests on boards."""

from __future__ import annotations

import re

from project_files import ROOT

from peel_gateway.fleet.bundle import TEMPLATE_KEYS


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def coded(text: str) -> list[str]:
    """Return the text in backticks."""
    return re.findall(r"`([^`]+)`", text)


def first_cells(text: str, header: str) -> list[str]:
    """Return the first column of the table with this header."""
    table = text.split(f"{header}\n|---")[1].split("\n\n")[0]
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[1:]]


def test_what_a_template_may_hold() -> None:
    (row,) = re.findall(r"^\| `template.json` \| (.*) \|$", read("docs/deploy.md"), flags=re.M)
    assert set(coded(row)) == set(TEMPLATE_KEYS)


def test_every_file_of_vectors_is_described() -> None:
    cells = first_cells(read("spec/README.md"), "| file | given | to be found |")
    patterns = [name for cell in cells for name in coded(cell)]
    folder = ROOT / "spec" / "vectors"
    found = {pattern: {path.stem for path in folder.glob(f"{pattern}.json")} for pattern in patterns}
    assert [pattern for pattern in patterns if not found[pattern]] == []
    assert set().union(*found.values()) == {path.stem for path in folder.glob("*.json")}


def test_every_test_on_boards_says_what_it_shows() -> None:
    cells = first_cells(read("hil_tests/README.md"), "| file | boards | what happens | what must come out |")
    named = {name for cell in cells for name in coded(cell)}
    assert named == {path.name for path in (ROOT / "hil_tests").glob("test_*.py")}
