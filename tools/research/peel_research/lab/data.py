# SPDX-License-Identifier: MIT
"""The readings of the lab's devices: the usable columns of any CSV file, or the built-in traces, scaled to [-1, 1].

As in the paper, numeric columns are scaled by their least and greatest value, and overly skewed ones are left out: their mean says little
when an outlier sets the scale. `columns` decides which columns are readings, unless the user names them. Frequencies are
those of the first column of categories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from peel_core import Profile, load_profile
from peel_core.primitives import READING_ONE
from peel_research.lab.columns import choose, complete_rows, named
from peel_tools.profiles.dataset import Column, Dataset, DatasetError
from peel_tools.simulation.traces import BuiltInTraces

__all__ = ["LabData", "load_data"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

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
    """The value of -1 in the columns' units, float64[k]."""
    high: Floats
    """The value of +1."""
    subject: str
    """The name of the categorical column."""
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
        """Return the used and unused columns, as plain values for text and JSON."""
        return {
            "source": self.source,
            "rows": len(self.values),
            "rows_dropped": self.rows_dropped,
            "columns": list(self.names),
            "categories_of": self.subject,
            "categories": len(self.categories),
            "dropped": dict(self.dropped),
        }


def load_data(path: Path | None, columns: Sequence[str] = ()) -> LabData:
    """Read a CSV file, and of it the columns that are named, or those that seem fit; the built-in traces without a file.

    DatasetError says why a file cannot be used.
    """
    if path is not None:
        return _from_file(path, columns)
    if columns:
        raise DatasetError("columns are those of a file: name one, too")
    return _built_in()


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
        subject=vents.attributes[0].name,
        categories=vents.attributes[0].categories,
        category=BuiltInTraces(vents, seed=1).readings(devices, numbers)[:, 0].astype(np.int64),
        dropped={},
        rows_dropped=0,
    )


def _demonstrated(name: str) -> Profile:
    with as_file(files("peel_tools.simulation") / "profiles" / f"{name}.toml") as path:
        return load_profile(path)


def _from_file(path: Path, columns: Sequence[str]) -> LabData:
    data = Dataset.read(path)
    numeric, dropped = named(data, columns) if columns else choose(data)
    if not numeric:
        reasons = "; ".join(f"{header}: {why}" for header, why in dropped.items()) or "all of it is text"
        raise DatasetError(f"{path}: no numeric column can be used ({reasons})")
    physical = complete_rows(numeric)
    if not len(physical):
        raise DatasetError(
            f"{path}: no row has a number in all {len(numeric)} columns; choose fewer of them with --columns"
        )
    low, high = physical.min(axis=0), physical.max(axis=0)
    for column in np.flatnonzero(low == high):
        raise DatasetError(f"{path}: column {numeric[column].header!r} is always the same where others are not empty")
    subject, categories, category = _counted(data, dropped, numeric[0])
    return LabData(
        source=path.name,
        names=tuple(column.name for column in numeric),
        values=_scaled(physical, low, high),
        low=low,
        high=high,
        subject=subject,
        categories=categories,
        category=category,
        dropped=dropped,
        rows_dropped=max(len(column.cells) + column.empty for column in numeric) - len(physical),
    )


def _scaled(physical: Floats, low: Floats, high: Floats) -> Floats:
    """To [-1, 1]; halves first, for the difference of two very large numbers is beyond what floats hold."""
    return np.asarray(2 * ((physical / 2 - low / 2) / (high / 2 - low / 2)) - 1)


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
    edges = np.linspace(values.min() / 2, values.max() / 2, _BINS + 1) * 2
    names = tuple(f"{low:.4g} to {high:.4g}" for low, high in pairwise(edges))
    return otherwise.name, names, np.clip(np.searchsorted(edges, values, side="right") - 1, 0, _BINS - 1)
