# SPDX-License-Identifier: MIT
"""Choose the columns of a file that are readings with a meaningful mean, and say why the others are not.

A reading varies with place and time. These columns are not readings:

- one that never varies is a constant,
- one that only rises is a clock or a counter,
- one of whole numbers that differ in every row numbers the rows,
- one that is the same whenever a name is the same tells where or when, not what.

The values decide. Headers are used only if the values leave it open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from peel_tools.profiles.dataset import Column, Dataset, DatasetError
from peel_tools.profiles.drafts import unfit

__all__ = ["MOST_COLUMNS", "MOST_SKEWED", "choose", "complete_rows", "named"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_SKEWED = 2.0
"""Largest skewness of a column, either way: an exponential's."""
MOST_COLUMNS = 64
"""More attributes than that say nothing new about attacks, and take long."""
_SAME = 0.999
"""Correlation from which on two columns are one in two units."""
_MOST_EMPTY = 0.1
"""Share of a column's cells that may be empty; the rows of the others' are left out."""
_MANY_ROWS = 20
"""With fewer, what looks like a rule may be chance."""
_WHOLE = 2.0**53
"""From here on every float is whole."""
_CLOCK = 0.98
"""Correlation of ranks with the row from which on a column is a clock."""
_OFTEN = 3
"""Rows of a name, on average, before a column can be said to be the same whenever the name is."""
_PLACES = 0.95
"""Share of such names that suffices: places are moved, or written differently."""
_IDENTIFYING = frozenset({"id", "ids", "uuid", "serial", "latitude", "longitude", "lat", "lon", "lng", "epoch"})
"""Words in a header that say it, where rows are too few to see it."""


def choose(data: Dataset) -> tuple[list[Column], dict[str, str]]:
    """Numeric columns that are used, and all others with the reason why not, by header."""
    dropped = dict(_useless(data))
    numeric = [column for column in data.columns.values() if column.is_numeric and column.header not in dropped]
    dropped |= dict(_repeated(numeric))
    numeric = [column for column in numeric if column.header not in dropped]
    for column in numeric[MOST_COLUMNS:]:
        dropped[column.header] = f"the first {MOST_COLUMNS} are enough; choose others with --columns"
    return numeric[:MOST_COLUMNS], dropped


def named(data: Dataset, names: Sequence[str]) -> tuple[list[Column], dict[str, str]]:
    """The same for columns that somebody chose, by header or by their names in profiles; DatasetError where one is of no use."""
    headers = {column.header: column for column in data.columns.values()}
    chosen = list({(found := headers.get(name) or data.column(name)).name: found for name in names}.values())
    for column in chosen:
        why = "it is text" if not column.is_numeric else "" if len(column.values) > 1 else "it is always the same"
        if why:
            raise DatasetError(f"{data.path}: column {column.header!r} has no mean worth knowing: {why}")
    mine = {column.header for column in chosen}
    unasked = {column.header: "not chosen" for column in data.columns.values() if column.is_numeric}
    dropped = unasked | dict(_useless(data))
    return chosen, {header: why for header, why in dropped.items() if header not in mine}


def complete_rows(columns: Sequence[Column]) -> Floats:
    """The rows in which no cell is empty, float64[rows, columns]."""
    lines = [_lines(column) for column in columns]
    common = lines[0]
    for own in lines[1:]:
        common = np.intersect1d(common, own, assume_unique=True)
    return np.stack(
        [column.numbers[np.searchsorted(own, common)] for column, own in zip(columns, lines, strict=True)], axis=1
    )


def _lines(column: Column) -> Ints:
    return np.array([line for line, _ in column.cells], np.int64)


# ---- reasons ----


def _useless(data: Dataset) -> Iterator[tuple[str, str]]:
    """Columns that nothing can be reported of, or nothing worth a mean."""
    names = [column for column in data.columns.values() if _is_name(column)]
    for column in data.columns.values():
        why = unfit(column)
        if not why and column.is_numeric:
            why = _incomplete(column) or _counts(column) or _identifies(column, names) or _unbalanced(column)
        if why:
            yield column.header, why


def _incomplete(column: Column) -> str:
    empty = column.empty > _MOST_EMPTY * (len(column.cells) + column.empty)
    return f"{column.empty} cells are empty" if empty else ""


def _counts(column: Column) -> str:
    """A clock, or a number that rows were given."""
    values = column.numbers
    if len(values) < _MANY_ROWS:
        return ""
    ranks = np.unique(values, return_inverse=True)[1]
    if abs(_correlation(ranks.astype(np.float64), np.arange(len(values), dtype=np.float64))) > _CLOCK:
        return "rises or falls with the row, like a time or a counter"
    whole = bool((values == np.rint(values)).all()) and float(np.abs(values).max()) < _WHOLE
    return "whole, and different in every row, like an identifier" if whole and len(set(values)) == len(values) else ""


def _identifies(column: Column, names: Sequence[Column]) -> str:
    for name in names:
        if _follows(column, name):
            return f"the same whenever {name.header} is the same: it says where or when, not what"
    words = set(re.split(r"[^a-z]+", column.header.lower())) & _IDENTIFYING
    return f"an identifier, a time or a place by its name ({min(words)})" if words else ""


def _is_name(column: Column) -> bool:
    """Text that names what reads: often the same, and not too few of them."""
    if column.is_numeric or not column.cells:
        return False
    return len(column.values) > 1 and len(column.cells) >= _OFTEN * len(column.values)


def _follows(column: Column, name: Column) -> bool:
    """Whether the number is the same in all rows of a name, and differs between names."""
    texts = dict(name.cells)
    groups: dict[str, set[float]] = {}
    for (line, _), value in zip(column.cells, column.numbers.tolist(), strict=True):
        if line in texts:
            groups.setdefault(texts[line], set()).add(value)
    steady = sum(len(values) == 1 for values in groups.values())
    return len(groups) >= _MANY_ROWS and steady >= _PLACES * len(groups)


def _unbalanced(column: Column) -> str:
    values = column.numbers / np.abs(column.numbers).max()  # squares of very large numbers are beyond what floats hold
    skewness = float(np.mean((values - values.mean()) ** 3) / values.std() ** 3)
    return f"too skewed: skewness {skewness:.1f}, beyond {MOST_SKEWED:g}" if abs(skewness) > MOST_SKEWED else ""


def _repeated(columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Columns that say what an earlier one says, in another unit."""
    kept: list[Column] = []
    for column in columns:
        twin = next((other for other in kept if _alike(other, column) > _SAME), None)
        if twin is None:
            kept.append(column)
        else:
            yield column.header, f"says what {twin.header} says"


def _alike(one: Column, other: Column) -> float:
    both = complete_rows([one, other])
    return abs(_correlation(both[:, 0], both[:, 1])) if len(both) > 2 else 0.0


def _correlation(one: Floats, other: Floats) -> float:
    """Of two columns of the same length; 0 where one of them does not vary."""
    first, second = (values / max(float(np.abs(values).max()), 1e-300) for values in (one, other))
    first, second = first - first.mean(), second - second.mean()
    scale = float(np.sqrt((first @ first) * (second @ second)))
    return float(first @ second) / scale if scale > 0 else 0.0
