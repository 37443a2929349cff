# SPDX-License-Identifier: MIT
"""The demonstration on the screen: redrawn in place on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from typing import IO, Any

from peel_gateway.model.verdict import Verdict
from peel_tools.demo.demonstration import Demonstration, Outcome
from peel_tools.servers.gateway import GatewayError
from peel_tools.simulation.runner import Progress

__all__ = ["LiveSummary"]

_REDRAW_SECONDS = 1.0
_LINE_SECONDS = 5.0
_HARMLESS = (Verdict.ACCEPTED.label, Verdict.REDELIVERED.label)
_UP_AND_CLEAR = "\x1b[{}F\x1b[J"


class LiveSummary:
    """What people see while the demonstration runs."""

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
        """Say where everything is."""
        self._demonstration, self._until = demonstration, until
        url, broker = demonstration.gateway.url, demonstration.broker
        self.say(f"broker   {broker.name}{', embedded,' if broker.embedded else ''} on {broker.host}:{broker.port}")
        self.say(f"page     {url}/  (open it in a browser; the same as JSON: {url}/api)")
        self.say(f"files    {demonstration.folder}")
        self.say("Ctrl-C stops everything.\n" if until is None else "")

    def progress(self, progress: Progress) -> None:
        """Redraw, if it is time."""
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

    def end(self, outcome: Outcome) -> None:
        """Print what came out."""
        found = outcome.findings
        if self._live:
            self._draw([])
        lines = [
            f"published      {found.published} reports, {found.honest} of them honest",
            f"accepted       {found.accepted}",
            f"exposed        {', '.join(f'{cause} {count}' for cause, count in sorted(found.exposed.items()))}",
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
        width = shutil.get_terminal_size().columns
        if self._drawn:
            self._stream.write(_UP_AND_CLEAR.format(self._drawn))
        self._stream.write("".join(line[: width - 1] + "\n" for line in lines))
        self._stream.flush()
        self._drawn = len(lines)


def _status(progress: Progress, summary: dict[str, Any], until: float | None) -> list[str]:
    rate = progress.published / progress.seconds if progress.seconds else 0.0
    left = "" if until is None else f"  {max(0.0, until - time.monotonic()):.0f} s left"
    waiting = summary["inbox"]["pending"]
    return [
        f"{progress.seconds:5.0f} s  published {progress.published}  {rate:.0f}/s  in the gateway's inbox {waiting}{left}",
        "",
    ]


def _verdict_lines(verdicts: dict[str, int]) -> list[str]:
    """Verdicts with their counts, three to a line."""
    cells = [f"{label:<12}{count:>9}" for label, count in verdicts.items() if count]
    return ["   ".join(cells[start : start + 3]) for start in range(0, len(cells), 3)] + [""]


def _estimate_lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = [f"{'estimate':<16}{'value':>10}  {'95% interval':>22}  {'truth':>10}  {'if not withdrawn':>16}"]
    for row in rows:
        if row["value"] is None:
            continue
        interval = f"{row['low']:.2f} … {row['high']:.2f}"
        lines.append(
            f"{row['name']:<16}{row['value']:>10.2f}  {interval:>22}  {row['truth']:>10.2f}"
            f"  {row['before_withdrawal']:>16.2f} {row['unit']}"
        )
    return lines


def _attack_lines(outcome: Outcome) -> list[str]:
    lines = [f"{'attack':<16}{'layer':<12}{'pieces':>7}{'exposed':>9}{'devices':>9}{'exposed':>9}"]
    for name, kind in outcome.findings.attacks.items():
        devices = f"{kind.devices:>9}{kind.exposed_devices:>9}" if kind.devices else ""
        lines.append(f"{name:<16}{kind.layer or '-':<12}{kind.pieces:>7}{kind.exposed:>9}{devices}")
    return lines
