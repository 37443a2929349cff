# SPDX-License-Identifier: MIT
"""The wording lint finds its patterns, and the files that it lists as clean are clean."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from project_files import ROOT


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("words", ROOT / "scripts" / "words.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


words = load()
LONG = " ".join(["word"] * 41)


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


def test_the_checked_files_are_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(list(ROOT.glob(name)) for name in words.CHECKED)
    assert words.main([]) == 0, capsys.readouterr().out
