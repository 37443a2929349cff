# SPDX-License-Identifier: MIT
"""Docstrings end with a whole sentence, and no blank line breaks a sentence."""

from __future__ import annotations

import ast
import functools
import re

from project_files import name_of, tracked

ENDS = re.compile(r"[.:!?)`\"\]]$")
#: A colon, a blank line, and on in lower case. A double colon is another thing: it announces a formula or a program.
BROKEN = re.compile(r"[^:]:\n\s*\n\s*[a-z]")


@functools.cache
def docstrings() -> list[tuple[str, str]]:
    """Return every string that is a statement, with its place."""
    return [
        (f"{name_of(path)}:{node.lineno}", node.value.value.strip())
        for path in tracked("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def test_every_docstring_begins_with_a_whole_paragraph() -> None:
    cut = [place for place, text in docstrings() if not ENDS.search(text.split("\n\n")[0].rstrip())]
    assert not cut, f"docstrings whose first paragraph does not end: {', '.join(cut)}"


def test_no_sentence_is_broken_off() -> None:
    broken = [place for place, text in docstrings() if BROKEN.search(text)]
    assert not broken, f"docstrings with a sentence that a blank line breaks off: {', '.join(broken)}"
