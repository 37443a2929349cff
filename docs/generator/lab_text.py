# SPDX-License-Identifier: MIT
"""The attack lab's tables, from what `peel lab tables --json` printed last (docs/lab.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from peel_tools.lab.words import Section, sections, summary

__all__ = ["FIGURES", "lab_not_exposed", "lab_run", "lab_section"]

FIGURES = Path(__file__).resolve().parents[1] / "lab.json"


def _figures() -> Mapping[str, Any]:
    figures: Mapping[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return figures


def lab_run() -> str:
    """What was run, on what, and what came out, in a few sentences."""
    figures = _figures()
    run = figures["run"]
    made = f"`{run['command']}`: {run['machine']}, Python {run['python']}, seeds {_listed(run['seeds'])}, {run['seconds']:.0f} s."
    return _paragraph(summary(figures)) + "\n" + _paragraph(made)


def lab_section(key: str) -> str:
    """A table by its key, with its sentences and its plot."""
    section = _section(key)
    plot = f"\n![{section.title}](images/lab_{section.plot}.svg)\n" if section.plot else ""
    return f"{_paragraph(section.text)}{plot}\n{_table(section.header, section.rows)}"


def lab_not_exposed() -> str:
    """What no layer exposes, and what it shifts at most, in one paragraph."""
    worst: dict[str, float] = {}
    for row in _figures()["attacks"]:
        if row["layer"] is None:
            name = row["attack"].replace("_", " ")
            worst[name] = max(worst.get(name, 0.0), row["after_over_liar"]["mean"])
    shifts = ", ".join(f"{name} ({shift:.2f})" for name, shift in worst.items())
    return _paragraph(
        f"Not exposed in that run, with the shift of the worst figure over that of the worst lie: {shifts}."
    )


def _section(key: str) -> Section:
    return next(section for section in sections(_figures()) if section.key == key)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _paragraph(text: str) -> str:
    return "\n".join(wrap(text, 118, break_on_hyphens=False)) + "\n"


def _listed(seeds: Sequence[int]) -> str:
    return f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
