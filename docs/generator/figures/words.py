# SPDX-License-Identifier: MIT
"""Text for measured figures: numbers, tables, the conditions of a run, and whether a target is met."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from textwrap import wrap

from docs.generator.figures.record import Taken, taken

__all__ = ["BUSY", "Wanted", "listed", "paragraph", "rounded", "run_sentence", "table", "under_load"]

BUSY = 1.0
"""Load above which times count as taken under load."""
_COLUMNS = 118
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:µs|ms|s|KB|MB|GB|bytes|times|cycles)\b)")
_NO_BREAK = "\0"


def rounded(value: float, digits: int = 3) -> str:
    """Return a number with this many significant digits: 176,000, 24.2, 0.85."""
    if value == 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, places):,.{max(0, places)}f}"


def listed(words: Sequence[str]) -> str:
    """Return the words as a list in a sentence: a, b and c."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    first, *others = (f"| {' | '.join(line)} |\n" for line in (header, *rows))
    return "".join([first, "|---" * len(header) + "|\n", *others])


def paragraph(text: str) -> str:
    """Wrap sentences; keep each number with its unit."""
    kept = _BEFORE_UNIT.sub(_NO_BREAK, text)
    lines = wrap(kept, _COLUMNS, break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines).replace(_NO_BREAK, " ") + "\n"


def run_sentence(name: str) -> str:
    """Return the command of a benchmark's run, its date, version and load."""
    run = taken(name)
    return paragraph(
        f"`{run.command}`, {_day(run)}, version {run.version} (commit {run.commit}{', changed' if run.changed else ''}), "
        f"{run.seconds:.0f} s. {_at_load(run)}"
    )


def _day(run: Taken) -> str:
    moment = datetime.fromisoformat(run.date)
    return f"{moment.day} {moment:%B %Y}"


def under_load(run: Taken) -> bool:
    """Return whether other processes kept the machine busy."""
    return run.load.before > BUSY


def _at_load(run: Taken) -> str:
    after = f"before, {run.load.after:g} after"
    if under_load(run):
        return f"Taken under load ({run.load.before:g} {after})."
    return f"Taken on a quiet machine (load {run.load.before:g} {after})."


@dataclass(frozen=True)
class Wanted:
    """A target's bound."""

    bound: float
    at_least: bool = False

    def miss(self, value: float) -> float:
        """Return by which part of the bound a value misses it; 0 or less if it is met."""
        return (self.bound - value if self.at_least else value - self.bound) / self.bound

    def verdict(self, value: float) -> str:
        """Return `met`, or by how much the bound is missed."""
        miss = self.miss(value)
        if miss <= 0:
            return "met"
        return f"missed by {miss:.0%}" if miss >= 0.01 else "missed by less than 1%"
