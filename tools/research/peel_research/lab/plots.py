# SPDX-License-Identifier: MIT
"""Plots as SVG, by hand: a few functions, no library, readable on light and on dark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import Any

__all__ = ["PLOTS", "draw"]

Figures = Mapping[str, Any]

_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #333 }
.quiet { fill: #777 } .axis { stroke: #bbb; fill: none } .mark { stroke: #888; stroke-width: 1.5; stroke-dasharray: 4 3 }
.a { fill: #2a7f9e; stroke: #2a7f9e } .b { fill: #c2571a; stroke: #c2571a } .c { fill: #8a8a8a; stroke: #8a8a8a }
.d { fill: #7a55b0; stroke: #7a55b0 }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .quiet { fill: #999 } .axis { stroke: #555 } .mark { stroke: #999 }
  .a { fill: #5cb8d6; stroke: #5cb8d6 } .b { fill: #f0935a; stroke: #f0935a } .c { fill: #9a9a9a; stroke: #9a9a9a }
  .d { fill: #b797e6; stroke: #b797e6 }
}
.line { fill: none; stroke-width: 2 } .dashed { stroke-dasharray: 5 4 } .bar { stroke: none }
"""
_ROW, _LABEL, _WIDE, _TAIL, _CAPTION = 20, 330, 420, 130, 24
"""Height of a bar's row; width of labels, bars and figures behind them; height of what stands above."""


def draw(name: str, figures: Figures) -> str:
    """One of `PLOTS` as an SVG document."""
    return PLOTS[name](figures)


def _document(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>{''.join(parts)}</svg>\n"
    )


def _text(x: float, y: float, text: str, *, anchor: str = "start", quiet: bool = False) -> str:
    kind = ' class="quiet"' if quiet else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(text)}</text>'


# ---- bars ----


@dataclass(frozen=True)
class _Bar:
    label: str
    value: float
    figure: str
    """As text, behind the bar."""
    kind: str = "a"


def _bars(title: str, bars: Sequence[_Bar], *, most: float, mark: float | None = None) -> str:
    """Horizontal bars up to `most`, with a dashed line at `mark`."""
    height = _CAPTION + _ROW * (len(bars) + 1)
    upright = f"M{{:.1f}} {_CAPTION}V{height - 8}"
    parts = [_text(_LABEL, 14, title, quiet=True), f'<path class="axis" d="{upright.format(_LABEL)}"/>']
    if mark is not None:
        parts.append(f'<path class="mark" d="{upright.format(_LABEL + _WIDE * mark / most)}"/>')
    for place, bar in enumerate(bars):
        y = _CAPTION + _ROW * place + 12
        length = _WIDE * max(0.0, min(bar.value / most, 1.0))
        parts.append(_text(_LABEL - 8, y + 4, bar.label, anchor="end"))
        parts.append(f'<rect class="bar {bar.kind}" x="{_LABEL}" y="{y - 7}" width="{length:.1f}" height="13" rx="2"/>')
        parts.append(_text(_LABEL + length + 6, y + 4, bar.figure, quiet=True))
    return _document(_LABEL + _WIDE + _TAIL, height, title, parts)


def _named(row: Mapping[str, Any]) -> str:
    return f"{row['attack'].replace('_', ' ')} ({row['mechanism']})"


def _of_one_kind(figures: Figures) -> Iterator[Mapping[str, Any]]:
    """Attacks on profiles with one kind of attribute. The tables have those on mixed profiles, too."""
    return (row for row in figures["attacks"] if not row["mixed"])


def _delays(figures: Figures) -> str:
    """Logarithmic: from one report on."""
    bars = [
        _Bar(_named(row), log10(row["delay"]) + 0.05, f"{row['delay']:.0f}")
        for row in _of_one_kind(figures)
        if row["layer"] and row["delay"] is not None
    ]
    return _bars("Poisoned reports of a device until it is exposed, the median; logarithmic", bars, most=4.0)


def _shifts(figures: Figures) -> str:
    rows = [row for row in _of_one_kind(figures) if row["layer"] is None]
    bars = [
        _Bar(_named(row), row["after_over_liar"]["mean"], f"{row['after_over_liar']['mean']:.2f}", "b") for row in rows
    ]
    return _bars("Shift of what is not exposed, over a liar's (dashed)", bars, most=2.0, mark=1.0)


def _ratio_bars(figures: Figures) -> str:
    """Of the attacks that the paper has, with its own figures."""
    bars = []
    for row in figures["ratio_estimates"]:
        if row["attack"] == "targets":
            continue
        defence, _, more = row["defence"].partition(",")
        where = row["acts"].partition(":")[0]  # who looks at more than reports is tried in several places
        told = f"{defence}, {where}" if defence.upper() == "PEEL" else f"{defence},{more}" if more else defence
        label = f"{row['mechanism']}, {row['attack']}: {told}"
        if row["ratio"] is not None:
            bars.append(_Bar(_cut(label), row["ratio"]["mean"], f"{row['ratio']['mean']:.2f}"))
        elif row["printed"] is not None:
            bars.append(_Bar(_cut(label), 0, "does not apply"))
        if row["printed"] is not None:
            bars.append(_Bar("the paper prints", row["printed"], f"{row['printed']:.2f}", "c"))
    return _bars(
        "Estimated share of poisoned devices in percent, 5 in truth (dashed); bars end at 12", bars, most=12.0, mark=5.0
    )


def _cut(label: str) -> str:
    return label if len(label) < 46 else label[:44] + "…"


def _overhead_bars(figures: Figures) -> str:
    """Logarithmic: from 100 bits on."""
    bars = [
        _Bar(row["scheme"], log10(row["bits"]) - 2, f"{row['bits']:,} bits", "b" if "Peel" in row["scheme"] else "a")
        for row in figures["overheads"]
    ]
    return _bars("Bits per report, logarithmic", bars, most=4.0)


def _accuracy_bars(figures: Figures) -> str:
    bars = []
    for row in figures["accuracy"]:
        for name, key, kind in (("plain", "plain", "c"), ("through the encoder", "peel", "a")):
            measured, expected = row[key]["mean"], row[f"{key}_theory"]
            label, figure = f"{row['mechanism']}, {name}", f"{measured:.2g} ({expected:.2g})"
            bars.append(_Bar(label, measured / expected, figure, kind))
    return _bars("Squared error over what theory says (dashed: equal), and both", bars, most=2.0, mark=1.0)


# ---- lines ----

_LEFT, _TOP, _PLOT_WIDE, _PLOT_HIGH, _LEGEND = 60, 34, 560, 320, 300
_LEVELS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_KINDS = {"harmony": "a", "krr": "b", "hashing": "d"}


@dataclass(frozen=True)
class _Frame:
    """The coordinates of a plot: powers of ten to the right, and 1 to `high` upwards, both logarithmic."""

    first: int
    last: int
    high: float

    def x(self, n: float) -> float:
        return _LEFT + _PLOT_WIDE * (log10(n) - self.first) / (self.last - self.first)

    def y(self, value: float) -> float:
        return _TOP + _PLOT_HIGH * (1 - log10(value) / log10(self.high))

    def axes(self, name: str) -> list[str]:
        bottom, right = _TOP + _PLOT_HIGH, _LEFT + _PLOT_WIDE
        ticks = [10**power for power in range(self.first, self.last + 1)]
        parts = [_text(self.x(tick), bottom + 18, f"{tick:,}", anchor="middle", quiet=True) for tick in ticks]
        for level in (each for each in _LEVELS if each <= self.high):
            y, kind = self.y(level), "mark" if level == 1 else "axis"
            parts.append(f'<path class="{kind}" d="M{_LEFT} {y:.1f}H{right}"/>')
            parts.append(_text(_LEFT - 8, y + 4, f"{level:g}", anchor="end", quiet=True))
        parts.append(_text(_LEFT + _PLOT_WIDE / 2, bottom + 38, name, anchor="middle", quiet=True))
        parts.append(_text(right + 14, self.y(1.0) + 4, "a liar", quiet=True))
        return parts

    def curve(self, kind: str, points: Sequence[tuple[float, float]]) -> str:
        path = "L".join(f"{self.x(n):.1f} {self.y(value):.1f}" for n, value in points)
        return f'<path class="{kind} line" d="M{path}"/>'


def _insider(figures: Figures) -> str:
    """Harm per report over the number of reports, of each mechanism with the target that is hit hardest in the end."""
    rows = figures["insider"]
    frame = _Frame(floor(log10(rows[0]["n"])), ceil(log10(rows[-1]["n"])), 1.1 * max(_drawn(row) for row in rows))
    title = "Harm of an unexposed insider over a liar's, by number of reports; both logarithmic"
    parts = [_text(_LEFT, 14, title, quiet=True), *frame.axes("reports")]
    for place, (mechanism, kind) in enumerate(_KINDS.items()):
        mine = _worst_target([row for row in rows if row["mechanism"] == mechanism])
        x, y = _LEFT + _PLOT_WIDE + 14, _TOP + 30 + 50 * place
        parts += [
            frame.curve(
                f"{kind} dashed", [(row["n"], row["steady"]) for row in mine if row["steady"] is not None] or _NOWHERE
            ),
            frame.curve(kind, [(row["n"], row["newcomer"]) for row in mine]),
            f'<path class="{kind} line" d="M{x} {y - 4}h20"/>',
            _text(x + 28, y, f"{mechanism}: {mine[0]['target']}"),
            f'<path class="{kind} dashed line" d="M{x} {y + 12}h20"/>',
            _text(x + 28, y + 16, "bound, if steady", quiet=True),
        ]
    return _document(_LEFT + _PLOT_WIDE + _LEGEND, _TOP + _PLOT_HIGH + 50, title, parts)


_NOWHERE = [(1.0, 1.0)]


def _drawn(row: Mapping[str, Any]) -> float:
    return float(max(row["newcomer"], row["steady"] or 0.0))


def _worst_target(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    last = max(row["n"] for row in rows)
    target = max((row for row in rows if row["n"] == last), key=lambda row: row["newcomer"])["target"]
    return [row for row in rows if row["target"] == target]


PLOTS: Mapping[str, Callable[[Figures], str]] = {
    "shifts": _shifts,
    "delays": _delays,
    "insider": _insider,
    "ratios": _ratio_bars,
    "accuracy": _accuracy_bars,
    "overheads": _overhead_bars,
}
"""By name: each takes the figures of a run."""
