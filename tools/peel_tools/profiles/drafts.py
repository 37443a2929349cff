# SPDX-License-Identifier: MIT
"""New profiles as text, and proposals for the user's own CSV file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from peel_core import Profile, ProfileError, choice, parse_profile, projection
from peel_core.profile import DEFAULT_WIDTH
from peel_tools.profiles.dataset import NAME_BYTES, Column, Dataset, DatasetError, read_number

__all__ = ["Draft", "Proposal", "category_table", "domain_table", "number_table", "propose", "unfit", "write_proposal"]

_TEMPLATE = """\
# A Peel profile: what a fleet's devices and its gateway agree on. Changing anything here makes another profile id.

name = "{name}"
mechanism = "{mechanism}"
epsilon = {epsilon}      # privacy budget of one report; every report number spends it once
width = {width}         # columns of the projection
seed = {seed}           # found by search: all codewords decode to themselves
quota = {quota}          # report numbers in any window of a period
period = {period}       # seconds
{lifetime}"""
_FORCED = "force_krr = true    # hashing would be better: lower variance, and less weight for a forged report\n"


def number_table(name: str, low: str, high: str, unit: str = "") -> str:
    """Return the [[attribute]] table of a numeric attribute."""
    return f"\n[[attribute]]\nname = {json.dumps(name)}\nunit = {json.dumps(unit, ensure_ascii=False)}\nlow = {low}\nhigh = {high}\n"


def category_table(name: str, categories: Sequence[str]) -> str:
    """Return the [[attribute]] table of an attribute with these categories."""
    return (
        f"\n[[attribute]]\nname = {json.dumps(name)}\ncategories = {json.dumps(list(categories), ensure_ascii=False)}\n"
    )


def domain_table(name: str, count: int) -> str:
    """Return the [[attribute]] table of an attribute with this many categories without names."""
    return f"\n[[attribute]]\nname = {json.dumps(name)}\ndomain = {count}\n"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A profile without mechanism and seed."""

    name: str
    tables: str
    """Its [[attribute]] tables."""
    numeric: bool
    epsilon: str = "1.0"
    quota: int = 60
    period: int = 3600
    lifetime: int | None = None
    width: int | None = None
    force_krr: bool = False
    progress: Callable[[int], None] = field(default=lambda tried: None, compare=False)
    """Called for each seed that was tried."""

    def text(self) -> str:
        """Return the whole file. Raise ProfileError if the draft is invalid, LookupError if no seed was found."""
        mechanism, forced = "harmony" if self.numeric else "hashing", ""
        draft = parse_profile(self._filled(mechanism, forced, self.width or 1024, 0))
        if draft.categories and (self.force_krr or not choice.hashing_is_better(draft.epsilon_q20, draft.domain)):
            mechanism = "krr"
            forced = _FORCED * choice.hashing_is_better(draft.epsilon_q20, draft.domain)
            draft = parse_profile(self._filled(mechanism, forced, self.width or 1024, 0))
        width = self.width or max(DEFAULT_WIDTH, draft.k)
        return self._filled(mechanism, forced, width, self._seed(width, draft))

    def _filled(self, mechanism: str, forced: str, width: int, seed: int) -> str:
        lifetime = (
            ""
            if self.lifetime is None
            else f"lifetime = {self.lifetime}  # report numbers over a device's whole life\n"
        )
        head = _TEMPLATE.format(
            name=self.name, mechanism=mechanism, epsilon=self.epsilon, width=width, seed=seed, quota=self.quota,
            period=self.period, lifetime=lifetime,
        )  # fmt: skip
        return head + forced + self.tables

    def _seed(self, width: int, draft: Profile) -> int:
        if width < draft.k:
            raise ProfileError("width", f"must be at least the number of symbols, {draft.k}, got {width}")
        seed, _ = projection.search_seed(width, draft.k, progress=self.progress)
        return seed


_MOST_CATEGORIES = 64
_LEAST_PER_CATEGORY = 5
_MANY_ROWS = 20
_DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{1,4}([ T].*)?")
_FINEST = 1e-6
"""The ends of ranges have at most six decimals (SPEC section 10)."""


@dataclass(frozen=True)
class Proposal:
    """Profiles for a file: one for its numbers and one for its first column of categories, if it has such columns."""

    numeric: Draft | None
    categorical: Draft | None
    dropped: Mapping[str, str]
    """The reason for each column that is in neither, by header."""
    empty: Mapping[str, int]
    """The number of empty cells in each used column, by header."""
    sentinels: Mapping[str, Mapping[str, int]]
    """Numbers that were taken for missing readings, with their counts, by header."""
    used: int
    """The number of used columns."""

    def summary(self) -> str:
        """Return a summary in a sentence or two."""
        said = [f"{self.used} of {self.used + len(self.dropped)} columns are reported."]
        if self.dropped:
            said.append(f"Left out: {', '.join(self.dropped)}; `peel profile propose` says why.")
        if self.empty:
            said.append(f"{sum(self.empty.values())} empty cells are skipped.")
        for header, found in self.sentinels.items():
            said.append(f"{header}: {' and '.join(found)} means no reading.")
        return " ".join(said)

    @property
    def drafts(self) -> list[Draft]:
        return [draft for draft in (self.numeric, self.categorical) if draft is not None]


def propose(data: Dataset, name: str, *, epsilon: str = "1.0", quota: int = 60, period: int = 3600) -> Proposal:
    """Propose profiles with ranges a little wider than the readings, and the categories that occur.

    Ranges and categories are public. Taken from readings they reveal something about them, so a real fleet should use the ranges of its
    sensors instead.
    """
    reasons = {column.name: unfit(column) for column in data.columns.values()}
    dropped = {column.header: reasons[name] for name, column in data.columns.items() if reasons[name]}
    fit = [column for name, column in data.columns.items() if not reasons[name]]
    numeric = [column for column in fit if column.is_numeric]
    categorical = [column for column in fit if not column.is_numeric]
    dropped |= {column.header: "categories; one such column is enough here" for column in categorical[1:]}
    used = [*numeric, *categorical[:1]]
    drafted = partial(Draft, epsilon=epsilon, quota=quota, period=period)
    return Proposal(
        drafted(name=name, tables="".join(map(_numeric_table, numeric)), numeric=True) if numeric else None,
        drafted(name=f"{name[:20]}_categories", tables=_categorical_table(categorical[0]), numeric=False)
        if categorical
        else None,
        dropped,
        {column.header: count for column in used if (count := column.empty - sum(column.sentinels.values()))},
        {column.header: column.sentinels for column in data.columns.values() if column.sentinels},
        len(used),
    )


def write_proposal(proposal: Proposal, folder: Path, *, overwrite: bool) -> list[Path]:
    """Write the proposed profiles to NAME.toml. Raise DatasetError if there are none, or a file with other content exists."""
    if not proposal.drafts:
        reasons = "; ".join(f"{header}: {why}" for header, why in proposal.dropped.items())
        raise DatasetError(f"no column can be reported. {reasons}")
    paths = [folder / f"{draft.name}.toml" for draft in proposal.drafts]
    texts = {path: draft.text() for path, draft in zip(paths, proposal.drafts, strict=True)}
    for path, text in texts.items():
        if not overwrite and path.exists() and path.read_text(encoding="utf-8") != text:
            raise DatasetError(
                f"{path} exists with other content. Overwrite it with --force, or choose another name with --name"
            )
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return paths


def _categorical_table(column: Column) -> str:
    return category_table(column.name, sorted(column.values))


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


def _numeric_table(column: Column) -> str:
    low, high = _wide_range(float(column.numbers.min()), float(column.numbers.max()))
    return number_table(column.name, low, high, column.unit)


def _wide_range(low: float, high: float) -> tuple[str, str]:
    """Return the next round numbers outside a range, as TOML writes them."""
    step = _round_step(low, high)
    ends = (math.floor(low / step) * step, math.ceil(high / step) * step)
    return f"{ends[0]:.6f}".rstrip("0").rstrip("."), f"{ends[1]:.6f}".rstrip("0").rstrip(".")


def _round_step(low: float, high: float) -> float:
    return 10.0 ** math.floor(math.log10(high - low)) / 2
