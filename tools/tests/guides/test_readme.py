# SPDX-License-Identifier: MIT
"""The README shows commands that the tutorial explains (and test_tutorial.py types), and pictures that load quickly."""

from __future__ import annotations

import re

from guide import ROOT, commands

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_commands_are_those_of_the_tutorial() -> None:
    shown = [line.split("  #")[0].strip() for line in commands("README.md") if not line.startswith("make ")]
    assert shown
    assert set(shown) <= set(commands("docs/tutorial.md"))


def test_the_pictures_are_there_and_small() -> None:
    names = re.findall(r'src="(docs/images/[^"]+)"', README)
    assert len(names) == 2
    for name in names:
        assert 10_000 < (ROOT / name).stat().st_size < 200_000
