# SPDX-License-Identifier: MIT
"""The user's own data: a CSV file as columns with names that profiles allow.

- A column's header is split into name and unit: `Temp (°C)`, `temp [C]`, `temp_C`, `CO2_ppm`, `humidity %`.
- Its name is in lower case, without accents, with `_` for all other characters.
- Cells without a reading are left out and counted: empty ones, and among numbers also words such as NA and sentinels such as -999.
  A sentinel is far outside the other readings. One above them must occur more than once, because it may be a peak.
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

__all__ = ["NAME_BYTES", "Column", "Dataset", "DatasetError", "attribute_name", "name_and_unit", "read_number"]

Floats = npt.NDArray[np.float64]

_SEPARATORS = ",;\t"
_COMMA_NUMBER = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+")
_POINT_NUMBER = re.compile(r"[-+]?\d*\.(\d{1,2}|\d{4,})")
_NO_NUMBER = {"na", "n/a", "#n/a", "nan", "null", "none", "missing", "unknown", "unavailable", "-", "--", "---"}
"""The words by which programs mark a missing number."""
_SENTINELS = {
    sign * value for sign in (1, -1) for value in (99.9, 99.99, 999, 999.9, 999.99, 9999, 9999.9, 99999, 999999)
}
"""The numbers by which loggers mark a missing number."""
_SPELLINGS = {
    "c": "°C", "degc": "°C", "deg c": "°C", "celsius": "°C", "f": "°F", "degf": "°F", "deg f": "°F", "fahrenheit": "°F",
    "pct": "%", "percent": "%", "lux": "lx", "ug/m3": "µg/m³", "µg/m3": "µg/m³", "m/s2": "m/s²", "w/m2": "W/m²",
}  # fmt: skip
"""Other spellings of units, in lower case."""
_PART = r"(?:[munkMGµhcd]?(?:Pa|bar|g|m|s|l|L|V|A|Wh?|VA|J|Hz|lx|Ω|ohm|mol|N)|°[CF]?|[CFK%‰1hd]|ppm|ppb|dBA?|rpm|pH|mph|kn|mmHg)"
_UNIT = re.compile(rf"{_PART}[23²³]?(?:[/·*](?:{_PART}|min)[23²³]?)*")
_BARE_UNITS = {
    unit.lower(): unit
    for unit in (
        "%", "°C", "°F", "°", "ppm", "ppb", "hPa", "kPa", "mbar", "mmHg", "lx", "mV", "mA", "kW", "Wh", "kWh", "dBA", "rpm", "Hz", "mm",
        "m/s", "km/h", "l/min", "µg/m³", "W/m²",
    )
} | {spelling: unit for spelling, unit in _SPELLINGS.items() if len(spelling) > 1}  # fmt: skip
"""The units that need no brackets, by their lower case. Single letters do, but after a temperature: `phase_a` is not in amperes."""
_BRACKETED = re.compile(r"(.*?)[\s_]*[(\[]\s*([^()\[\]]+?)\s*[)\]]")
_TRAILING = re.compile(
    rf"(.*?[^\s_,:/])(?:[\s_,:/]+({'|'.join(map(re.escape, _BARE_UNITS))})|([%°]|°[CF]))", re.IGNORECASE
)
_TEMPERATURE = re.compile(r"(.*(?:temp|temperature|tmp|dew[\s_]*point)|t)[\s_]+([CFK])", re.IGNORECASE)
"""A temperature, with a letter for its unit: `temp_C`, `T K`."""

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
    unit: str
    """The unit in its header; empty without a known one."""
    cells: Sequence[tuple[int, str]]
    empty: int
    """The number of cells without a reading, those in `missing` included."""
    missing: Mapping[str, int]
    """Words and sentinels that mean "no reading", and how often each occurs."""

    def why_missing(self, cell: str) -> str:
        """Return the reason why such a cell is not a reading."""
        if not math.isfinite(read_number(cell)):
            return "not a number"
        return f"far outside its other readings, {self.numbers.min():g} to {self.numbers.max():g}"

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
        stem, unit = name_and_unit(title)
        name = attribute_name(stem)
        name = _unused(attribute_name(title) if name in taken else name, taken)  # temp and temp_f for two units
        taken.add(name)
        cells = [(line, row[place].strip() if place < len(row) else "") for line, row in rows]
        filled = [(line, cell) for line, cell in cells if cell]
        if decimal_commas and _has_decimal_commas({cell for _, cell in filled}):
            filled = [(line, _with_point(cell)) for line, cell in filled]
        counts = Counter(cell for _, cell in filled)
        words = _missing_words(counts)
        sentinels = _sentinels({cell: count for cell, count in counts.items() if cell not in words})
        missing = {cell: counts[cell] for cell in counts if cell in words | sentinels}
        filled = [(line, cell) for line, cell in filled if cell not in missing]
        yield Column(path, title, name, unit, filled, len(cells) - len(filled), missing)


def _sentinels(cells: Mapping[str, int]) -> set[str]:
    """Return the cells of a column of numbers that mean "no reading".

    They are known sentinels outside the range of all others by more than its width. A pressure of 999.9 among others from 950 to
    1050 is a reading; among temperatures it is not. One above the others must occur more than once, because it may be a peak.
    """
    numbers = {cell: read_number(cell) for cell in cells}
    times: Counter[float] = Counter()
    for cell, count in cells.items():
        times[numbers[cell]] += count
    readings = [value for value in numbers.values() if value not in _SENTINELS]
    if not readings or not all(map(math.isfinite, readings)):
        return set()
    low, high = min(readings), max(readings)
    below, above = low - (high - low), high + (high - low)
    return {
        cell
        for cell, value in numbers.items()
        if value in _SENTINELS and (value < below or (value > above and times[value] > 1))
    }


def _has_decimal_commas(cells: Collection[str]) -> bool:
    """Return whether some number has a decimal comma and none a decimal point. Points then group thousands."""
    return any(map(_COMMA_NUMBER.fullmatch, cells)) and not any(map(_POINT_NUMBER.fullmatch, cells))


def _with_point(cell: str) -> str:
    plain = cell.replace(".", "").replace(",", ".")
    return plain if math.isfinite(read_number(plain)) else cell


def _missing_words(cells: Collection[str]) -> set[str]:
    """Return the words such as NA among cells that are otherwise numbers; none among words."""
    words = {cell for cell in cells if cell.lower() in _NO_NUMBER}
    readings = set(cells) - words
    return words if readings and all(math.isfinite(read_number(cell)) for cell in readings) else set()


def name_and_unit(header: str) -> tuple[str, str]:
    """Split a header into name and unit. Without a known unit, the name is the whole header."""
    header = header.strip().replace("\N{GREEK SMALL LETTER MU}", "\N{MICRO SIGN}")
    if found := _BRACKETED.fullmatch(header):
        name, unit = found[1], _SPELLINGS.get(found[2].lower(), found[2])
        return (name, unit) if name and _UNIT.fullmatch(unit) else (header, "")
    if found := _TEMPERATURE.fullmatch(header):
        return found[1], _SPELLINGS.get(found[2].lower(), "K")
    if found := _TRAILING.fullmatch(header):
        return found[1], _BARE_UNITS.get((found[2] or found[3]).lower(), "")
    return header, ""


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
