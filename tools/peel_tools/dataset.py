# SPDX-License-Identifier: MIT
"""One's own data: a CSV file as columns with names that profiles allow, and profiles that suit it.

A column is called in a profile what its header becomes in lower case with `_` for everything else. Empty cells are left out and counted:
each column is a list of readings of its own.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Self

import numpy as np
import numpy.typing as npt

from peel_tools.profile_text import Draft, category_table, number_table

__all__ = ["Column", "Dataset", "DatasetError", "Proposal", "attribute_name", "propose", "unfit", "write_proposal"]

Floats = npt.NDArray[np.float64]

_MOST_CATEGORIES = 64
_LEAST_PER_CATEGORY = 5
_NAME_BYTES = 32
_MANY_ROWS = 20


class DatasetError(Exception):
    """A file that cannot be used; the message names file, column and line."""


@dataclass(frozen=True)
class Column:
    """A column: its header, its name in profiles, and its cells with their lines, empty ones left out."""

    path: Path
    header: str
    name: str
    cells: Sequence[tuple[int, str]]
    empty: int

    @cached_property
    def numbers(self) -> Floats:
        """Its cells as numbers, float64[cells]; DatasetError names the first that is none."""
        values = np.array([_number(cell) for _, cell in self.cells], np.float64)
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            line, cell = self.cells[wrong[0]]
            raise DatasetError(f"{self.path}: line {line}, column {self.header}: {cell!r} is not a number")
        return values

    @cached_property
    def values(self) -> Counter[str]:
        """Its different cells, and how often each occurs."""
        return Counter(cell for _, cell in self.cells)

    @cached_property
    def is_numeric(self) -> bool:
        """Whether every cell is a number."""
        return all(math.isfinite(_number(cell)) for cell in self.values)


@dataclass(frozen=True)
class Dataset:
    """All columns of a file, by their names in profiles."""

    path: Path
    columns: Mapping[str, Column]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a CSV file, as it is or packed by gzip."""
        try:
            with _opened(path) as file:
                header, *rows = csv.reader(file, strict=True)
        except ValueError as error:
            raise DatasetError(f"{path}: needs a header and one row at least, as CSV in UTF-8 ({error})") from None
        except (OSError, EOFError, csv.Error) as error:
            raise DatasetError(f"{path}: cannot be read: {error}") from None
        if not rows:
            raise DatasetError(f"{path}: needs a header and one row at least")
        return cls(path, {column.name: column for column in _columns(path, header, rows)})

    def column(self, name: str) -> Column:
        """A column by its name in profiles; it must have a reading at least."""
        if name not in self.columns:
            raise DatasetError(f"{self.path}: no column {name!r}; there is: {', '.join(self.columns)}")
        column = self.columns[name]
        if not column.cells:
            raise DatasetError(f"{self.path}: column {column.header!r} has no reading: all its cells are empty")
        return column


def _opened(path: Path) -> IO[str]:
    opener = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", newline="", encoding="utf-8-sig")


def _columns(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Column]:
    taken: set[str] = set()
    for place, title in enumerate(header):
        name = _unused(attribute_name(title), taken)
        taken.add(name)
        cells = [(line, row[place].strip() if place < len(row) else "") for line, row in enumerate(rows, start=2)]
        filled = [(line, cell) for line, cell in cells if cell]
        yield Column(path, title, name, filled, len(cells) - len(filled))


def attribute_name(header: str) -> str:
    """What a header is called in a profile: `[a-z][a-z0-9_]{0,31}` (SPEC section 10)."""
    name = re.sub(r"[^a-z0-9]+", "_", header.lower()).strip("_")[:_NAME_BYTES].rstrip("_")
    return name if name[:1].isalpha() else f"column_{name}"[:_NAME_BYTES].rstrip("_")


def _unused(name: str, taken: set[str]) -> str:
    for suffix in ("", *(f"_{count}" for count in range(2, 10_000))):
        candidate = name[: _NAME_BYTES - len(suffix)] + suffix
        if candidate not in taken:
            return candidate
    raise DatasetError(f"too many columns called {name!r}")


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


# ---- which profiles suit it ----


@dataclass(frozen=True)
class Proposal:
    """Profiles for a file: one for its numbers, one for its first column of categories, as far as there are such."""

    numeric: Draft | None
    categorical: Draft | None
    dropped: Mapping[str, str]
    """Columns that are in neither, by header, and why."""
    empty: Mapping[str, int]
    """Empty cells of those that are."""

    @property
    def drafts(self) -> list[Draft]:
        return [draft for draft in (self.numeric, self.categorical) if draft is not None]


def propose(data: Dataset, name: str, *, epsilon: str = "1.0", quota: int = 60, period: int = 3600) -> Proposal:
    """Propose profiles: ranges a little wider than what occurs, categories as they are.

    Ranges and categories are published with a profile. Taken from readings they say something about them: for a real fleet take those
    of the sensors.
    """
    dropped = {column.header: why for column in data.columns.values() if (why := unfit(column))}
    fit = [column for column in data.columns.values() if column.header not in dropped]
    numeric = [column for column in fit if column.is_numeric]
    categorical = [column for column in fit if not column.is_numeric]
    dropped |= {column.header: "categories; one such column is enough here" for column in categorical[1:]}
    used = [*numeric, *categorical[:1]]
    options = {"epsilon": epsilon, "quota": quota, "period": period}
    return Proposal(
        Draft(name=name, tables="".join(map(_numeric_table, numeric)), numeric=True, **options) if numeric else None,  # type: ignore[arg-type]
        _categorical_draft(categorical[0], name, options) if categorical else None,
        dropped,
        {column.header: column.empty for column in used if column.empty},
    )


def write_proposal(proposal: Proposal, folder: Path) -> list[Path]:
    """Write the proposed profiles, named after themselves; DatasetError when there is none."""
    if not proposal.drafts:
        reasons = "; ".join(f"{header}: {why}" for header, why in proposal.dropped.items())
        raise DatasetError(f"no column can be reported ({reasons})")
    paths = [folder / f"{draft.name}.toml" for draft in proposal.drafts]
    for path, draft in zip(paths, proposal.drafts, strict=True):
        path.write_text(draft.text(), encoding="utf-8")
    return paths


def _categorical_draft(column: Column, name: str, options: Mapping[str, object]) -> Draft:
    table = category_table(column.name, sorted(column.values))
    return Draft(name=f"{name[:20]}_categories", tables=table, numeric=False, **options)  # type: ignore[arg-type]


def unfit(column: Column) -> str:
    """Why nothing can be reported of a column; empty when something can."""
    different = len(column.values)
    if different < 2:
        return "always the same" if different else "empty"
    if column.is_numeric:
        steady = len(column.cells) >= _MANY_ROWS and bool((np.diff(column.numbers) >= 0).all())
        return "never falls from row to row, like a time or a counter" if steady else ""
    strange = [cell for cell in column.values if not math.isfinite(_number(cell))]
    if len(strange) < different / 2:
        line = next(line for line, cell in column.cells if cell == strange[0])
        return f"mostly numbers, but line {line} says {strange[0]!r}"
    if any("|" in cell or len(cell.encode()) > _NAME_BYTES for cell in column.values):
        return "text that is too long for a category"
    if different > _MOST_CATEGORIES or len(column.cells) < _LEAST_PER_CATEGORY * different:
        return f"text with {different} different values"
    return ""


def _numeric_table(column: Column) -> str:
    low, high = _wide_range(float(column.numbers.min()), float(column.numbers.max()))
    return number_table(column.name, low, high)


def _wide_range(low: float, high: float) -> tuple[str, str]:
    """The next round numbers outside, as TOML writes them."""
    step = 10.0 ** math.floor(math.log10(high - low)) / 2
    ends = (math.floor(low / step) * step, math.ceil(high / step) * step)
    return f"{ends[0]:.6f}".rstrip("0").rstrip("."), f"{ends[1]:.6f}".rstrip("0").rstrip(".")
