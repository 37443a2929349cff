# SPDX-License-Identifier: MIT
"""The mechanisms, one object each: what a profile of it reports, how its coin is tossed, what its report numbers assign.

Nothing else on this side asks which mechanism a profile has. A new one is one more object in :data:`MECHANISMS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from peel_core import fields
from peel_core._core import lib
from peel_core.fields import ProfileError

__all__ = ["MECHANISMS", "Attribute", "Content", "Mechanism", "by_name"]


@dataclass(frozen=True)
class Attribute:
    """One numeric attribute; the range is kept in millionths of the unit."""

    name: str
    unit: str
    low_micro: int
    high_micro: int

    @property
    def low(self) -> float:
        """Lower end of the range, in the unit."""
        return self.low_micro / fields.MICRO

    @property
    def high(self) -> float:
        """Upper end of the range, in the unit."""
        return self.high_micro / fields.MICRO


@dataclass(frozen=True)
class Content:
    """What a profile is about: numeric attributes, or one attribute (``subject``) with its categories."""

    attributes: tuple[Attribute, ...] = ()
    subject: str = ""
    categories: tuple[str, ...] = ()


Rows = Sequence[Mapping[str, Any]]
"""The [[attribute]] tables of a profile file."""


class Mechanism(ABC):
    """What distinguishes a mechanism from the others."""

    name: ClassVar[str]
    id: ClassVar[int]
    """Its number in a frame."""
    categorical: ClassVar[bool]
    """A report is made of one category, not of a number per attribute."""
    assigns: ClassVar[bool]
    """The report's number assigns what the report is about."""

    @abstractmethod
    def content(self, rows: Rows) -> Content:
        """Read and check what a profile is about."""

    @abstractmethod
    def canonical(self, content: Content) -> Iterator[str]:
        """Its lines in the canonical form (SPEC section 10)."""

    @abstractmethod
    def symbols(self, content: Content, epsilon_q20: int) -> int:
        """k: how many indices a codeword can have."""

    @abstractmethod
    def faces(self, k: int) -> int:
        """Between how many outcomes the coin decides; the rule is ``R(epsilon, faces)`` (SPEC sections 5 and 6)."""

    @abstractmethod
    def readings(self, k: int) -> int:
        """How many readings a report is made from."""

    @abstractmethod
    def assignments(self, content: Content, k: int) -> int:
        """How many different things a report number can assign; 1 where it assigns nothing."""


class _Harmony(Mechanism):
    """Means of numeric attributes: a sign for the attribute that the number assigns (Nguyen et al. 2016)."""

    name = "harmony"
    id = int(lib.PEEL_HARMONY)
    categorical = False
    assigns = True

    def content(self, rows: Rows) -> Content:
        attributes = tuple(_attribute(row, f"attribute[{i}].") for i, row in enumerate(rows))
        fields.distinct([a.name for a in attributes], "attribute")
        _check_count("attribute", len(attributes))
        return Content(attributes=attributes)

    def canonical(self, content: Content) -> Iterator[str]:
        for a in content.attributes:
            yield f"attribute={a.name}|{a.unit}|{a.low_micro}|{a.high_micro}"

    def symbols(self, content: Content, epsilon_q20: int) -> int:
        return len(content.attributes)

    def faces(self, k: int) -> int:
        return 2

    def readings(self, k: int) -> int:
        return k

    def assignments(self, content: Content, k: int) -> int:
        return k


class _Krr(Mechanism):
    """Frequencies of few categories: the true one, or any (k-ary randomised response)."""

    name = "krr"
    id = int(lib.PEEL_KRR)
    categorical = True
    assigns = False

    def content(self, rows: Rows) -> Content:
        row, where = _only(rows), "attribute[0]."
        fields.refuse_unknown(row, {"name", "categories"}, where)
        categories = _categories(row, where)
        _check_count("category", len(categories))
        return Content(subject=fields.name(row, "name", where), categories=categories)

    def canonical(self, content: Content) -> Iterator[str]:
        yield f"attribute={content.subject}"
        for category in content.categories:
            yield f"category={category}"

    def symbols(self, content: Content, epsilon_q20: int) -> int:
        return len(content.categories)

    def faces(self, k: int) -> int:
        return k

    def readings(self, k: int) -> int:
        return 1

    def assignments(self, content: Content, k: int) -> int:
        return 1


MECHANISMS: Mapping[str, Mechanism] = MappingProxyType({each.name: each for each in (_Harmony(), _Krr())})
"""All of them, by name."""


def by_name(name: str) -> Mechanism:
    """The mechanism of this name; ProfileError when there is none."""
    if name not in MECHANISMS:
        raise ProfileError("mechanism", f"{name!r} is not one of {', '.join(MECHANISMS)}")
    return MECHANISMS[name]


def _attribute(row: Mapping[str, Any], where: str) -> Attribute:
    fields.refuse_unknown(row, {"name", "unit", "low", "high"}, where)
    low, high = fields.micro(row, "low", where), fields.micro(row, "high", where)
    if low >= high:
        raise ProfileError(f"{where}low", f"{row['low']} is not below high = {row['high']}")
    unit = fields.label(fields.text(row, "unit", where) if "unit" in row else "", f"{where}unit", 0)
    return Attribute(fields.name(row, "name", where), unit, low, high)


def _only(rows: Rows) -> Mapping[str, Any]:
    if len(rows) != 1:
        raise ProfileError("attribute", f"categories are counted of one attribute, not of {len(rows)}")
    return rows[0]


def _categories(row: Mapping[str, Any], where: str) -> tuple[str, ...]:
    categories = fields.required(row, "categories", where)
    if not isinstance(categories, list) or not all(isinstance(c, str) for c in categories):
        raise ProfileError(f"{where}categories", "must be a list of texts")
    for i, category in enumerate(categories):
        fields.label(category, f"{where}categories[{i}]", 1)
    fields.distinct(categories, f"{where}categories")
    return tuple(categories)


def _check_count(what: str, count: int) -> None:
    if not 2 <= count <= lib.PEEL_MAX_WIDTH:
        raise ProfileError(what, f"a profile has 2 to {lib.PEEL_MAX_WIDTH} of them, this one {count}")
