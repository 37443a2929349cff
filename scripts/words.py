# SPDX-License-Identifier: MIT
"""Check the wording of the project: `scripts/words.py [FILE or FOLDER ...]`, without arguments all tracked files.

A finding is one line `file:line: reason`. The rules:

- A docstring says what a function does or what a class is. It does not begin with What, How, Where, Which, Who,
  Whoever or Whose.
- "whoever" and "is none" appear nowhere: name the person or thing instead.
- A sentence of prose (Markdown text, docstrings) has at most 40 words.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST_SENTENCE = 40
QUESTION_WORDS = re.compile(r"(What|How|Where|Which|Who|Whoever|Whose)\b")
BANNED = re.compile(r"\b([Ww]hoever|is none)\b")  # `is None` is Python
#: These quote the words that are not allowed.
ITSELF = {"words.py", "test_words.py"}
SUFFIXES = {".py", ".md", ".js", ".html", ".css", ".c", ".h", ".toml", ".sh"}
# A sentence ends with a full stop, question mark, exclamation mark or colon before white space; "e.g. " and initials do not end one.
SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!\b[A-Z])[.!?:](?=[\s\"')*_]|$)")
NOT_PROSE = re.compile(r"\s*(```|~~~|\||#|<|>|!\[|\[[^\]]+\]:|$)")

Finding = tuple[int, str]


def long_sentences(text: str, line: int) -> Iterator[Finding]:
    """Yield the sentences of a paragraph that are too long; `line` is where the paragraph begins."""
    for sentence in SENTENCE_END.split(text):
        words = sentence.split()
        if len(words) > LONGEST_SENTENCE:
            yield line, f"a sentence of {len(words)} words: {' '.join(words[:8])} ..."


def paragraphs(lines: list[str], first: int) -> Iterator[tuple[int, str]]:
    """Yield the paragraphs and list items of Markdown-like text with their first lines. Code, tables and headings are left out."""
    gathered: list[str] = []
    begin, fenced = first, False
    for number, text in enumerate([*lines, ""], first):
        if text.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        item = re.match(r"\s*([-*+]|\d+\.)\s+", text)
        if fenced or NOT_PROSE.match(text) or item:
            if gathered:
                yield begin, " ".join(gathered)
            gathered = []
        if fenced or NOT_PROSE.match(text) or (not gathered and not item and text.startswith("    ")):
            continue  # indented after a blank line: code or a formula
        if not gathered:
            begin = number
        gathered.append(text[item.end() :] if item else text.strip())
    if gathered:
        yield begin, " ".join(gathered)


def markdown(text: str) -> Iterator[Finding]:
    """Yield the findings of a Markdown file."""
    for begin, paragraph in paragraphs(text.splitlines(), 1):
        yield from long_sentences(re.sub(r"`[^`]*`|\]\([^)]*\)", "code", paragraph), begin)


def docstrings(text: str) -> Iterator[Finding]:
    """Yield the findings of a Python file's docstrings."""
    for line, string in statement_strings(text):
        if QUESTION_WORDS.match(string):
            yield line, f"docstring begins with a question word: {string.splitlines()[0][:60]}"
        for begin, paragraph in paragraphs(string.splitlines(), line):
            yield from long_sentences(re.sub(r"`[^`]*`", "code", paragraph), begin)


@functools.cache
def statement_strings(text: str) -> list[Finding]:
    """Return all strings that are statements, with their lines: docstrings, and the strings behind attributes."""
    return list(_strings_below(ast.parse(text)))


def _strings_below(node: ast.AST) -> Iterator[Finding]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield child.lineno, inspect.cleandoc(text)
            case ast.stmt() | ast.excepthandler() | ast.match_case():
                yield from _strings_below(child)


def banned(text: str) -> Iterator[Finding]:
    """Yield the lines with a banned word."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := BANNED.search(line):
            yield number, f'"{found[0]}": name who or what is meant'


def findings(path: Path) -> list[Finding]:
    """Return the findings of a file, by line."""
    text = path.read_text(encoding="utf-8")
    found = list(banned(text))
    if path.suffix == ".md":
        found += markdown(text)
    if path.suffix == ".py":
        found += docstrings(text)
    return sorted(found)


def tracked(names: Sequence[str]) -> list[Path]:
    """Return the tracked files with text to check among these files and folders; without names, all of them."""
    command = ["git", "ls-files", "-z", "--", *names]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    paths = [ROOT / name for name in listed if name]
    return [path for path in paths if path.suffix in SUFFIXES and path.name not in ITSELF and path.is_file()]


def main(arguments: Sequence[str]) -> int:
    """Print the findings; return 1 if there are any."""
    count = 0
    for path in tracked([str(Path(name).resolve()) for name in arguments]):
        for line, reason in findings(path):
            count += 1
            print(f"{path.relative_to(ROOT)}:{line}: {reason}")
    if count:
        print(f"words: {count} findings; the rules are at the top of scripts/words.py", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
