# SPDX-License-Identifier: MIT
"""`scripts/docs [--check] [FILE ...]`: write the generated blocks and files, or list those that differ."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from docs.generator.blocks import BlockError, filled
from docs.generator.sources import FILES, SOURCES


def main() -> int:
    """Return 1 if something differs (with --check) or cannot be generated."""
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Fill the generated blocks of Markdown files.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 when something differs")
    parser.add_argument("files", nargs="*", type=Path, help="all Markdown files by default")
    given = parser.parse_args()
    stale = 0
    try:
        for path, made in _made(given.files or [*_documents(), *map(Path, FILES)]):
            if made == path.read_text(encoding="utf-8"):
                continue
            stale += 1
            if given.check:
                print(f"{path}: is out of date. Run scripts/docs.", file=sys.stderr)
            else:
                path.write_text(made, encoding="utf-8")
                print(f"{path}: written")
    except BlockError as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if given.check and stale else 0


def _made(paths: list[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each file with its generated text."""
    for path in paths:
        if str(path) in FILES:
            yield path, FILES[str(path)]()
            continue
        try:
            yield path, filled(path.read_text(encoding="utf-8"), SOURCES)
        except BlockError as error:
            raise BlockError(f"{path}: {error}") from None


def _documents() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.splitlines()]


sys.exit(main())
