# SPDX-License-Identifier: MIT
"""The kinds of attributes, one object each, and the questions that an attribute asks.

A report answers one *question*, which its number assigns. A question has one of three *forms* (SPEC section 6): a sign, a choice of few
categories, or a choice of many categories that are hashed. No other host code depends on the kind of an attribute.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, ClassVar

from peel_core import choice, fields, hash_family
from peel_core._core import lib
from peel_core.fields import ProfileError
from peel_core.odds import Odds

__all__ = [
    "CHOICE",
    "HASHED",
    "KINDS",
    "MAX_WEIGHT",
    "SIGN",
    "Attribute",
    "Kind",
    "Question",
    "kind_for_categories",
    "read_attributes",
]

SIGN, CHOICE, HASHED = int(lib.PEEL_SIGN), int(lib.PEEL_CHOICE), int(lib.PEEL_HASHED)
"""The forms of questions: their numbers in the core."""
MAX_WEIGHT = 16
_RUNGS = (2, 64)
"""The least and the largest number of rungs of a ladder."""
_NAMES_ON_A_DEVICE = 1024
"""A device gets the names of at most this many categories. Beyond that its sensors give the index."""

Row = Mapping[str, Any]
"""One [[attribute]] table of a profile file."""


@dataclass(frozen=True)
class Attribute:
    """One attribute of a profile. Ranges and thresholds are in millionths of the unit."""

    name: str
    """The reading that it is about; several attributes may be about one reading."""
    kind: str
    unit: str = ""
    low_micro: int = 0
    high_micro: int = 0
    thresholds_micro: tuple[int, ...] = ()
    """Ascending: one question each (above, ladder)."""
    categories: tuple[str, ...] = ()
    """Their names; empty if they have no names."""
    domain: int = 0
    """The number of categories."""
    weight: int = 1
    """Each of its questions is asked this often, compared with a question of weight 1."""

    @property
    def low(self) -> float:
        """Lower end of the range, in the unit."""
        return self.low_micro / fields.MICRO

    @property
    def high(self) -> float:
        """Upper end of the range, in the unit."""
        return self.high_micro / fields.MICRO

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The thresholds, in the unit."""
        return tuple(each / fields.MICRO for each in self.thresholds_micro)


@dataclass(frozen=True)
class Question:
    """A question that a report answers."""

    attribute: int
    """The place of its attribute in the profile."""
    form: int
    weight: int
    symbols: int
    """The columns of the projection that its answers have: 1 for a sign."""
    domain: int = 0
    """The number of categories that are hashed into the symbols; 0 without hashing."""
    threshold: float | None = None
    """The question is whether the reading is above it; None for other questions."""

    @property
    def outcomes(self) -> int:
        """The number of outcomes of the coin: two signs, or all symbols."""
        return 2 if self.form == SIGN else self.symbols

    @property
    def hashes(self) -> int:
        """The number of hashes that a report number can assign; 1 without hashing."""
        return hash_family.hash_count(self.symbols, self.domain) if self.form == HASHED else 1


class Kind(ABC):
    """The differences between kinds of attributes."""

    name: ClassVar[str]
    numeric: ClassVar[bool]
    """Its readings are numbers, not categories."""
    keys: ClassVar[frozenset[str]]
    """The keys of its table, besides name, kind and weight."""

    @abstractmethod
    def read(self, row: Row, where: str) -> dict[str, Any]:
        """Read and check the fields of an attribute that only this kind has."""

    @abstractmethod
    def canonical(self, attribute: Attribute, odds: Odds) -> Iterator[str]:
        """Yield the attribute's lines in the canonical form (SPEC section 10)."""

    @abstractmethod
    def questions(self, attribute: Attribute, place: int, epsilon_q20: int) -> Iterator[Question]:
        """Yield the attribute's questions."""

    @abstractmethod
    def table(self, attribute: Attribute, epsilon_q20: int) -> dict[str, Any]:
        """Return the fields that a device's bundle contains, besides name, kind and weight."""

    def reservation(self, attribute: Attribute, epsilon_q20: int) -> str:
        """Return why another kind is better; empty if none is."""
        return ""


class _Mean(Kind):
    """The mean of a number: a sign whose mean is the reading (Harmony, Nguyen et al. 2016)."""

    name = "mean"
    numeric = True
    keys = frozenset({"unit", "low", "high"})

    def read(self, row: Row, where: str) -> dict[str, Any]:
        return {"unit": _unit(row, where), **_range(row, where)}

    def canonical(self, attribute: Attribute, odds: Odds) -> Iterator[str]:
        ends = f"{attribute.low_micro}|{attribute.high_micro}"
        yield f"mean={attribute.name}|{attribute.unit}|{ends}|{attribute.weight}|{odds}"

    def questions(self, attribute: Attribute, place: int, epsilon_q20: int) -> Iterator[Question]:
        yield Question(place, SIGN, attribute.weight, 1)

    def table(self, attribute: Attribute, epsilon_q20: int) -> dict[str, Any]:
        return {"unit": attribute.unit, "low": attribute.low, "high": attribute.high}


class _Thresholds(Kind):
    """Shares of readings above thresholds: a sign per threshold, plus if the reading is above it."""

    numeric = True

    def questions(self, attribute: Attribute, place: int, epsilon_q20: int) -> Iterator[Question]:
        for threshold in attribute.thresholds:
            yield Question(place, SIGN, attribute.weight, 1, threshold=threshold)

    def table(self, attribute: Attribute, epsilon_q20: int) -> dict[str, Any]:
        return {"unit": attribute.unit, "thresholds": list(attribute.thresholds)}


class _Above(_Thresholds):
    """The share of readings above a threshold, or above each of several."""

    name = "above"
    keys = frozenset({"unit", "thresholds"})

    def read(self, row: Row, where: str) -> dict[str, Any]:
        thresholds = _ascending(row, "thresholds", where)
        return {"unit": _unit(row, where), "thresholds_micro": thresholds}

    def canonical(self, attribute: Attribute, odds: Odds) -> Iterator[str]:
        ends = "|".join(map(str, attribute.thresholds_micro))
        yield f"above={attribute.name}|{attribute.unit}|{attribute.weight}|{odds}|{ends}"


class _Ladder(_Thresholds):
    """The distribution of a number: the share of readings above each rung of a ladder."""

    name = "ladder"
    keys = frozenset({"unit", "low", "high", "rungs"})

    def read(self, row: Row, where: str) -> dict[str, Any]:
        ends = _range(row, where)
        low, high = ends["low_micro"], ends["high_micro"]
        if isinstance(fields.required(row, "rungs", where), list):
            rungs = _ascending(row, "rungs", where)
            if len(rungs) < _RUNGS[0] or len(rungs) > _RUNGS[1]:
                raise ProfileError(f"{where}rungs", f"give {_RUNGS[0]} to {_RUNGS[1]} rungs, not {len(rungs)}")
        else:
            count = fields.integer(row, "rungs", *_RUNGS, where=where)
            rungs = _even_rungs(low, high, count)
        _inside(rungs, low, high, f"{where}rungs")
        return {"unit": _unit(row, where), **ends, "thresholds_micro": rungs}

    def canonical(self, attribute: Attribute, odds: Odds) -> Iterator[str]:
        ends = "|".join(map(str, (attribute.low_micro, attribute.high_micro, attribute.weight, odds)))
        yield f"ladder={attribute.name}|{attribute.unit}|{ends}|{'|'.join(map(str, attribute.thresholds_micro))}"


class _Category(Kind):
    """Shares of few categories: the true one, or a random one (k-ary randomised response)."""

    name = "category"
    numeric = False
    keys = frozenset({"categories", "force_category"})

    def read(self, row: Row, where: str) -> dict[str, Any]:
        categories = _categories(row, where)
        _check_count(f"{where}categories", len(categories), 2, lib.PEEL_MAX_WIDTH)
        return {"categories": categories, "domain": len(categories)}

    def canonical(self, attribute: Attribute, odds: Odds) -> Iterator[str]:
        yield f"category={attribute.name}|{attribute.weight}|{odds}"
        yield from (f"value={category}" for category in attribute.categories)

    def questions(self, attribute: Attribute, place: int, epsilon_q20: int) -> Iterator[Question]:
        yield Question(place, CHOICE, attribute.weight, attribute.domain)

    def table(self, attribute: Attribute, epsilon_q20: int) -> dict[str, Any]:
        return {"categories": list(attribute.categories)}

    def reservation(self, attribute: Attribute, epsilon_q20: int) -> str:
        if not choice.hashing_is_better(epsilon_q20, attribute.domain):
            return ""
        mine, other = choice.krr_cost(epsilon_q20, attribute.domain), choice.hashing_cost(epsilon_q20)
        return (
            f'kind "category" with {attribute.domain} categories at this epsilon has {mine.variance / other.variance:.2f} times the '
            f'variance of kind "hashed", and one forged report counts for {mine.cap:.1f} honest ones instead of {other.cap:.1f}'
        )


class _Hashed(Kind):
    """Shares of many categories: a choice among the symbols that the number's hash maps them to (Wang et al. 2017)."""

    name = "hashed"
    numeric = False
    keys = frozenset({"categories", "domain"})

    def read(self, row: Row, where: str) -> dict[str, Any]:
        if ("domain" in row) == ("categories" in row):
            raise ProfileError(f"{where}domain", "give either the names of the categories or their number (domain)")
        categories = _categories(row, where) if "categories" in row else ()
        domain = len(categories) or fields.integer(row, "domain", 2, hash_family.MAX_DOMAIN, where=where)
        _check_count(f"{where}domain", domain, 2, hash_family.MAX_DOMAIN)
        return {"categories": categories, "domain": domain}

    def canonical(self, attribute: Attribute, odds: Odds) -> Iterator[str]:
        yield f"hashed={attribute.name}|{attribute.weight}|{odds}|{attribute.domain}"
        yield from (f"value={category}" for category in attribute.categories)

    def questions(self, attribute: Attribute, place: int, epsilon_q20: int) -> Iterator[Question]:
        yield Question(place, HASHED, attribute.weight, hash_family.symbols(epsilon_q20), attribute.domain)

    def table(self, attribute: Attribute, epsilon_q20: int) -> dict[str, Any]:
        table: dict[str, Any] = {"domain": attribute.domain, "symbols": hash_family.symbols(epsilon_q20)}
        if 0 < len(attribute.categories) <= _NAMES_ON_A_DEVICE:
            table["categories"] = list(attribute.categories)
        return table


KINDS: Mapping[str, Kind] = MappingProxyType(
    {each.name: each for each in (_Mean(), _Above(), _Ladder(), _Category(), _Hashed())}
)
"""All kinds, by name."""


def kind_for_categories(categories: int, epsilon_q20: int) -> str:
    """Return the better kind for so many categories."""
    return "hashed" if choice.hashing_is_better(epsilon_q20, categories) else "category"


def read_attributes(rows: Sequence[Row], epsilon_q20: int) -> tuple[Attribute, ...]:
    """Read and check the [[attribute]] tables of a profile."""
    attributes = tuple(_attribute(row, f"attribute[{place}].", epsilon_q20) for place, row in enumerate(rows))
    fields.distinct([f"{each.name} ({each.kind})" for each in attributes], "attribute")
    for place, attribute in enumerate(attributes):
        _check_reading(attribute, attributes, f"attribute[{place}].")
    return attributes


def _attribute(row: Row, where: str, epsilon_q20: int) -> Attribute:
    name = fields.text(row, "kind", where)
    if name not in KINDS:
        raise ProfileError(f"{where}kind", f"{name!r} is not one of {', '.join(KINDS)}")
    kind = KINDS[name]
    fields.refuse_unknown(row, {"name", "kind", "weight", *kind.keys}, where)
    attribute = Attribute(
        name=fields.name(row, "name", where),
        kind=name,
        weight=fields.integer(row, "weight", 1, MAX_WEIGHT, 1, where),
        **kind.read(row, where),
    )
    forced = row.get("force_category", False)
    if not isinstance(forced, bool):
        raise ProfileError(f"{where}force_category", f"must be true or false, not {forced!r}")
    reservation = kind.reservation(attribute, epsilon_q20)
    if reservation and not forced:
        raise ProfileError(f"{where}kind", f'{reservation}; use kind = "hashed", or set force_category = true')
    return attribute


def _check_reading(attribute: Attribute, attributes: Sequence[Attribute], where: str) -> None:
    """Refuse attributes that contradict others about the same reading."""
    for other in (each for each in attributes if each.name == attribute.name):
        if KINDS[other.kind].numeric != KINDS[attribute.kind].numeric:
            raise ProfileError(
                f"{where}name",
                f"{attribute.name!r} is a number in one attribute and a category in another. Rename one.",
            )
        if attribute.unit != other.unit:
            raise ProfileError(
                f"{where}unit",
                f"{attribute.unit!r} and {other.unit!r} are both units of {attribute.name}. Give all its attributes one unit.",
            )
        if attribute.kind == "above" and other.low_micro < other.high_micro:
            _inside(attribute.thresholds_micro, other.low_micro, other.high_micro, f"{where}thresholds")
        if attribute.kind == "above" and other.kind == "ladder":
            _refuse_shared(attribute, other, f"{where}thresholds")


def _refuse_shared(above: Attribute, ladder: Attribute, key: str) -> None:
    """Refuse to ask one question twice: both statistics would have the same name."""
    for each in sorted({*above.thresholds_micro} & {*ladder.thresholds_micro}):
        raise ProfileError(
            key, f"{each / fields.MICRO:g} is also a rung of the ladder of {above.name}; remove it from one of them"
        )


def _unit(row: Row, where: str) -> str:
    return fields.label(fields.text(row, "unit", where) if "unit" in row else "", f"{where}unit", 0)


def _range(row: Row, where: str) -> dict[str, int]:
    low, high = fields.micro(row, "low", where), fields.micro(row, "high", where)
    if low >= high:
        raise ProfileError(f"{where}low", f"{row['low']} is not below high = {row['high']}. Give the lower end first.")
    return {"low_micro": low, "high_micro": high}


def _ascending(row: Row, key: str, where: str) -> tuple[int, ...]:
    given = fields.required(row, key, where)
    if not isinstance(given, list) or not given:
        raise ProfileError(f"{where}{key}", f"must be a list of one or more numbers, not {given!r}")
    found = tuple(fields.micro({str(i): value}, str(i), f"{where}{key}.") for i, value in enumerate(given))
    for before, after in pairwise(found):
        if after <= before:
            raise ProfileError(
                f"{where}{key}",
                f"{after / fields.MICRO:g} must be above {before / fields.MICRO:g}. List them in ascending order, each once.",
            )
    return found


def _even_rungs(low: int, high: int, count: int) -> tuple[int, ...]:
    """Return rungs at equal distances, each rounded to at most a tenth of that distance."""
    apart = (high - low) / (count + 1)
    step = max(1, 10 ** (int(math.log10(apart)) - 1)) if apart >= 1 else 1
    return tuple(round((low + apart * (i + 1)) / step) * step for i in range(count))


def _inside(thresholds: tuple[int, ...], low: int, high: int, key: str) -> None:
    for each in thresholds:
        if not low < each < high:
            ends = f"{low / fields.MICRO:g} to {high / fields.MICRO:g}"
            raise ProfileError(
                key, f"{each / fields.MICRO:g} must lie inside the range {ends}. Move it, or widen the range."
            )


def _categories(row: Row, where: str) -> tuple[str, ...]:
    categories = fields.required(row, "categories", where)
    if not isinstance(categories, list) or not all(isinstance(c, str) for c in categories):
        raise ProfileError(f"{where}categories", "must be a list of strings")
    for i, category in enumerate(categories):
        fields.label(category, f"{where}categories[{i}]", 1)
    fields.distinct(categories, f"{where}categories")
    return tuple(categories)


def _check_count(key: str, count: int, least: int, most: int) -> None:
    if not least <= count <= most:
        raise ProfileError(key, f"must have {least} to {most} categories, got {count}")
