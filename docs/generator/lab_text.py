# SPDX-License-Identifier: MIT
"""The attack lab's tables, from the last output of `peel lab tables --json` (docs/lab.json)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from peel_research.lab import cells
from peel_research.lab.attacks import LAB_ATTACKS
from peel_research.lab.overheads import guarantees
from peel_research.lab.words import Section, sections, summary

__all__ = ["FIGURES", "LEFT_OUT", "lab_attacks", "lab_run", "lab_section", "verified_costs"]

FIGURES = Path(__file__).resolve().parents[1] / "lab.json"
_MEASURED = FIGURES.with_name("figures.json")
#: Tables that the documents leave to lab.html and lab.json. `lab_attacks` has one row per attack instead of the first four.
LEFT_OUT = frozenset(
    {"not_exposed", "exposed", "layers", "attacks", "recovery", "formulas", "data"}
    | {"residual", "wire", "rivals", "ratios", "accuracy", "verified", "guarantees"}
)


def _figures() -> Mapping[str, Any]:
    figures: Mapping[str, Any] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return figures


def lab_run() -> str:
    """Return the run, its data and its result in a few sentences."""
    figures = _figures()
    run = figures["run"]
    made = f"`{run['command']}`: {run['machine']}, Python {run['python']}, seeds {_listed(run['seeds'])}, {run['seconds']:.0f} s."
    return _paragraph(summary(figures)) + "\n" + _paragraph(made)


def lab_section(key: str) -> str:
    """Return a table by its key, with its text and its plot."""
    section = _section(key)
    plot = f"\n![{section.title}](images/lab_{section.plot}.svg)\n" if section.plot else ""
    rows = [row for row in section.rows if key != "insider" or row[2] == "10,000"]
    return f"{_paragraph(section.text)}{plot}\n{_table(section.header, rows)}"


def lab_attacks(kind: str) -> str:
    """Return one row per attack, over all its profiles: those that a layer exposes, or (`not-exposed`) those that none does."""
    if kind == "not-exposed":
        header = ["attack", "what is done", "exposed", "shift over a liar's", "mixed profile", "why"]
        rows = [
            [
                *_attack(name),
                _most(found, "exposure", cells.share),
                _most(_of(found, mixed=False), "after_over_liar"),
                _most(_of(found, mixed=True), "after_over_liar"),
                LAB_ATTACKS[name].why,
            ]
            for name, found in _by_attack(exposable=False).items()
        ]
    else:
        header = ["attack", "what is done", "layer", "exposed", "slowest", "mixed profile", "undefended", "published"]
        rows = [
            [*_attack(name), found[0]["layer"], _least_exposed(found),
             _slowest(_of(found, mixed=False)), _slowest(_of(found, mixed=True)),
             _most(found, "undefended_over_liar"), _most(found, "after_over_liar")]
            for name, found in _by_attack(exposable=True).items()
        ]  # fmt: skip
    return _table(header, rows)


def verified_costs() -> str:
    """Return what a report costs with schemes whose coins cannot be biased: bytes, cycles and guarantee."""
    device = json.loads(_MEASURED.read_text(encoding="utf-8"))["device"]["figures"]
    rows = [
        [name, f"{size:,.0f}", "-" if cycles is None else f"{cycles:,}", guarantee]
        for name, size, cycles, guarantee in guarantees(device)
    ]
    return _table(["scheme", "bytes", "cycles", "a device that biases its answer"], rows)


def _by_attack(*, exposable: bool) -> dict[str, list[Mapping[str, Any]]]:
    """Return the rows of each attack, one per profile and kind of attribute."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in _figures()["attacks"]:
        if (row["layer"] is not None) == exposable:
            found.setdefault(row["attack"], []).append(row)
    return found


def _of(found: Sequence[Mapping[str, Any]], *, mixed: bool) -> list[Mapping[str, Any]]:
    """Return the rows of the mixed profile, or of the profiles with one kind of attribute."""
    return [row for row in found if row["mixed"] == mixed]


def _attack(name: str) -> list[str]:
    return [name.replace("_", " "), LAB_ATTACKS[name].help]


def _most(found: Sequence[Mapping[str, Any]], key: str, text: Callable[[float], str] = "{:.2f}".format) -> str:
    """Return the largest mean over the rows."""
    means = [row[key]["mean"] for row in found if row[key] is not None]
    return text(max(means)) if means else "-"


def _least_exposed(found: Sequence[Mapping[str, Any]]) -> str:
    return cells.share(min(row["exposure"]["mean"] for row in found))


def _slowest(found: Sequence[Mapping[str, Any]]) -> str:
    waits = [row["slowest"] for row in found if row["slowest"] is not None]
    return f"{max(waits):,}" if waits else "-"


def _section(key: str) -> Section:
    return next(section for section in sections(_figures()) if section.key == key)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _paragraph(text: str) -> str:
    return "\n".join(wrap(text, 118, break_on_hyphens=False)) + "\n"


def _listed(seeds: Sequence[int]) -> str:
    return f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])
