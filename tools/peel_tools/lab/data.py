# SPDX-License-Identifier: MIT
"""What the lab's devices read: the columns of any CSV file that can be used, or the built-in traces, scaled to [-1, 1].

As in the paper, numeric columns are scaled by their least and greatest value, and overly skewed ones are left out: their mean says little
when an outlier sets the scale. Frequencies are those of the first column of categories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from peel_core import Profile, load_profile
from peel_core.primitives import READING_ONE
from peel_tools.profiles.dataset import Column, Dataset, DatasetError
from peel_tools.profiles.proposal import unfit
from peel_tools.simulation import profiles as demonstration
from peel_tools.simulation.traces import BuiltInTraces

__all__ = ["MOST_SKEWED", "LabData", "load_data"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_SKEWED = 2.0
"""Largest skewness of a column, either way: an exponential's."""
_SAME = 0.999
"""Correlation from which on two columns are one in two units."""
_MOST_EMPTY = 0.1
"""Share of a column's cells that may be empty; the rows of the others' are left out."""
_BINS = 8
"""Categories made of a numeric column where a file has no column of categories."""
_TRACED_DEVICES, _TRACED_NUMBERS = 200, 40


@dataclass(frozen=True)
class LabData:
    """Readings and categories of honest devices, and what was left out."""

    source: str
    """The file's name, or what else the data is."""
    names: tuple[str, ...]
    """Of the k numeric columns."""
    values: Floats
    """float64[rows, k] in [-1, 1]."""
    low: Floats
    """What -1 is in the columns' units, float64[k]."""
    high: Floats
    """What +1 is."""
    subject: str
    """What the categories are of."""
    categories: tuple[str, ...]
    category: Ints
    """int64[rows of their own], places in `categories`."""
    dropped: Mapping[str, str]
    """Columns that were left out, and why."""
    rows_dropped: int
    """Rows that were left out because a cell of a used column is empty."""

    @property
    def k(self) -> int:
        """Number of numeric columns."""
        return len(self.names)

    @property
    def readings(self) -> npt.NDArray[np.int32]:
        """The values as devices take them, Q15: int32[rows, k]."""
        return np.rint(self.values * READING_ONE).astype(np.int32)

    @property
    def means(self) -> Floats:
        """The truth that means are held against, float64[k]."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def shares(self) -> Floats:
        """The truth that frequencies are held against, float64[categories]."""
        counts = np.bincount(self.category, minlength=len(self.categories))
        return np.asarray(counts / counts.sum())

    def facts(self) -> dict[str, object]:
        """What was used and what was not, for people and for JSON."""
        return {
            "source": self.source,
            "rows": len(self.values),
            "rows_dropped": self.rows_dropped,
            "columns": list(self.names),
            "categories_of": self.subject,
            "categories": len(self.categories),
            "dropped": dict(self.dropped),
        }


def load_data(path: Path | None) -> LabData:
    """Read a CSV file; the built-in traces without one. DatasetError says why a file cannot be used."""
    return _built_in() if path is None else _from_file(path)


def _built_in() -> LabData:
    devices = np.repeat(np.arange(1, _TRACED_DEVICES + 1), _TRACED_NUMBERS)
    numbers = np.tile(np.arange(1, _TRACED_NUMBERS + 1), _TRACED_DEVICES)
    numeric, vents = _demonstrated("greenhouse"), _demonstrated("vents")
    return LabData(
        source="built-in traces",
        names=tuple(attribute.name for attribute in numeric.attributes),
        values=BuiltInTraces(numeric, seed=1).readings(devices, numbers) / READING_ONE,
        low=np.array([attribute.low for attribute in numeric.attributes]),
        high=np.array([attribute.high for attribute in numeric.attributes]),
        subject=vents.subject,
        categories=vents.categories,
        category=BuiltInTraces(vents, seed=1).categories(devices, numbers),
        dropped={},
        rows_dropped=0,
    )


def _demonstrated(name: str) -> Profile:
    with as_file(files(demonstration) / f"{name}.toml") as path:
        return load_profile(path)


def _from_file(path: Path) -> LabData:
    data = Dataset.read(path)
    dropped = dict(_useless(data))
    numeric = [column for column in data.columns.values() if column.is_numeric and column.header not in dropped]
    dropped |= dict(_repeated(numeric))
    numeric = [column for column in numeric if column.header not in dropped]
    if not numeric:
        reasons = "; ".join(f"{header}: {why}" for header, why in dropped.items())
        raise DatasetError(f"{path}: no numeric column can be used ({reasons})")
    physical = _complete_rows(numeric)
    low, high = physical.min(axis=0), physical.max(axis=0)
    subject, categories, category = _counted(data, dropped, numeric[0])
    return LabData(
        source=path.name,
        names=tuple(column.name for column in numeric),
        values=2 * (physical - low) / (high - low) - 1,
        low=low,
        high=high,
        subject=subject,
        categories=categories,
        category=category,
        dropped=dropped,
        rows_dropped=max(len(column.cells) + column.empty for column in numeric) - len(physical),
    )


def _useless(data: Dataset) -> Iterator[tuple[str, str]]:
    """Columns that nothing can be reported of, or nothing worth a mean."""
    for column in data.columns.values():
        why = unfit(column) or (_unbalanced(column) if column.is_numeric else "")
        if why:
            yield column.header, why


def _unbalanced(column: Column) -> str:
    if column.empty > _MOST_EMPTY * (len(column.cells) + column.empty):
        return f"{column.empty} cells are empty"
    values = column.numbers
    skewness = float(np.mean((values - values.mean()) ** 3) / values.std() ** 3)
    return f"too skewed: skewness {skewness:.1f}, beyond {MOST_SKEWED:g}" if abs(skewness) > MOST_SKEWED else ""


def _repeated(columns: Sequence[Column]) -> Iterator[tuple[str, str]]:
    """Columns that say what an earlier one says, in another unit."""
    kept: list[Column] = []
    for column in columns:
        twin = next((other for other in kept if _correlation(other, column) > _SAME), None)
        if twin is None:
            kept.append(column)
        else:
            yield column.header, f"says what {twin.header} says"


def _correlation(one: Column, other: Column) -> float:
    both = _complete_rows([one, other])
    return abs(float(np.asarray(np.corrcoef(both.T))[0, 1])) if len(both) > 1 else 0.0


def _complete_rows(columns: Sequence[Column]) -> Floats:
    """The rows in which no cell is empty, float64[rows, columns]."""
    lines = [np.array([line for line, _ in column.cells]) for column in columns]
    common = lines[0]
    for own in lines[1:]:
        common = np.intersect1d(common, own, assume_unique=True)
    return np.stack(
        [column.numbers[np.searchsorted(own, common)] for column, own in zip(columns, lines, strict=True)], axis=1
    )


def _counted(
    data: Dataset, dropped: Mapping[str, str], otherwise: Column
) -> tuple[str, tuple[str, ...], npt.NDArray[np.int64]]:
    """The first column of categories; without one, a numeric column in equal bins."""
    for column in data.columns.values():
        if not column.is_numeric and column.header not in dropped:
            categories = tuple(sorted(column.values))
            places = {name: place for place, name in enumerate(categories)}
            return column.name, categories, np.array([places[cell] for _, cell in column.cells], np.int64)
    values = otherwise.numbers
    edges = np.linspace(values.min(), values.max(), _BINS + 1)
    names = tuple(f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges))
    return otherwise.name, names, np.clip(np.searchsorted(edges, values, side="right") - 1, 0, _BINS - 1)
