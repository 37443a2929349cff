# SPDX-License-Identifier: MIT
"""The user's own data: a CSV file as columns with names that profiles allow.

- A column's name is its header in lower case, without accents, with `_` for all other characters.
- Its unit is the text in brackets at the end of the header.
- Cells without a reading are left out and counted: empty ones, and among numbers also words such as NA and sentinels such as -999.
- Each column is a separate list of readings.
- The separator is a comma, semicolon or tab, whichever the header has most of. If it is not the comma, numbers may have decimal commas.
"""

from __future__ import annotations

import csv
import gzip
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import IO, Self

import numpy as np
import numpy.typing as npt

__all__ = ["NAME_BYTES", "Column", "Dataset", "DatasetError", "attribute_name", "read_number"]

Floats = npt.NDArray[np.float64]

_SEPARATORS = ",;\t"
_COMMA_NUMBER = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+")
_POINT_NUMBER = re.compile(r"[-+]?\d*\.(\d{1,2}|\d{4,})")
_NO_NUMBER = {"na", "n/a", "nan", "null", "none", "-"}
"""The words by which programs mark a missing number."""
_SENTINELS = {sign * value for sign in (1, -1) for value in (99.9, 999, 999.9, 999.99, 9999, 9999.9, 99999, 999999)}
"""The numbers by which loggers mark a missing number."""
_UNIT = re.compile(r".*[\s_]*[(\[]\s*([^()\[\]|]+?)\s*[)\]]\s*")

NAME_BYTES = 32
"""The longest name or category of a profile (SPEC section 10)."""


class DatasetError(Exception):
    """A file that cannot be used. The message names file, column and line."""


@dataclass(frozen=True)
class Column:
    """A column: its header, its name in profiles, and its cells with their line numbers, without empty ones."""

    path: Path
    header: str
    name: str
    cells: Sequence[tuple[int, str]]
    empty: int
    """The number of cells without a reading, sentinels included."""
    sentinels: Mapping[str, int]
    """Numbers that mean "no reading", and how often each occurs."""

    @property
    def unit(self) -> str:
        """The unit in its header, such as °C in `Temp (°C)` or `temp_[°C]`; empty without one that a profile allows."""
        found = _UNIT.fullmatch(self.header)
        fits = found is not None and found[1].isprintable() and len(found[1].encode()) <= NAME_BYTES
        return found[1] if found is not None and fits else ""

    @cached_property
    def numbers(self) -> Floats:
        """Its cells as numbers, float64[cells]. DatasetError names the first cell that is not a number."""
        values = np.array([read_number(cell) for _, cell in self.cells], np.float64)
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            line, cell = self.cells[wrong[0]]
            raise DatasetError(f"{self.path}: line {line}, column {self.header}: {cell!r} is not a number")
        return values

    @cached_property
    def values(self) -> Counter[str]:
        """Its distinct cells, with the count of each."""
        return Counter(cell for _, cell in self.cells)

    @cached_property
    def is_numeric(self) -> bool:
        """Whether every cell is a number."""
        return all(math.isfinite(read_number(cell)) for cell in self.values)


@dataclass(frozen=True)
class Dataset:
    """All columns of a file, by their names in profiles."""

    path: Path
    columns: Mapping[str, Column]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a CSV file, plain or gzip-compressed."""
        try:
            with _opened(path) as file:
                text = file.read()
            separator = _separator(text.partition("\n")[0])
            reader = csv.reader(StringIO(text, newline=""), strict=True, delimiter=separator)
            lines = [(reader.line_num, row) for row in reader if row]
        except UnicodeDecodeError as error:
            raise DatasetError(f"{path}: not UTF-8 text (byte {error.start}). Export it as CSV in UTF-8") from None
        except (OSError, EOFError, csv.Error) as error:
            raise DatasetError(f"{path}: cannot be read: {error}") from None
        if len(lines) < 2:
            raise DatasetError(f"{path}: needs a header and at least one row")
        (_, header), *rows = lines
        for line, row in rows:
            if any(map(str.strip, row[len(header) :])):
                raise DatasetError(
                    f"{path}: line {line} has {len(row)} cells, the header {len(header)}. Quote cells that contain a {separator!r}"
                )
        columns = _columns(path, header, rows, decimal_commas=separator != ",")
        return cls(path, {column.name: column for column in columns})

    def column(self, name: str) -> Column:
        """Return a column by its name in profiles. It must have at least one reading."""
        if name not in self.columns:
            raise DatasetError(f"{self.path}: no column {name!r}; its columns are: {', '.join(self.columns)}")
        column = self.columns[name]
        if not column.cells:
            raise DatasetError(
                f"{self.path}: column {column.header!r} has no reading, as all its cells are empty. Fill or remove it"
            )
        return column


def _opened(path: Path) -> IO[str]:
    opener = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", newline="", encoding="utf-8-sig")


def _separator(header: str) -> str:
    """Return the separator that the header has most of outside quotes; a comma if none is ahead."""
    return max(_SEPARATORS, key=re.sub('"[^"]*"', "", header).count)


def _columns(
    path: Path, header: Sequence[str], rows: Sequence[tuple[int, Sequence[str]]], *, decimal_commas: bool
) -> Iterator[Column]:
    taken: set[str] = set()
    for place, title in enumerate(header):
        name = _unused(attribute_name(title), taken)
        taken.add(name)
        cells = [(line, row[place].strip() if place < len(row) else "") for line, row in rows]
        filled = [(line, cell) for line, cell in cells if cell]
        if decimal_commas and _has_decimal_commas({cell for _, cell in filled}):
            filled = [(line, _with_point(cell)) for line, cell in filled]
        if _has_missing_numbers({cell for _, cell in filled}):
            filled = [(line, cell) for line, cell in filled if cell.lower() not in _NO_NUMBER]
        sentinels = _sentinels({cell for _, cell in filled})
        found = Counter(cell for _, cell in filled if cell in sentinels)
        filled = [(line, cell) for line, cell in filled if cell not in sentinels]
        yield Column(path, title, name, filled, len(cells) - len(filled), found)


def _sentinels(cells: Collection[str]) -> set[str]:
    """Return the cells of a column of numbers that mean "no reading": known sentinels far outside the range of all others.

    A pressure of 999.9 among others from 950 to 1050 is a reading; among temperatures it is not.
    """
    numbers = {cell: read_number(cell) for cell in cells}
    readings = [value for value in numbers.values() if value not in _SENTINELS]
    if not readings or not all(map(math.isfinite, readings)):
        return set()
    low, high = min(readings), max(readings)
    return {
        cell
        for cell, value in numbers.items()
        if value in _SENTINELS and not low - (high - low) <= value <= high + (high - low)
    }


def _has_decimal_commas(cells: Collection[str]) -> bool:
    """Return whether some number has a decimal comma and none a decimal point. Points then group thousands."""
    return any(map(_COMMA_NUMBER.fullmatch, cells)) and not any(map(_POINT_NUMBER.fullmatch, cells))


def _with_point(cell: str) -> str:
    plain = cell.replace(".", "").replace(",", ".")
    return plain if math.isfinite(read_number(plain)) else cell


def _has_missing_numbers(cells: Collection[str]) -> bool:
    """Return whether all cells are numbers except words such as NA."""
    said = {cell for cell in cells if cell.lower() not in _NO_NUMBER}
    return len(said) < len(cells) and bool(said) and all(math.isfinite(read_number(cell)) for cell in said)


def attribute_name(header: str) -> str:
    """Return the name of a header in profiles: `[a-z][a-z0-9_]{0,31}` (SPEC section 10)."""
    letters = "".join(
        each for each in unicodedata.normalize("NFKD", header.casefold()) if not unicodedata.combining(each)
    )
    name = re.sub(r"[^a-z0-9]+", "_", letters).strip("_")[:NAME_BYTES].rstrip("_")
    return name if name[:1].isalpha() else f"column_{name}"[:NAME_BYTES].rstrip("_")


def _unused(name: str, taken: set[str]) -> str:
    for suffix in ("", *(f"_{count}" for count in range(2, 10_000))):
        candidate = name[: NAME_BYTES - len(suffix)] + suffix
        if candidate not in taken:
            return candidate
    raise DatasetError(f"too many columns called {name!r}")


def read_number(cell: str) -> float:
    """Return a cell's number, nan if it is not one."""
    try:
        return float(cell)
    except ValueError:
        return math.nan
