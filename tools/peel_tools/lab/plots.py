# SPDX-License-Identifier: MIT
"""Plots as SVG, by hand: a few functions, no library, readable on light and on dark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .quiet { fill: #999 } .axis { stroke: #555 } .mark { stroke: #999 }
  .a { fill: #5cb8d6; stroke: #5cb8d6 } .b { fill: #f0935a; stroke: #f0935a } .c { fill: #9a9a9a; stroke: #9a9a9a }
}
.line { fill: none; stroke-width: 2 } .dashed { stroke-dasharray: 5 4 } .bar { stroke: none }
"""
_ROW, _LABEL, _WIDE, _TAIL = 20, 330, 420, 130
"""Height of a bar's row; width of labels, bars and figures behind them."""


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
    height = _ROW * (len(bars) + 1) + 12
    upright = "M{:.1f} 6V" + str(height - 10)
    parts = [f'<path class="axis" d="{upright.format(_LABEL)}"/>']
    if mark is not None:
        parts.append(f'<path class="mark" d="{upright.format(_LABEL + _WIDE * mark / most)}"/>')
    for place, bar in enumerate(bars):
        y = _ROW * (place + 1)
        length = _WIDE * max(0.0, min(bar.value / most, 1.0))
        parts.append(_text(_LABEL - 8, y + 4, bar.label, anchor="end"))
        parts.append(f'<rect class="bar {bar.kind}" x="{_LABEL}" y="{y - 7}" width="{length:.1f}" height="13" rx="2"/>')
        parts.append(_text(_LABEL + _WIDE + 8, y + 4, bar.figure, quiet=True))
    return _document(_LABEL + _WIDE + _TAIL, height, title, parts)


def _named(row: Mapping[str, Any]) -> str:
    return f"{row['attack'].replace('_', ' ')} ({row['mechanism']})"


def _delays(figures: Figures) -> str:
    """Logarithmic: from one report on."""
    bars = [
        _Bar(_named(row), log10(row["delay"]) + 0.05, f"{row['delay']:.0f}")
        for row in figures["attacks"]
        if row["layer"] and row["delay"] is not None
    ]
    return _bars("Poisoned reports of a device until it is exposed, the median; logarithmic", bars, most=4.0)


def _shifts(figures: Figures) -> str:
    rows = [row for row in figures["attacks"] if row["layer"] is None]
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
        label = f"{row['mechanism']}, {row['attack']}: {row['defence']}"
        if row["printed"] is not None:
            bars.append(_Bar(_cut(f"{label}, printed"), row["printed"], f"{row['printed']:.2f}", "c"))
        if row["ratio"] is not None:
            bars.append(_Bar(_cut(label), row["ratio"]["mean"], f"{row['ratio']['mean']:.2f}"))
    return _bars("Estimated share of poisoned devices in percent, 5 in truth (dashed)", bars, most=40.0, mark=5.0)


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

_LEFT, _TOP, _PLOT_WIDE, _PLOT_HIGH = 60, 20, 620, 300
_CURVES = (
    ("c dashed", "bound", "bound, for plus"),
    ("a", "plus", "for plus"),
    ("b", "sleeper", "sleeper, any goal"),
)


@dataclass(frozen=True)
class _Frame:
    """Where values go: powers of ten to the right, from `low` to `high` upwards."""

    first: int
    last: int
    low: float
    high: float

    def x(self, n: float) -> float:
        return _LEFT + _PLOT_WIDE * (log10(n) - self.first) / (self.last - self.first)

    def y(self, value: float) -> float:
        return _TOP + _PLOT_HIGH * (1 - (value - self.low) / (self.high - self.low))

    def axes(self, name: str) -> list[str]:
        bottom = _TOP + _PLOT_HIGH
        ticks = [10**power for power in range(self.first, self.last + 1)]
        return [
            f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{_LEFT + _PLOT_WIDE}"/>',
            *(_text(self.x(tick), bottom + 18, f"{tick:,}", anchor="middle", quiet=True) for tick in ticks),
            _text(_LEFT + _PLOT_WIDE / 2, bottom + 38, name, anchor="middle", quiet=True),
        ]

    def level(self, value: float, name: str) -> list[str]:
        y, right = self.y(value), _LEFT + _PLOT_WIDE
        return [
            f'<path class="mark" d="M{_LEFT} {y:.1f}H{right}"/>',
            _text(_LEFT - 8, y + 4, f"{value:.2f}", anchor="end", quiet=True),
            _text(right + 6, y + 4, name, quiet=True),
        ]

    def curve(self, kind: str, points: Sequence[tuple[float, float]]) -> str:
        path = "L".join(f"{self.x(n):.1f} {self.y(value):.1f}" for n, value in points)
        return f'<path class="{kind} line" d="M{path}"/>'


def _insider(figures: Figures) -> str:
    """Harm per report over the number of reports, which is logarithmic."""
    rows = [row for row in figures["insider"] if row["mechanism"] == "harmony"]
    cap = rows[0]["cap"]
    frame = _Frame(floor(log10(rows[0]["n"])), ceil(log10(rows[-1]["n"])), 0.9, 1.05 * cap)
    parts = [*frame.axes("reports"), *frame.level(1.0, "a liar"), *frame.level(cap, "cap")]
    for place, (kind, key, name) in enumerate(_CURVES):
        points = [(row["n"], row[key]) for row in rows if row[key] is not None]
        if points:
            x, y = _LEFT + 430, _TOP + 60 + 20 * place
            parts += [
                frame.curve(kind, points),
                f'<path class="{kind} line" d="M{x} {y - 4}h20"/>',
                _text(x + 28, y, name),
            ]
    width, height = _LEFT + _PLOT_WIDE + 80, _TOP + _PLOT_HIGH + 50
    return _document(width, height, "Harm of an unexposed insider over a liar's", parts)


PLOTS: Mapping[str, Callable[[Figures], str]] = {
    "shifts": _shifts,
    "delays": _delays,
    "insider": _insider,
    "ratios": _ratio_bars,
    "accuracy": _accuracy_bars,
    "overheads": _overhead_bars,
}
"""By name: each takes the figures of a run."""
