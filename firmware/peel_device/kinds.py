# SPDX-License-Identifier: MIT
"""The kinds of attributes, one class each. No other device code depends on the kind of an attribute.

An attribute is about one reading and asks one or more questions about it. The number of a report assigns one question.
The core takes one integer per question (SPEC section 6):

- a mean: the reading, scaled to Q15
- a threshold: 1 (Q15) if the reading is above it, else -1
- a category: its index

The value of a working sensor never decides whether there is a report. The count of skipped reports is published and must
not reveal a reading. So every number, even an infinite one, is clamped to the range or to a declared category, and an
undeclared name counts as the last category.
"""

from peel_device import checks
from peel_device.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    Given = dict[str, Any]
    Edges = list[float] | None
    Block = tuple[int, int, int, int, int, int, int]
    Make = Callable[[str, Given, int], "Attribute"]

SIGN, CHOICE, HASHED = 1, 2, 3  # the forms of questions: their numbers in the core
READING_ONE = 1 << 15
NO_READING = -(1 << 31)  # for every question about a reading whose sensor fails
_WEIGHT_MAX = 16
_ODDS_MAX = 255
_COUNT_MAX = 1024  # thresholds of an attribute, or attributes of a profile


def to_q15(value: float, low: float, high: float) -> int:
    """Scale a reading in [low, high] to Q15, clamped. Raises ValueError for NaN."""
    _check_number(value)
    if value <= low:
        return -READING_ONE
    if value >= high:
        return READING_ONE
    return round(READING_ONE * (2 * value - low - high) / (high - low))


def to_category(value: "Any", count: int, names: list[str], edges: "Edges") -> int:
    """Return the index of one of `count` categories, given by name, by index, or as a number between edges.

    Any other number becomes the nearest index, and an unknown name the last one. Raises ValueError for NaN, and TypeError
    for a name if the categories have no names.
    """
    last = count - 1
    if isinstance(value, str):
        if not names:
            raise TypeError("the categories have no names: give an index")
        return names.index(value) if value in names else last
    _check_number(value)
    if edges is not None:
        return sum(1 for edge in edges if value >= edge)
    nearest: int = round(min(max(value, 0), last))
    return nearest


def _check_number(value: float) -> None:
    if value != value:
        raise ValueError("the reading is not a number")


class Attribute:
    """An attribute of the profile. `first` is the place of its first question."""

    form = SIGN
    questions = 1
    symbols = 1  # columns of the projection per question
    domain = 0  # the number of categories that are hashed
    categories = 0  # the number of categories; 0 for a number

    def __init__(self, given: "Given", first: int) -> None:
        self.name: str = given["name"]
        self.kind: str = given["kind"]
        self.weight: int = given["weight"]
        self.odds: "tuple[int, int]" = (given["keep"], given["change"])  # of the coin (SPEC section 5)
        self.first = first

    def answer(self, readings: list[int], value: "Any", edges: "Edges") -> None:
        """Write the integers of its questions."""
        raise NotImplementedError

    def leave_out(self, readings: list[int]) -> None:
        """Write that there is no reading."""
        for place in range(self.first, self.first + self.questions):
            readings[place] = NO_READING


class Mean(Attribute):
    """The mean of a number."""

    def __init__(self, where: str, given: "Given", first: int) -> None:
        super().__init__(given, first)
        self._low: float = given["low"]
        self._high: float = given["high"]
        if not self._low < self._high:
            raise ConfigError(where + ".low", "must be below high")

    def answer(self, readings: list[int], value: "Any", edges: "Edges") -> None:
        """Write the scaled reading."""
        readings[self.first] = to_q15(value, self._low, self._high)


class Thresholds(Attribute):
    """Shares of readings above thresholds: the kinds `above` and `ladder`."""

    def __init__(self, where: str, given: "Given", first: int) -> None:
        super().__init__(given, first)
        self.thresholds: list[float] = given["thresholds"]
        self.questions = len(self.thresholds)

    def answer(self, readings: list[int], value: "Any", edges: "Edges") -> None:
        """Write for each threshold whether the reading is above it."""
        _check_number(value)
        place = self.first
        for threshold in self.thresholds:
            readings[place] = READING_ONE if value > threshold else -READING_ONE
            place += 1


class Category(Attribute):
    """Shares of few categories, all of them named."""

    form = CHOICE

    def __init__(self, where: str, given: "Given", first: int) -> None:
        super().__init__(given, first)
        self._names: list[str] = given["categories"] or []
        self.categories = self.symbols = len(self._names)

    def answer(self, readings: list[int], value: "Any", edges: "Edges") -> None:
        """Write the index of the reading's category."""
        readings[self.first] = to_category(value, self.categories, self._names, edges)


class Hashed(Category):
    """Shares of many categories, hashed into `symbols`. The report number assigns the hash. Names are optional."""

    form = HASHED

    def __init__(self, where: str, given: "Given", first: int) -> None:
        super().__init__(where, given, first)
        self.categories = self.domain = given["domain"]
        self.symbols = given["symbols"]
        if self._names and len(self._names) != self.domain:
            raise ConfigError(where + ".categories", "must have as many entries as domain says")


_UNIT = checks.text(0, 32)
_THRESHOLDS = {"unit": _UNIT, "thresholds": checks.numbers(1, _COUNT_MAX)}
_CATEGORIES = checks.texts(2, _COUNT_MAX)
# kind: (class, required keys, optional keys)
KINDS: "dict[str, tuple[Make, dict[str, checks.Check], dict[str, tuple[checks.Check, Any]]]]" = {
    "mean": (Mean, {"unit": _UNIT, "low": checks.number, "high": checks.number}, {}),
    "above": (Thresholds, _THRESHOLDS, {}),
    "ladder": (Thresholds, _THRESHOLDS, {}),
    "category": (Category, {"categories": _CATEGORIES}, {}),
    "hashed": (
        Hashed,
        {"domain": checks.integer(2, 65535), "symbols": checks.integer(2, 127)},
        {"categories": (_CATEGORIES, None)},
    ),
}
_KIND = checks.one_of(tuple(KINDS))
_COMMON = {
    "name": checks.text(1, 32),
    "kind": _KIND,
    "weight": checks.integer(1, _WEIGHT_MAX),
    "keep": checks.integer(2, _ODDS_MAX),
    "change": checks.integer(1, _ODDS_MAX - 1),
}


def read_attributes(key: str, value: "Any") -> "list[Attribute]":
    """Read and check the attributes of a profile."""
    attributes: "list[Attribute]" = []
    first = 0
    for index, entry in enumerate(checks.items(key, value, 1, _COUNT_MAX)):
        where = "%s[%d]" % (key, index)
        attribute = _attribute(where, entry, first)
        for other in attributes:
            if other.form == attribute.form == SIGN and other.odds != attribute.odds:
                raise ConfigError(where + ".keep", "must be the same for all numeric attributes, and so must change")
        attributes.append(attribute)
        first += attribute.questions
    return attributes


def _attribute(where: str, entry: "Any", first: int) -> Attribute:
    kind = _KIND(where + ".kind", checks.table(where, entry).get("kind"))
    make, required, optional = KINDS[kind]
    needs = dict(_COMMON)
    needs.update(required)
    given = checks.fields(where, entry, needs, optional)
    if given["change"] >= given["keep"]:
        raise ConfigError(where + ".change", "must be below keep")
    return make(where, given, first)


def by_reading(key: str, attributes: "list[Attribute]") -> "dict[str, list[Attribute]]":
    """Return the attributes about each reading. Refuse those that contradict each other."""
    found: "dict[str, list[Attribute]]" = {}
    for index, attribute in enumerate(attributes):
        others = found.setdefault(attribute.name, [])
        if attribute.kind in [other.kind for other in others]:
            raise ConfigError("%s[%d].name" % (key, index), "has two attributes of this kind")
        if others and bool(others[0].categories) != bool(attribute.categories):
            raise ConfigError("%s[%d].kind" % (key, index), "makes one reading both a number and a category")
        others.append(attribute)
    return found


def blocks_of(attributes: "list[Attribute]") -> "list[Block]":
    """Return the blocks of questions: form, weight, questions, symbols, domain, keep, change.

    Neighbouring signs of equal weight are one block.
    """
    blocks: "list[Block]" = []
    for each in attributes:
        questions = each.questions
        if each.form == SIGN and blocks and blocks[-1][:2] == (SIGN, each.weight):
            questions += blocks.pop()[2]
        blocks.append((each.form, each.weight, questions, each.symbols, each.domain) + each.odds)
    return blocks


def table_size(block: "Block") -> int:
    """Return the number of equally likely outcomes of a block's coin: keep + (g - 1) change (SPEC section 5)."""
    form, _, _, symbols, _, keep, change = block
    return keep + ((2 if form == SIGN else symbols) - 1) * change
