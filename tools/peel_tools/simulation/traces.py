# SPDX-License-Identifier: MIT
"""The readings of simulated sensors: built-in traces, or the columns of a CSV file.

A reading is a function of seed, device and report number, so that a run can be repeated and continued. A device reads number n at hour
`n * INTERVAL_HOURS` of its calendar.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_core.kinds import Attribute, Question
from peel_core.primitives import READING_ONE
from peel_tools.profiles.dataset import Column, Dataset, DatasetError

__all__ = ["BuiltInTraces", "CsvTraces", "Traces", "to_q15"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]

INTERVAL_HOURS = 1 / 6


class Traces(ABC):
    """Readings of one profile. Attributes with the same name are about the same reading."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def readings(self, devices: Ints, numbers: Ints) -> npt.NDArray[np.int32]:
        """Return the readings of N reports as devices encode them, int32[N, questions]: Q15, or categories."""
        known: dict[tuple[str, int], Floats] = {}
        columns = np.empty((len(devices), len(self.profile.questions)), np.int32)
        for place, question in enumerate(self.profile.questions):
            attribute = self.profile.attributes[question.attribute]
            key = (attribute.name, attribute.domain)
            if key not in known:
                known[key] = self.values(attribute, devices, numbers)
            columns[:, place] = known[key] if attribute.domain else to_q15(attribute, question, known[key])
        return columns

    @abstractmethod
    def values(self, attribute: Attribute, devices: Ints, numbers: Ints) -> Floats:
        """Return the readings that an attribute is about, float64[N]: in its unit, or categories."""


def to_q15(attribute: Attribute, question: Question, values: Floats) -> npt.NDArray[np.int32]:
    """Scale readings to the range of a mean; for a threshold +1 above it and -1 elsewhere (SPEC section 6.1)."""
    if question.threshold is not None:
        return np.where(values > question.threshold, READING_ONE, -READING_ONE).astype(np.int32)
    low, high = attribute.low, attribute.high
    scaled = np.rint(READING_ONE * (2 * values - low - high) / (high - low))
    return np.asarray(np.clip(scaled, -READING_ONE, READING_ONE), dtype=np.int32)


@dataclass(frozen=True)
class _Shape:
    """The daily cycle of a quantity, in shares of its range."""

    level: float
    swing: float
    """Amplitude of the daily cycle."""
    peak: float
    """Hour of the maximum."""
    drift: float
    """Amplitude of the weather: a cycle of several days, with another length for each device."""
    spread: float
    """The spread between devices."""
    noise: float


_SHAPES = {
    "temperature": _Shape(0.55, 0.12, 15, 0.06, 0.08, 0.01),
    "humidity": _Shape(0.60, 0.15, 4, 0.08, 0.08, 0.02),
    "pressure": _Shape(0.55, 0.01, 10, 0.15, 0.03, 0.005),
    "light": _Shape(0.30, 0.28, 13, 0.05, 0.10, 0.03),
    "co2": _Shape(0.35, 0.10, 5, 0.04, 0.12, 0.03),
    "soil_moisture": _Shape(0.45, 0.02, 6, 0.20, 0.15, 0.01),
    "battery": _Shape(0.80, 0.01, 14, 0.03, 0.10, 0.005),
    "wind": _Shape(0.25, 0.08, 14, 0.12, 0.10, 0.06),
    "rain": _Shape(0.08, 0.02, 17, 0.10, 0.03, 0.03),
    "noise": _Shape(0.40, 0.15, 18, 0.03, 0.12, 0.05),
}


class BuiltInTraces(Traces):
    """Plausible readings: a daily cycle, weather over days, differences between devices, noise.

    A reading with an unknown name gets a cycle derived from the name.
    """

    def __init__(self, profile: Profile, seed: int) -> None:
        super().__init__(profile)
        self._seed = seed
        names = list(dict.fromkeys(attribute.name for attribute in profile.attributes))
        self._places = {name: place for place, name in enumerate(names)}
        self._ranges = {name: _range_of(profile, name) for name in names}

    def values(self, attribute: Attribute, devices: Ints, numbers: Ints) -> Floats:
        place = self._places[attribute.name]
        if attribute.domain:
            return self._categories(place, attribute.domain, devices, numbers)
        low, high = self._ranges[attribute.name]
        return low + self._share(_shape_of(attribute.name), place, devices, numbers) * (high - low)

    def _share(self, shape: _Shape, place: int, devices: Ints, numbers: Ints) -> Floats:
        """Return a reading's part of its range."""
        hours = numbers * INTERVAL_HOURS
        own = _uniform(self._seed, place, devices, np.zeros_like(devices))
        cycle = 48 + 96 * _uniform(self._seed, place + 0x1000, devices, np.zeros_like(devices))
        share = (
            shape.level
            + shape.swing * np.cos(2 * np.pi * (hours - shape.peak) / 24)
            + shape.drift * np.sin(2 * np.pi * (hours / cycle + own))
            + shape.spread * (2 * own - 1)
            + shape.noise * (2 * _uniform(self._seed, place + 0x2000, devices, numbers) - 1)
        )
        return np.asarray(np.clip(share, 0, 1))

    def _categories(self, place: int, domain: int, devices: Ints, numbers: Ints) -> Floats:
        """Return category c in proportion to 1 / (c + 1); at night the later ones are a little more frequent."""
        order = np.arange(1, domain + 1)
        draw = _uniform(self._seed, place + 0x3000, devices, numbers)
        night, day = (
            np.searchsorted(np.cumsum(weights) / weights.sum(), draw, side="right")
            for weights in (1 / np.sqrt(order), 1 / order)
        )
        is_night = np.cos(2 * np.pi * numbers * INTERVAL_HOURS / 24) > 0
        return np.minimum(np.where(is_night, night, day), domain - 1).astype(np.float64)


class CsvTraces(Traces):
    """Columns of a file with the attributes' names (see `dataset`). A column of categories has their names or their indices.

    Each device starts at a different row, and continues at the beginning after the last one.
    """

    def __init__(self, profile: Profile, data: Dataset, seed: int) -> None:
        super().__init__(profile)
        self._seed = seed
        self._columns = {attribute: _column(attribute, data.column(attribute.name)) for attribute in profile.attributes}

    def values(self, attribute: Attribute, devices: Ints, numbers: Ints) -> Floats:
        column = self._columns[attribute]
        return np.asarray(column[self._row(column, devices, numbers)])

    def _row(self, column: Floats, devices: Ints, numbers: Ints) -> Ints:
        start = _uniform(self._seed, 0x4000, devices, np.zeros_like(devices)) * len(column)
        return (start.astype(np.int64) + numbers) % len(column)


def _column(attribute: Attribute, column: Column) -> Floats:
    """Return the readings in a column, in its unit, or as categories."""
    if not attribute.domain:
        return column.numbers
    places = {name: place for place, name in enumerate(attribute.categories)}
    return np.array([_category(attribute, places, column, *cell) for cell in column.cells], np.float64)


def _category(attribute: Attribute, places: Mapping[str, int], column: Column, line: int, cell: str) -> int:
    if not attribute.categories and cell.isdecimal() and int(cell) < attribute.domain:
        return int(cell)
    if cell in places:
        return places[cell]
    known = ", ".join(attribute.categories) or f"0 to {attribute.domain - 1}"
    raise DatasetError(
        f"{column.path}: line {line}, column {column.header}: {cell!r} is not one of the categories {known}"
    )


def _range_of(profile: Profile, name: str) -> tuple[float, float]:
    """Return the range of a reading: that of its mean or ladder, or else one around its thresholds."""
    mine = [attribute for attribute in profile.attributes if attribute.name == name]
    for attribute in mine:
        if attribute.low < attribute.high:
            return attribute.low, attribute.high
    ends = [end for attribute in mine for end in attribute.thresholds] or [0.0]
    margin = (max(ends) - min(ends)) or max(1.0, abs(ends[0]) / 2)
    return min(ends) - margin, max(ends) + margin


def _shape_of(name: str) -> _Shape:
    for known, shape in _SHAPES.items():
        if known in name:
            return shape
    word = np.array([int.from_bytes(name.encode()[:8].ljust(8, b"\0"), "little")], np.uint64)
    level, peak = (float(_mixed(word + np.uint64(step))[0] >> np.uint64(11)) / 2**53 for step in (1, 2))
    return _Shape(0.3 + 0.4 * level, 0.12, 24 * peak, 0.08, 0.08, 0.02)


def _mixed(words: Words) -> Words:
    """Return SplitMix64's finaliser (Steele, Lea, Flood 2014) of each word."""
    words = words * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _uniform(seed: int, stream: int, devices: Ints, numbers: Ints) -> Floats:
    """Return numbers in [0, 1) that depend only on the arguments."""
    head = _mixed(np.array([seed % 2**64], np.uint64) + np.uint64(stream))
    words = _mixed(_mixed(head + devices.astype(np.uint64)) + numbers.astype(np.uint64))
    return (words >> np.uint64(11)).astype(np.float64) / 2.0**53
