# SPDX-License-Identifier: MIT
"""The demonstration's summary on the terminal, redrawn in place. Elsewhere it is one line every few seconds."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from itertools import groupby
from math import floor, log10
from textwrap import wrap
from typing import IO, Any

from peel_gateway.model.verdict import Verdict
from peel_tools.demo.demonstration import Demonstration, Outcome
from peel_tools.servers.gateway import GatewayError
from peel_tools.simulation.runner import Progress

__all__ = ["LiveSummary"]

_REDRAW_SECONDS = 1.0
_LINE_SECONDS = 5.0
_HARMLESS = tuple(verdict.label for verdict in Verdict if verdict.layer is None)
_WIDE = 80
_NUMBERS_WIDE = 55
_MOST_HASHED = 5
_UP_AND_CLEAR = "\x1b[{}F\x1b[J"


class LiveSummary:
    """The summary of a running demonstration."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self._drawn = 0
        self._next = 0.0
        self._until: float | None = None
        self._demonstration: Demonstration | None = None

    def say(self, text: str) -> None:
        """Print a line that stays."""
        print(text, file=self._stream, flush=True)
        self._drawn = 0

    def begin(self, demonstration: Demonstration, until: float | None) -> None:
        """Print the addresses and folders."""
        self._demonstration, self._until = demonstration, until
        url, broker = demonstration.gateway.url, demonstration.broker
        self.say(f"broker   {broker.name}{', embedded,' if broker.embedded else ''} on {broker.host}:{broker.port}")
        self.say(f"page     {url}/  (open it in a browser; the same as JSON: {url}/api)")
        self.say(f"files    {demonstration.folder}")
        if demonstration.proposal is not None:
            self.say("\n".join(wrap(f"data     {demonstration.proposal.summary()}", _WIDE, subsequent_indent=" " * 9)))
        self.say("Ctrl-C stops everything.\n" if until is None else "")

    def progress(self, progress: Progress) -> None:
        """Redraw if it is time."""
        now = time.monotonic()
        if self._demonstration is None or now < self._next:
            return
        self._next = now + (_REDRAW_SECONDS if self._live else _LINE_SECONDS)
        summary = self._demonstration.gateway.ask("/api/summary")
        if summary is None:  # busy; the demonstration itself notices when it has ended
            return
        verdicts = summary["totals"]["verdicts"]
        if not self._live:
            refused = sum(count for label, count in verdicts.items() if label not in _HARMLESS)
            self.say(
                f"{progress.seconds:5.0f} s  published {progress.published}  accepted {verdicts['accepted']}  refused {refused}"
            )
            return
        status = _status(progress, summary, self._until) + _verdict_lines(verdicts)
        with suppress(GatewayError):  # likewise
            self._draw(status + _estimate_lines(self._demonstration.estimates()))

    def settling(self) -> None:
        """Say that the comparison takes a moment."""
        text = "stopped; comparing what counts with the truth (Ctrl-C again does without)"
        if self._live:
            self._draw([text])
        else:
            self.say(text)

    def end(self, outcome: Outcome) -> None:
        """Print the outcome."""
        found = outcome.findings
        if self._live:
            self._draw([])
        lines = [
            f"published      {found.published} reports, {found.honest} of them honest",
            f"accepted       {found.accepted}",
            *wrap(
                "exposed        " + ", ".join(f"{cause} {count}" for cause, count in sorted(found.exposed.items())),
                _WIDE,
                subsequent_indent=" " * 15,
            ),
            f"honest exposed {found.honest_exposed} reports, {found.honest_devices_exposed} devices",
            f"lost           {found.lost}",
            f"counted twice  {found.double_counted}",
            "",
            *_attack_lines(outcome),
            "",
            *_estimate_lines(outcome.estimates),
        ]
        self.say("\n".join(lines))

    def _draw(self, lines: list[str]) -> None:
        width, height = shutil.get_terminal_size()
        if self._drawn:
            self._stream.write(_UP_AND_CLEAR.format(self._drawn))
        seen = lines[: height - 1]  # what has scrolled away cannot be drawn over
        self._stream.write("".join(line[: width - 1] + "\n" for line in seen))
        self._stream.flush()
        self._drawn = len(seen)


def _status(progress: Progress, summary: dict[str, Any], until: float | None) -> list[str]:
    rate = progress.published / progress.seconds if progress.seconds else 0.0
    left = "" if until is None else f"  {max(0.0, until - time.monotonic()):.0f} s left"
    waiting = summary["inbox"]["pending"]
    return [
        f"{progress.seconds:5.0f} s  published {progress.published}  {rate:.0f}/s  in the gateway's inbox {waiting}{left}",
        "",
    ]


def _verdict_lines(verdicts: dict[str, int]) -> list[str]:
    """Return the verdicts with their counts, three to a line."""
    cells = [f"{label:<12}{count:>9}" for label, count in verdicts.items() if count]
    return ["   ".join(cells[start : start + 3]) for start in range(0, len(cells), 3)] + [""]


def _estimate_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return a line of at most 80 columns per estimate. `if kept` is the estimate with the exposed devices in it."""
    rows = _without_rare(rows)
    unit = max((len(row["unit"]) for row in rows), default=0)
    room = min(max((len(row["name"]) for row in rows), default=0) + 2, _WIDE - _NUMBERS_WIDE - unit)
    lines = [f"{'estimate':<{room}}{'value':>9}  {'95% interval':>21}  {'truth':>9}  {'if kept':>9}"]
    for row in rows:
        if row["value"] is None:
            continue
        digits = _decimals((row["high"] - row["low"]) / 2)
        value, low, high, truth, kept = (
            f"{row[key]:.{digits}f}" for key in ("value", "low", "high", "truth", "before_withdrawal")
        )
        interval = f"{low} … {high}"
        name = row["name"] if len(row["name"]) < room else row["name"][: room - 2] + "…"
        lines.append(f"{name:<{room}}{value:>9}  {interval:>21}  {truth:>9}  {kept:>9} {row['unit']}".rstrip()[:_WIDE])
    return lines


def _without_rare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with only the most frequent categories of each hashed attribute."""
    shown: list[dict[str, Any]] = []
    for _, group in groupby(rows, key=lambda row: (row["profile"], row["attribute"], row["kind"])):
        mine = list(group)
        if mine[0]["kind"] == "hashed":
            mine = sorted(mine, key=lambda row: -(row["value"] or 0))[:_MOST_HASHED]
        shown += mine
    return shown


def _decimals(half_width: float) -> int:
    """Return the decimals for an interval: its half width has two digits, as on the page."""
    return min(6, max(0, 1 - floor(log10(half_width)))) if half_width > 0 else 2


def _attack_lines(outcome: Outcome) -> list[str]:
    lines = [f"{'attack':<18}{'layer':<12}{'pieces':>7}{'exposed':>9}{'devices':>9}{'exposed':>9}"]
    for name, kind in outcome.findings.attacks.items():
        devices = f"{kind.devices:>9}{kind.exposed_devices:>9}" if kind.devices else ""
        lines.append(f"{name:<18}{kind.layer or '-':<12}{kind.pieces:>7}{kind.exposed:>9}{devices}")
    return lines
