# SPDX-License-Identifier: MIT
"""The mechanisms, one object each (SPEC section 6). No other device code depends on which mechanism a profile has.

A mechanism knows its number in a frame, how many outcomes its coin has, and the subject of its reports: numeric
attributes, or the categories of one attribute.

Readings become the integers that the core takes (SPEC section 6). The value of a working sensor never decides whether
there is a report. The count of skipped reports is published and must not reveal a reading. So every number, even an
infinite one, is clamped to the range or to a declared category, and an undeclared name counts as the last category.
"""

from peel_device import checks
from peel_device.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Given = dict[str, Any]

READING_ONE = 1 << 15


def to_q15(value: float, low: float, high: float) -> int:
    """Scale a reading in [low, high] to Q15, clamped. Raises ValueError for NaN."""
    if value != value:
        raise ValueError("the reading is not a number")
    if value <= low:
        return -READING_ONE
    if value >= high:
        return READING_ONE
    return round(READING_ONE * (2 * value - low - high) / (high - low))


def to_category(value: "Any", count: int, names: list[str], edges: "list[float] | None") -> int:
    """Return the index of one of `count` categories, given by name, by index, or as a number between edges.

    Any other number becomes the nearest index, and an unknown name the last one. Raises ValueError for NaN, and TypeError
    for a name if the categories have no names.
    """
    last = count - 1
    if isinstance(value, str):
        if not names:
            raise TypeError("the categories have no names: give an index")
        return names.index(value) if value in names else last
    if value != value:
        raise ValueError("the reading is not a number")
    if edges is not None:
        return sum(1 for edge in edges if value >= edge)
    nearest: int = round(min(max(value, 0), last))
    return nearest


class Attributes:
    """Numeric attributes, each with its own sensor."""

    categories = 0

    def __init__(self, given: "Given") -> None:
        _refuse(given, "categories", "numeric attributes")
        _refuse(given, "domain", "numeric attributes")
        self.names: list[str] = []
        self._ranges: list[tuple[float, float]] = []
        entries = checks.items("profile.attributes", given["attributes"], given["k"], given["k"])
        for index, entry in enumerate(entries):
            self._add("profile.attributes[%d]" % index, entry)

    def _add(self, where: str, entry: "Any") -> None:
        attribute = checks.fields(where, entry, _ATTRIBUTE, {})
        if not attribute["low"] < attribute["high"]:
            raise ConfigError(where + ".low", "must be below high")
        if attribute["name"] in self.names:
            raise ConfigError(where + ".name", "is there twice")
        self.names.append(attribute["name"])
        self._ranges.append((attribute["low"], attribute["high"]))

    def convert(self, index: int, value: "Any", edges: "list[float] | None") -> int:
        """Return the integer for a reading of attribute `index`."""
        low, high = self._ranges[index]
        return to_q15(value, low, high)


class Categories:
    """The categories of one attribute, named or not."""

    def __init__(self, given: "Given", count: int, named: bool) -> None:
        if given["k"] < 2:
            raise ConfigError("profile.k", "must be at least 2")
        entries = checks.items("profile.attributes", given["attributes"], 1, 1)
        self.names = [checks.fields("profile.attributes[0]", entries[0], {"name": checks.text(1, 32)}, {})["name"]]
        labels = checks.items("profile.categories", given["categories"], count, count) if named else []
        self._labels = [checks.text(1, 32)("profile.categories[%d]" % index, name) for index, name in enumerate(labels)]
        self.categories = count

    def convert(self, index: int, value: "Any", edges: "list[float] | None") -> int:
        """Return the index of the reading's category."""
        return to_category(value, self.categories, self._labels, edges)


class Harmony:
    """Means of numeric attributes."""

    name = "harmony"
    id = 1

    def outcomes(self, k: int) -> int:
        """Return the number of outcomes: two."""
        return 2

    def subject(self, given: "Given") -> Attributes:
        """Return the profile's attributes."""
        return Attributes(given)


class Krr:
    """Frequencies of few categories."""

    name = "krr"
    id = 2

    def outcomes(self, k: int) -> int:
        """Return the number of outcomes: one per category."""
        return k

    def subject(self, given: "Given") -> Categories:
        """Return the profile's categories, one per symbol."""
        _refuse(given, "domain", "krr")
        return Categories(given, given["k"], True)


class Hashing:
    """Frequencies of many categories, hashed into k symbols. The report number selects the hash function."""

    name = "hashing"
    id = 3

    def outcomes(self, k: int) -> int:
        """Return the number of outcomes: one per symbol."""
        return k

    def subject(self, given: "Given") -> Categories:
        """Return the profile's categories, whose names are optional."""
        count = checks.integer(2, 65535)("profile.domain", given["domain"])
        return Categories(given, count, given["categories"] is not None)


def _refuse(given: "Given", key: str, what: str) -> None:
    if given[key] is not None:
        raise ConfigError("profile." + key, "does not go with " + what)


MECHANISMS: "dict[str, Harmony | Krr | Hashing]" = {each.name: each for each in (Harmony(), Krr(), Hashing())}

_ATTRIBUTE: "dict[str, checks.Check]" = {
    "name": checks.text(1, 32),
    "unit": checks.text(0, 32),
    "low": checks.number,
    "high": checks.number,
}
