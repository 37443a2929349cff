# SPDX-License-Identifier: MIT
"""New profiles as text, and a proposal for the user's own CSV file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import numpy as np

from peel_core import Profile, parse_profile, projection
from peel_core.kinds import kind_for_categories
from peel_core.odds import EPSILON_ONE
from peel_core.primitives import MAX_WIDTH
from peel_core.profile import DEFAULT_WIDTH
from peel_tools.profiles.dataset import NAME_BYTES, Column, Dataset, DatasetError, read_number

__all__ = ["Draft", "Proposal", "Row", "attribute_text", "propose", "unfit", "write_proposal"]

Row = Mapping[str, object]
"""The keys and values of an [[attribute]] table."""

_TEMPLATE = """\
# A Peel profile: what a fleet's devices and its gateway agree on. Changing anything here makes another profile id.

name = "{name}"
epsilon = {epsilon}      # privacy budget of one report; every report number spends it once
width = {width}         # columns of the projection
seed = {seed}           # found by search: all codewords decode to themselves
quota = {quota}          # report numbers in any window of a period
period = {period}       # seconds
{lifetime}"""


def attribute_text(row: Row) -> str:
    """Return an [[attribute]] table as TOML."""
    return "\n[[attribute]]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in row.items())


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A profile without a seed."""

    name: str
    attributes: Sequence[Row]
    epsilon: str = "1.0"
    quota: int = 60
    period: int = 3600
    lifetime: int | None = None
    verify: bool = True
    offline: int | None = None
    """Seconds; None for the default of verified coins."""
    bucket: int | None = None
    """Seconds; None for the default of verified coins."""
    width: int | None = None
    progress: Callable[[int], None] = field(default=lambda tried: None, compare=False)
    """Called for each seed that was tried."""

    def text(self) -> str:
        """Return the whole file. Raise ProfileError if the draft is invalid, LookupError if no seed was found."""
        symbols = self.checked().k
        width = self.width or max(DEFAULT_WIDTH, symbols)
        seed, _ = projection.search_seed(width, symbols, progress=self.progress)
        return self._filled(width, seed)

    def checked(self) -> Profile:
        """Return the profile with a seed that is not searched for. Raise ProfileError if the draft is invalid."""
        return parse_profile(self._filled(self.width or MAX_WIDTH, 0))

    def _filled(self, width: int, seed: int) -> str:
        lifetime = (
            ""
            if self.lifetime is None
            else f"lifetime = {self.lifetime}  # report numbers over a device's whole life\n"
        )
        verify = (
            "verify = true      # coins are committed to, audited and opened (SPEC section 13)\n"
            if self.verify
            else "verify = false     # coins are judged by statistics; devices need no downlink\n"
        )
        offline = (
            ""
            if self.offline is None
            else f"offline = {self.offline}     # seconds that approved numbers last without a gateway\n"
        )
        bucket = (
            ""
            if self.bucket is None
            else f"bucket = {self.bucket}      # seconds of a time bucket; a report counts after it and a round trip\n"
        )
        head = _TEMPLATE.format(
            name=self.name, epsilon=self.epsilon, width=width, seed=seed, quota=self.quota, period=self.period,
            lifetime=lifetime + verify + offline + bucket,
        )  # fmt: skip
        return head + "".join(map(attribute_text, self.attributes))


_MOST_CATEGORIES = 64
_LEAST_PER_CATEGORY = 5
_MANY_ROWS = 20
_DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([ T].*)?")
_FINEST = 1e-6
"""The ends of ranges have at most six decimals (SPEC section 10)."""


@dataclass(frozen=True)
class Missing:
    """A word or number that was taken for a missing reading."""

    cell: str
    count: int
    reason: str

    def __str__(self) -> str:
        return f"{self.cell} in {self.count} {'cell' if self.count == 1 else 'cells'}, {self.reason}"


@dataclass(frozen=True)
class Proposal:
    """A profile for a file: numbers by their means, text by the shares of its categories."""

    draft: Draft
    dropped: Mapping[str, str]
    """The reason for each column that is left out, by header."""
    empty: Mapping[str, int]
    """The number of empty cells in each used column, by header."""
    missing: Mapping[str, Sequence[Missing]]
    """Words and numbers that were taken for missing readings, by header."""

    def summary(self) -> str:
        """Return a summary in a sentence or two."""
        used = len(self.draft.attributes)
        said = [f"{used} of {used + len(self.dropped)} columns are reported."]
        if self.dropped:
            said.append(f"Left out: {', '.join(self.dropped)}; `peel profile propose` says why.")
        if self.empty:
            said.append(f"{sum(self.empty.values())} empty cells are skipped.")
        for header, found in self.missing.items():
            said.append(f"{header}: {' and '.join(each.cell for each in found)} means no reading.")
        return " ".join(said)


def propose(data: Dataset, name: str, *, epsilon: str = "1.0", quota: int = 60, period: int = 3600) -> Proposal:
    """Propose a profile with ranges a little wider than the readings, and the categories that occur.

    Ranges and categories are public. Taken from readings they reveal something about them, so a real fleet should use the ranges of its
    sensors instead.
    """
    reasons = {column.name: unfit(column) for column in data.columns.values()}
    fit = [column for name, column in data.columns.items() if not reasons[name]]
    numbers = [column for column in fit if column.is_numeric]
    words = [column for column in fit if not column.is_numeric]
    rows = [*map(_mean, numbers), *(_choice(column, epsilon) for column in words)]
    return Proposal(
        Draft(name=name, attributes=rows, epsilon=epsilon, quota=quota, period=period),
        {column.header: reasons[name] for name, column in data.columns.items() if reasons[name]},
        {column.header: count for column in fit if (count := column.empty - sum(column.missing.values()))},
        {
            column.header: [Missing(cell, count, column.why_missing(cell)) for cell, count in column.missing.items()]
            for column in data.columns.values()
            if column.missing
        },
    )


def write_proposal(proposal: Proposal, folder: Path, *, overwrite: bool) -> Path:
    """Write the proposed profile to NAME.toml. Raise DatasetError if it has no attribute, or a file with other content exists."""
    if not proposal.draft.attributes:
        reasons = "; ".join(f"{header}: {why}" for header, why in proposal.dropped.items())
        raise DatasetError(f"no column can be reported. {reasons}")
    path, text = folder / f"{proposal.draft.name}.toml", proposal.draft.text()
    if not overwrite and path.exists() and path.read_text(encoding="utf-8") != text:
        raise DatasetError(
            f"{path} exists with other content. Overwrite it with --force, or choose another name with --name"
        )
    path.write_text(text, encoding="utf-8")
    return path


def _mean(column: Column) -> Row:
    low, high = _wide_range(float(column.numbers.min()), float(column.numbers.max()))
    return {"name": column.name, "kind": "mean", "unit": column.unit, "low": low, "high": high}


def _choice(column: Column, epsilon: str) -> Row:
    kind = kind_for_categories(len(column.values), int(Decimal(epsilon) * EPSILON_ONE))
    return {"name": column.name, "kind": kind, "categories": sorted(column.values)}


def unfit(column: Column) -> str:
    """Return the reason why a column cannot be reported; empty if it can."""
    different = len(column.values)
    if different < 2:
        return "always the same" if different else "empty"
    if column.is_numeric:
        low, high = float(column.numbers.min()), float(column.numbers.max())
        if not math.isfinite(high - low):
            return "numbers that are further apart than can be counted with"
        if _round_step(low, high) < _FINEST:
            return "numbers that differ by a few millionths at most: give them in a smaller unit"
        steady = len(column.cells) >= _MANY_ROWS and bool((np.diff(column.numbers) >= 0).all())
        return "never falls from row to row, like a time or a counter" if steady else ""
    strange = [cell for cell in column.values if not math.isfinite(read_number(cell))]
    if len(strange) <= different / 2:
        line = next(line for line, cell in column.cells if cell == strange[0])
        return f"mostly numbers, but line {line} says {strange[0]!r}"
    if all(map(_DATE.fullmatch, column.values)):
        return "dates"
    if any("|" in cell or len(cell.encode()) > NAME_BYTES for cell in column.values):
        return "text that is too long for a category"
    if different > _MOST_CATEGORIES or len(column.cells) < _LEAST_PER_CATEGORY * different:
        return f"text with {different} different values in {len(column.cells)} rows"
    return ""


def _wide_range(low: float, high: float) -> tuple[Decimal, Decimal]:
    """Return the next round numbers outside a range."""
    step = _round_step(low, high)
    ends = (math.floor(low / step) * step, math.ceil(high / step) * step)
    least, most = (Decimal(f"{end:.6f}".rstrip("0").rstrip(".")) for end in ends)
    return least, most


def _round_step(low: float, high: float) -> float:
    return 10.0 ** math.floor(math.log10(high - low)) / 2
