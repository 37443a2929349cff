# SPDX-License-Identifier: MIT
"""The gateway's table, the README and the threat model have the same layers."""

from __future__ import annotations

import re

from project_files import ROOT

from peel_gateway.model.verdict import LAYERS

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def test_the_readme_counts_them() -> None:
    (number,) = re.findall(r"in (\w+) layers", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert number == NUMBERS[len(LAYERS)]


def test_the_threat_model_lists_them_in_order() -> None:
    text = (ROOT / "THREAT_MODEL.md").read_text(encoding="utf-8")
    table = text.split("| layer | exposes | how |\n|---|---|---|\n")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
    assert [row[:2] for row in rows] == [[layer.label, layer.value] for layer in LAYERS]
    assert all(how for _, _, how in rows)
