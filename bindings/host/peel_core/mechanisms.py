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

from peel_core import choice, fields, hash_family
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
    """Their names; empty where they have none."""
    domain: int = 0
    """How many categories there are."""


_WHERE = "attribute[0]."
"""Where the one attribute of a categorical profile stands."""
_NAMES_ON_A_DEVICE = 1024
"""A device gets the names of so many categories; its sensors give the index where there are more."""

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
    hashes: ClassVar[bool] = False
    """A category is hashed before the coin is tossed."""

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

    @abstractmethod
    def table(self, content: Content) -> dict[str, Any]:
        """What a device must know of the content, as its bundle spells it."""

    def cells(self, content: Content, k: int) -> int:
        """How many different reports there are to count, signs apart; see :meth:`Profile.cell`."""
        return self.assignments(content, k) * k if self.hashes else k

    def reservation(self, content: Content, epsilon_q20: int) -> str:
        """Why nobody should want such a profile; empty when somebody might."""
        return ""


class _Harmony(Mechanism):
    """Means of numeric attributes: a sign for the attribute that the number assigns (Nguyen et al. 2016)."""

    name = "harmony"
    id = int(lib.PEEL_HARMONY)
    categorical = False
    assigns = True

    def content(self, rows: Rows) -> Content:
        attributes = tuple(_attribute(row, f"attribute[{i}].") for i, row in enumerate(rows))
        fields.distinct([a.name for a in attributes], "attribute")
        _check_count("attribute", len(attributes), 1, lib.PEEL_MAX_WIDTH)
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

    def table(self, content: Content) -> dict[str, Any]:
        rows = [{"name": a.name, "unit": a.unit, "low": a.low, "high": a.high} for a in content.attributes]
        return {"attributes": rows}


class _Krr(Mechanism):
    """Frequencies of few categories: the true one, or any (k-ary randomised response)."""

    name = "krr"
    id = int(lib.PEEL_KRR)
    categorical = True
    assigns = False

    def content(self, rows: Rows) -> Content:
        row = _only(rows)
        if "domain" in row:
            raise ProfileError(
                f"{_WHERE}domain", "krr needs the categories themselves; hashing can do with their number"
            )
        fields.refuse_unknown(row, {"name", "categories"}, _WHERE)
        categories = _categories(row)
        _check_count("category", len(categories), 2, lib.PEEL_MAX_WIDTH)
        return Content(subject=fields.name(row, "name", _WHERE), categories=categories, domain=len(categories))

    def canonical(self, content: Content) -> Iterator[str]:
        yield f"attribute={content.subject}"
        for category in content.categories:
            yield f"category={category}"

    def symbols(self, content: Content, epsilon_q20: int) -> int:
        return content.domain

    def faces(self, k: int) -> int:
        return k

    def readings(self, k: int) -> int:
        return 1

    def assignments(self, content: Content, k: int) -> int:
        return 1

    def table(self, content: Content) -> dict[str, Any]:
        return {"attributes": [{"name": content.subject}], "categories": list(content.categories)}

    def reservation(self, content: Content, epsilon_q20: int) -> str:
        if not choice.hashing_is_better(epsilon_q20, content.domain):
            return ""
        mine, other = choice.krr_cost(epsilon_q20, content.domain), choice.hashing_cost(epsilon_q20)
        return (
            f"krr over {content.domain} categories at this epsilon has {mine.variance / other.variance:.2f} times the variance of "
            f"hashing, and one forged report counts for {mine.cap:.1f} honest ones instead of {other.cap:.1f}"
        )


class _Hashing(Mechanism):
    """Frequencies of many categories: kRR over the few symbols that the number's hash leaves of them (Wang et al. 2017)."""

    name = "hashing"
    id = int(lib.PEEL_HASHING)
    categorical = True
    assigns = True
    hashes = True

    def content(self, rows: Rows) -> Content:
        row = _only(rows)
        fields.refuse_unknown(row, {"name", "categories", "domain"}, _WHERE)
        if ("domain" in row) == ("categories" in row):
            raise ProfileError(f"{_WHERE}domain", "give either the categories' names or, as domain, their number")
        categories = _categories(row) if "categories" in row else ()
        domain = len(categories) or fields.integer(row, "domain", 2, hash_family.MAX_DOMAIN, where=_WHERE)
        _check_count("domain", domain, 2, hash_family.MAX_DOMAIN)
        return Content(subject=fields.name(row, "name", _WHERE), categories=categories, domain=domain)

    def canonical(self, content: Content) -> Iterator[str]:
        yield f"attribute={content.subject}"
        for category in content.categories:
            yield f"category={category}"
        if not content.categories:
            yield f"domain={content.domain}"

    def symbols(self, content: Content, epsilon_q20: int) -> int:
        return hash_family.symbols(epsilon_q20)

    def faces(self, k: int) -> int:
        return k

    def readings(self, k: int) -> int:
        return 1

    def assignments(self, content: Content, k: int) -> int:
        return hash_family.hash_count(k, content.domain)

    def table(self, content: Content) -> dict[str, Any]:
        table = {"attributes": [{"name": content.subject}], "domain": content.domain}
        if 0 < len(content.categories) <= _NAMES_ON_A_DEVICE:
            table["categories"] = list(content.categories)
        return table


MECHANISMS: Mapping[str, Mechanism] = MappingProxyType({each.name: each for each in (_Harmony(), _Krr(), _Hashing())})
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


def _categories(row: Mapping[str, Any]) -> tuple[str, ...]:
    categories = fields.required(row, "categories", _WHERE)
    if not isinstance(categories, list) or not all(isinstance(c, str) for c in categories):
        raise ProfileError(f"{_WHERE}categories", "must be a list of texts")
    for i, category in enumerate(categories):
        fields.label(category, f"{_WHERE}categories[{i}]", 1)
    fields.distinct(categories, f"{_WHERE}categories")
    return tuple(categories)


def _check_count(what: str, count: int, least: int, most: int) -> None:
    if not least <= count <= most:
        raise ProfileError(what, f"a profile has {least} to {most} of them, this one {count}")
