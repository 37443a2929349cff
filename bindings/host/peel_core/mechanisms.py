# SPDX-License-Identifier: MIT
"""The mechanisms, one object each: the content of a profile, the coin, and the values that report numbers assign.

No other host code depends on which mechanism a profile has. A new mechanism is one more object in :data:`MECHANISMS`.
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

__all__ = ["MECHANISMS", "Attribute", "Content", "Mechanism", "by_name", "for_attributes", "for_categories"]


@dataclass(frozen=True)
class Attribute:
    """A numeric attribute. Its range is stored in millionths of the unit."""

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
    """The subject of a profile: numeric attributes, or one attribute (``subject``) with its categories."""

    attributes: tuple[Attribute, ...] = ()
    subject: str = ""
    categories: tuple[str, ...] = ()
    """Their names; empty if they have no names."""
    domain: int = 0
    """The number of categories."""

    @property
    def size(self) -> int:
        """The number of attributes, or of categories."""
        return len(self.attributes) or self.domain


_WHERE = "attribute[0]."
"""Key prefix of the one attribute of a categorical profile."""
_NAMES_ON_A_DEVICE = 1024
"""A device gets the names of at most this many categories. Beyond that its sensors give the index."""

Rows = Sequence[Mapping[str, Any]]
"""The [[attribute]] tables of a profile file."""


class Mechanism(ABC):
    """The differences between mechanisms."""

    name: ClassVar[str]
    id: ClassVar[int]
    """Its number in a frame."""
    categorical: ClassVar[bool]
    """A report is made from one category, not from a number per attribute."""
    assigns: ClassVar[bool]
    """The report number assigns the attribute or hash of the report."""
    hashes: ClassVar[bool] = False
    """A category is hashed before the coin is tossed."""

    @abstractmethod
    def content(self, rows: Rows) -> Content:
        """Read and check the content of a profile."""

    @abstractmethod
    def canonical(self, content: Content) -> Iterator[str]:
        """Yield the content's lines in the canonical form (SPEC section 10)."""

    @abstractmethod
    def symbols(self, size: int, epsilon_q20: int) -> int:
        """Return k, the number of indices that a codeword can have, for so many attributes or categories."""

    @abstractmethod
    def cost(self, size: int, epsilon_q20: int) -> choice.Cost:
        """Return the costs of estimates of so many attributes or categories."""

    @abstractmethod
    def outcomes(self, k: int) -> int:
        """Return the number of outcomes of the coin; the rule is ``R(epsilon, outcomes)`` (SPEC sections 5 and 6)."""

    @abstractmethod
    def readings(self, k: int) -> int:
        """Return the number of readings in a report."""

    @abstractmethod
    def assignments(self, content: Content, k: int) -> int:
        """Return the number of values that a report number can assign; 1 if it assigns nothing."""

    @abstractmethod
    def table(self, content: Content) -> dict[str, Any]:
        """Return the content as a device's bundle contains it."""

    def cells(self, content: Content, k: int) -> int:
        """Return the number of different reports to count, apart from the sign; see :meth:`Profile.cell`."""
        return self.assignments(content, k) * k if self.hashes else k

    def reservation(self, content: Content, epsilon_q20: int) -> str:
        """Return why another mechanism is better for such a profile; empty if none is."""
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

    def symbols(self, size: int, epsilon_q20: int) -> int:
        return size

    def cost(self, size: int, epsilon_q20: int) -> choice.Cost:
        return choice.harmony_cost(epsilon_q20, size)

    def outcomes(self, k: int) -> int:
        return 2

    def readings(self, k: int) -> int:
        return k

    def assignments(self, content: Content, k: int) -> int:
        return k

    def table(self, content: Content) -> dict[str, Any]:
        rows = [{"name": a.name, "unit": a.unit, "low": a.low, "high": a.high} for a in content.attributes]
        return {"attributes": rows}


class _Krr(Mechanism):
    """Frequencies of few categories: the true one, or a random one (k-ary randomised response)."""

    name = "krr"
    id = int(lib.PEEL_KRR)
    categorical = True
    assigns = False

    def content(self, rows: Rows) -> Content:
        row = _only(rows)
        if "domain" in row:
            raise ProfileError(
                f"{_WHERE}domain", "krr needs the names of the categories; use hashing if only their number is known"
            )
        fields.refuse_unknown(row, {"name", "categories"}, _WHERE)
        categories = _categories(row)
        _check_count("category", len(categories), 2, lib.PEEL_MAX_WIDTH)
        return Content(subject=fields.name(row, "name", _WHERE), categories=categories, domain=len(categories))

    def canonical(self, content: Content) -> Iterator[str]:
        yield f"attribute={content.subject}"
        for category in content.categories:
            yield f"category={category}"

    def symbols(self, size: int, epsilon_q20: int) -> int:
        return size

    def cost(self, size: int, epsilon_q20: int) -> choice.Cost:
        return choice.krr_cost(epsilon_q20, size)

    def outcomes(self, k: int) -> int:
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
    """Frequencies of many categories: kRR over the symbols that the number's hash maps them to (Wang et al. 2017)."""

    name = "hashing"
    id = int(lib.PEEL_HASHING)
    categorical = True
    assigns = True
    hashes = True

    def content(self, rows: Rows) -> Content:
        row = _only(rows)
        fields.refuse_unknown(row, {"name", "categories", "domain"}, _WHERE)
        if ("domain" in row) == ("categories" in row):
            raise ProfileError(f"{_WHERE}domain", "give either the names of the categories or their number (domain)")
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

    def symbols(self, size: int, epsilon_q20: int) -> int:
        return hash_family.symbols(epsilon_q20)

    def cost(self, size: int, epsilon_q20: int) -> choice.Cost:
        return choice.hashing_cost(epsilon_q20)

    def outcomes(self, k: int) -> int:
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


_HARMONY, _KRR, _HASHING = _Harmony(), _Krr(), _Hashing()

MECHANISMS: Mapping[str, Mechanism] = MappingProxyType({each.name: each for each in (_HARMONY, _KRR, _HASHING)})
"""All mechanisms, by name."""


def for_attributes() -> Mechanism:
    """Return the mechanism for numeric attributes."""
    return _HARMONY


def for_categories(categories: int, epsilon_q20: int) -> Mechanism:
    """Return the better mechanism for so many categories."""
    return _HASHING if choice.hashing_is_better(epsilon_q20, categories) else _KRR


def by_name(name: str) -> Mechanism:
    """Return the mechanism of this name; raise ProfileError for an unknown one."""
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
        raise ProfileError("attribute", f"a categorical profile has one attribute, not {len(rows)}")
    return rows[0]


def _categories(row: Mapping[str, Any]) -> tuple[str, ...]:
    categories = fields.required(row, "categories", _WHERE)
    if not isinstance(categories, list) or not all(isinstance(c, str) for c in categories):
        raise ProfileError(f"{_WHERE}categories", "must be a list of strings")
    for i, category in enumerate(categories):
        fields.label(category, f"{_WHERE}categories[{i}]", 1)
    fields.distinct(categories, f"{_WHERE}categories")
    return tuple(categories)


def _check_count(what: str, count: int, least: int, most: int) -> None:
    if not least <= count <= most:
        raise ProfileError(what, f"a profile must have {least} to {most}, got {count}")
