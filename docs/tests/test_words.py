# SPDX-License-Identifier: MIT
"""The wording lint finds its patterns, the files that it lists as clean are clean, and docstrings are whole sentences."""

from __future__ import annotations

import functools
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from project_files import ROOT, name_of, tracked


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("words", ROOT / "scripts" / "words.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


words = load()
LONG = " ".join(["word"] * 41)
ENDS = re.compile(r"[.:!?)`\"\]]$")
#: A colon, a blank line, and on in lower case. A double colon is another thing: it announces a formula or a program.
BROKEN = re.compile(r"[^:]:\n\s*\n\s*[a-z]")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("question.py", '"""What it does."""\n'),
        ("attribute.py", 'SIZE = 3\n"""How many there are."""\n'),
        ("banned.c", "/* Whoever calls this */\n"),
        ("banned.md", "The rest is none.\n"),
        ("long.md", f"A title: {LONG}.\n"),
        ("long.py", f'"""Return it.\n\n{LONG}.\n"""\n'),
        ("item.md", f"- {LONG[:100]}\n  {LONG[100:]}.\n"),
    ],
)
def test_a_fault_is_found(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert len(words.findings(path)) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("none.py", "assert value is None\n"),
        ("verb.py", '"""Return what it does."""\n'),
        ("code.md", f"```\n{LONG}\n```\n"),
        ("table.md", f"| {LONG} |\n"),
        ("formula.md", f"It is\n\n    {LONG}\n\nin words.\n"),
        ("two.md", f"{LONG[:100]}. {LONG[100:]}.\n"),
        ("items.md", f"- {LONG[:100]}\n- {LONG[100:]}\n"),
    ],
)
def test_other_text_is_left_alone(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert words.findings(path) == []


def test_all_files_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert words.main([]) == 0, capsys.readouterr().out


@functools.cache
def docstrings() -> list[tuple[str, str]]:
    """Return every string that is a statement, with its place."""
    return [
        (f"{name_of(path)}:{line}", text)
        for path in tracked("*.py")
        for line, text in words.statement_strings(path.read_text(encoding="utf-8"))
    ]


def test_every_docstring_begins_with_a_whole_paragraph() -> None:
    cut = [place for place, text in docstrings() if not ENDS.search(text.split("\n\n")[0].rstrip())]
    assert not cut, f"docstrings whose first paragraph does not end: {', '.join(cut)}"


def test_no_sentence_is_broken_off() -> None:
    broken = [place for place, text in docstrings() if BROKEN.search(text)]
    assert not broken, f"docstrings with a sentence that a blank line breaks off: {', '.join(broken)}"
