# SPDX-License-Identifier: MIT
"""`scripts/docs [--check] [FILE ...]`: write the generated blocks again, or say which differ."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from docs.generator.blocks import BlockError, filled
from docs.generator.sources import SOURCES


def main() -> int:
    """Exit code 1 when a block differs (with --check) or cannot be made."""
    parser = argparse.ArgumentParser(prog="scripts/docs", description="Fill the generated blocks of Markdown files.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit code 1 when a block differs")
    parser.add_argument("files", nargs="*", type=Path, help="Markdown files; all of the project's by default")
    given = parser.parse_args()
    stale = 0
    for path in given.files or _tracked():
        text = path.read_text(encoding="utf-8")
        try:
            made = filled(text, SOURCES)
        except BlockError as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
        if made == text:
            continue
        stale += 1
        if given.check:
            print(f"{path}: a generated block differs from the code; run scripts/docs", file=sys.stderr)
        else:
            path.write_text(made, encoding="utf-8")
            print(f"{path}: written")
    return 1 if given.check and stale else 0


def _tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.splitlines()]


sys.exit(main())
