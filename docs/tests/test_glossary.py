# SPDX-License-Identifier: MIT
"""The glossary explains words that the code uses, each once."""

from __future__ import annotations

import re

from project_files import ROOT, name_of, tracked

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = [
    term
    for cell in re.findall(r"^\| ([^|]+) \| [^|]+ \|$", GLOSSARY, flags=re.M)
    for term in cell.split(", ")
    if term not in ("term", "---")
]


def test_each_term_is_explained_once() -> None:
    assert len(TERMS) > 50
    assert sorted(TERMS) == sorted(set(TERMS))


def test_each_term_is_used_in_the_code() -> None:
    sources = [path for path in tracked("*.py", "*.c", "*.h") if not re.search(r"^docs/|tests/", name_of(path))]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources).lower()
    unused = [term for term in TERMS if not re.search(rf"(?<![a-z]){stem(term)}", code)]
    assert not unused, f"explained, and not used in any source: {', '.join(unused)}"


def stem(term: str) -> str:
    """Return a pattern for a term, whose words code joins by underscores or breaks over lines."""
    return r"[\s_#*]+".join(map(re.escape, term.lower().split()))
