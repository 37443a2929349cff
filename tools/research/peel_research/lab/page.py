# SPDX-License-Identifier: MIT
"""A run of the lab as one page that opens in any browser: nothing is loaded, everything is in the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from peel_research.lab.plots import PLOTS, draw
from peel_research.lab.words import Section, sections, summary

__all__ = ["page", "write_page"]

_STYLE = """
:root {
  color-scheme: light dark;
  --ink: #222; --quiet: #666; --paper: #fff; --line: #e2e2e2; --accent: #2a7f9e; --stripe: #f6f7f8;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e4e4; --quiet: #9a9a9a; --paper: #17191b; --line: #333; --accent: #5cb8d6; --stripe: #1e2124 }
}
body {
  font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 76rem; margin: 2rem auto; padding: 0 1rem;
}
h1 { font-size: 1.6rem }
h2 { font-size: 1.2rem; margin-top: 3rem }
p { max-width: 60rem }
a { color: var(--accent) }
nav { columns: 18rem; margin: 1rem 0 2rem }
nav a { display: block; padding: .1rem 0 }
.wide { overflow-x: auto }
.wide:focus-visible { outline: 2px solid var(--accent) }
table { border-collapse: collapse; font-size: .85rem }
td, th { padding: .25rem .6rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line) }
th { color: var(--quiet); font-weight: 600; white-space: normal }
tr:nth-child(even) td { background: var(--stripe) }
.short { white-space: nowrap }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.plot svg { max-width: 100%; min-width: 46rem; height: auto; margin: .5rem 0 1rem }
footer { color: var(--quiet); margin-top: 3rem }
code { font-size: .9em }
"""


def write_page(figures: Mapping[str, Any], folder: Path) -> Path:
    """Write page, plots and figures into a folder; return where the page is."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in PLOTS:
        (folder / f"lab_{name}.svg").write_text(draw(name, figures), encoding="utf-8")
    (folder / "lab.json").write_text(json.dumps(figures, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    path = folder / "lab.html"
    path.write_text(page(figures), encoding="utf-8")
    return path


def page(figures: Mapping[str, Any]) -> str:
    """The page as text."""
    run = figures["run"]
    parts = sections(figures)
    contents = "".join(f'<a href="#{part.key}">{escape(part.title)}</a>' for part in parts)
    body = "".join(_section(part, figures) for part in parts)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Attack lab</title><style>{_STYLE}</style>"
        f"<h1>Attack lab</h1><p>{escape(summary(figures))}</p><nav>{contents}</nav>{body}"
        f"<footer><p><code>{escape(run['command'])}</code>: {escape(run['machine'])}, Python {escape(run['python'])}, "
        f"{run['seconds']:.0f} s.</p></footer></html>\n"
    )


def _section(part: Section, figures: Mapping[str, Any]) -> str:
    kinds = [_kind(column) for column in zip(*part.rows, strict=True)]
    head = _cells("th", part.header, kinds)
    rows = "".join(f"<tr>{_cells('td', row, kinds)}</tr>" for row in part.rows)
    return (
        f'<section id="{part.key}"><h2>{escape(part.title)}</h2><p>{escape(part.text)}</p>{_plot(part, figures)}'
        f'<div class=wide tabindex=0 role=region aria-label="{escape(part.title)}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )


def _plot(part: Section, figures: Mapping[str, Any]) -> str:
    """As wide as the page, or to be moved sideways where that would make it too small to read."""
    if part.plot is None:
        return ""
    label = escape(f"Plot: {part.title}")
    return f'<div class="wide plot" tabindex=0 role=region aria-label="{label}">{draw(part.plot, figures)}</div>'


def _cells(tag: str, cells: Sequence[str], kinds: Sequence[str]) -> str:
    classes = (f' class="{kind}"' if (kind and tag == "td") or "number" in kind else "" for kind in kinds)
    return "".join(f"<{tag}{each}>{escape(cell)}</{tag}>" for cell, each in zip(cells, classes, strict=True))


def _kind(column: Sequence[str]) -> str:
    """Figures stand to the right; neither they nor short texts are broken."""
    if all(cell in ("", "-") or (cell.lstrip("-")[:1].isdigit() and len(cell) < _SHORT) for cell in column):
        return "number"
    return "short" if max(map(len, column)) < 2 * _SHORT else ""


_SHORT = 28
"""Characters of a cell that is not to be broken."""
