# SPDX-License-Identifier: MIT
"""The profile: what a fleet's devices and its gateway agree on (SPEC section 10)."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from peel_core import fields, mechanisms
from peel_core._core import lib
from peel_core.errors import PeelError
from peel_core.fields import ProfileError
from peel_core.mechanisms import Attribute, Content
from peel_core.primitives import EPSILON_ONE, MAX_WIDTH, RULE_ONE, hash_
from peel_core.primitives import rule as core_rule

__all__ = ["DEFAULT_WIDTH", "Profile", "burst_size", "even_interval", "load_profile", "make_profile", "parse_profile"]

DEFAULT_WIDTH = 48
_KEYS = {"name", "mechanism", "epsilon", "width", "seed", "quota", "period", "lifetime", "attribute", "force_krr"}


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A validated profile. Make one with :func:`load_profile` or :func:`parse_profile`.

    What differs between mechanisms is asked here, and answered by :mod:`peel_core.mechanisms`.
    """

    name: str
    mechanism: str
    epsilon_q20: int
    width: int
    seed: int
    quota: int
    period: int
    content: Content
    lifetime: int | None = None
    """The last number that a device may use; None where there is no such limit."""

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The numeric attributes; empty for categorical mechanisms."""
        return self.content.attributes

    @property
    def subject(self) -> str:
        """The attribute whose categories are counted; empty for numeric mechanisms."""
        return self.content.subject

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories' names, in index order; empty for numeric mechanisms, and where categories have no names."""
        return self.content.categories

    @property
    def domain(self) -> int:
        """How many categories there are; 0 for numeric mechanisms."""
        return self.content.domain

    @property
    def size(self) -> int:
        """How many things are estimated: attributes, or categories."""
        return self.domain or len(self.attributes)

    def label(self, index: int) -> str:
        """The name of an attribute or category; its number where it has none."""
        if self.attributes:
            return self.attributes[index].name
        return self.categories[index] if self.categories else str(index)

    @cached_property
    def _mechanism(self) -> mechanisms.Mechanism:
        return mechanisms.by_name(self.mechanism)

    @property
    def mechanism_id(self) -> int:
        """The mechanism's number in a frame."""
        return self._mechanism.id

    @property
    def categorical(self) -> bool:
        """Whether a report is made of one category, not of a number per attribute."""
        return self._mechanism.categorical

    @property
    def assigns(self) -> bool:
        """Whether a report's number assigns what it is about."""
        return self._mechanism.assigns

    @property
    def hash_domain(self) -> int:
        """How many categories are hashed into the k symbols; 0 where none are."""
        return self.domain if self._mechanism.hashes else 0

    @cached_property
    def k(self) -> int:
        """How many indices a codeword can have: attributes, categories, or symbols that categories are hashed into."""
        return self._mechanism.symbols(self.content, self.epsilon_q20)

    @property
    def readings(self) -> int:
        """How many readings a report is made from."""
        return self._mechanism.readings(self.k)

    @property
    def assignments(self) -> int:
        """How many different things a report number can assign; 1 where it assigns nothing."""
        return self._mechanism.assignments(self.content, self.k)

    @property
    def cells(self) -> int:
        """How many cells reports are counted in; see :meth:`cell`."""
        return self._mechanism.cells(self.content, self.k)

    def cell(self, assigned: Any, index: Any) -> Any:
        """Where a report is counted, given what its number assigns and its index, as integers or arrays of them.

        The index alone, except for local hashing, where an answer means nothing without its hash: ``assigned * k + index``.
        """
        return assigned * self.k + index if self._mechanism.hashes else index

    @property
    def epsilon(self) -> float:
        """The budget of one report."""
        return self.epsilon_q20 / EPSILON_ONE

    @cached_property
    def rule(self) -> int:
        """The rule R in Q31 (SPEC section 5)."""
        return self.rule_at(self.epsilon_q20)

    def rule_at(self, epsilon_q20: int) -> int:
        """What the rule would be with another epsilon."""
        return core_rule(epsilon_q20, self._mechanism.faces(self.k))

    @property
    def likeliest(self) -> float:
        """The probability of the outcome that the reading favours most; no outcome of an honest coin is likelier."""
        keep = self.rule / RULE_ONE
        return keep + (1 - keep) / self._mechanism.faces(self.k)

    @property
    def cap(self) -> float:
        """How far one forged report can move an estimate, in honest ones: about (e^eps + faces - 1) / (e^eps - 1)."""
        return RULE_ONE / self.rule

    @property
    def frame_bytes(self) -> int:
        """Size of a sealed frame."""
        return int(lib.peel_frame_bytes(self.width, 0))

    @property
    def burst(self) -> int:
        """The most numbers that a device takes at once (SPEC section 10)."""
        return burst_size(self.quota)

    @property
    def interval_s(self) -> float:
        """Seconds between the reports of a device that takes all its numbers, evenly; in whole milliseconds, as devices count."""
        return even_interval(self.quota, self.period)

    def table(self) -> dict[str, Any]:
        """The profile as a device's bundle spells it."""
        return {
            "name": self.name,
            "mechanism": self.mechanism,
            "id": f"{self.id:08x}",
            "epsilon_q20": self.epsilon_q20,
            "k": self.k,
            "width": self.width,
            "seed": self.seed,
            "quota": self.quota,
            "period": self.period,
            **({} if self.lifetime is None else {"lifetime": self.lifetime}),
            **self._mechanism.table(self.content),
        }

    def canonical(self) -> str:
        """The canonical form, of which ``id`` is the digest."""
        lines = [
            "peel-profile-1",
            f"name={self.name}",
            f"mechanism={self.mechanism}",
            f"epsilon={self.epsilon_q20}",
            f"width={self.width}",
            f"seed={self.seed}",
            f"quota={self.quota}",
            f"period={self.period}",
            *([] if self.lifetime is None else [f"lifetime={self.lifetime}"]),
            *self._mechanism.canonical(self.content),
        ]
        return "".join(line + "\n" for line in lines)

    @cached_property
    def id(self) -> int:
        """The 32-bit profile id."""
        return int.from_bytes(hash_("peel/1 profile", self.canonical().encode(), 4), "little")


def burst_size(quota: int) -> int:
    """The most numbers that a device with this quota takes at once: an eighth of it (SPEC section 10)."""
    return max(1, quota // 8)


def even_interval(quota: int, period: int) -> float:
    """Seconds between the reports of a device that takes a quota per period evenly; no shorter interval can be kept for long."""
    return math.ceil((1000 * period + 1) / (quota + 1 - burst_size(quota))) / 1000


def load_profile(path: Path | str) -> Profile:
    """Read a TOML profile. Errors name the file and the key."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors put a mark first
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(str(path), f"cannot be read: {error}") from error
    try:
        return parse_profile(text)
    except ProfileError as error:
        raise ProfileError(f"{path}: {error.key}", str(error).removeprefix(f"{error.key}: ")) from error


def parse_profile(text: str) -> Profile:
    """A profile from TOML text. ``width`` defaults to the larger of 48 and k."""
    try:
        table = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError("profile", f"is not TOML: {error}") from error
    return make_profile(table)


def make_profile(table: Mapping[str, Any]) -> Profile:
    """A profile from a table with the keys of the TOML file."""
    fields.refuse_unknown(table, _KEYS)
    mechanism = mechanisms.by_name(fields.text(table, "mechanism"))
    rows = table.get("attribute")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ProfileError("attribute", "give one [[attribute]] table or more")
    content, epsilon = mechanism.content(rows), _epsilon(table)
    least_width = max(DEFAULT_WIDTH, mechanism.symbols(content, epsilon))
    profile = Profile(
        name=fields.name(table, "name"),
        mechanism=mechanism.name,
        epsilon_q20=epsilon,
        width=fields.integer(table, "width", 2, MAX_WIDTH, least_width),
        seed=fields.integer(table, "seed", 0, 2**32 - 1),
        quota=fields.integer(table, "quota", 1, 10**6),
        period=fields.integer(table, "period", 1, 10**8),
        content=content,
        lifetime=fields.integer(table, "lifetime", 1, 2**48 - 1) if "lifetime" in table else None,
    )
    _check_size(profile)
    _check_wisdom(profile, mechanism, table)
    return profile


def _check_size(profile: Profile) -> None:
    if profile.width < profile.k:
        raise ProfileError("width", f"{profile.width} is less than the {profile.k} symbols it must hold")
    try:
        _ = profile.rule
    except PeelError as error:
        raise ProfileError("epsilon", str(error)) from error


def _check_wisdom(profile: Profile, mechanism: mechanisms.Mechanism, table: Mapping[str, Any]) -> None:
    """Refuse what another mechanism does better in every respect, unless the file says that it knows."""
    forced = table.get("force_krr", False)
    if not isinstance(forced, bool):
        raise ProfileError("force_krr", f"must be true or false, not {forced!r}")
    reservation = mechanism.reservation(profile.content, profile.epsilon_q20)
    if reservation and not forced:
        raise ProfileError("mechanism", f'{reservation}; use mechanism = "hashing", or say force_krr = true')


def _epsilon(table: Mapping[str, Any]) -> int:
    epsilon = fields.decimal(table, "epsilon")
    units = int(epsilon * EPSILON_ONE) if 0 < epsilon <= 16 else 0  # rounded down: never more than asked for
    if units == 0:
        raise ProfileError("epsilon", f"must be above 0 (at least 2^-20) and at most 16, not {epsilon}")
    return units
