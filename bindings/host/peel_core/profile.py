# SPDX-License-Identifier: MIT
"""The profile: the parameters shared by a fleet's devices and its gateway (SPEC section 10)."""

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

    Properties that depend on the mechanism come from :mod:`peel_core.mechanisms`.
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
    """The last number that a device may use; None without a limit."""

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
        """The categories' names in index order; empty for numeric mechanisms, and if the categories have no names."""
        return self.content.categories

    @property
    def domain(self) -> int:
        """The number of categories; 0 for numeric mechanisms."""
        return self.content.domain

    @property
    def size(self) -> int:
        """The number of estimates: attributes, or categories."""
        return self.domain or len(self.attributes)

    def label(self, index: int) -> str:
        """Return the name of an attribute or category, or its index if it has no name."""
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
        """Whether a report is made from one category, not from a number per attribute."""
        return self._mechanism.categorical

    @property
    def assigns(self) -> bool:
        """Whether a report number assigns the attribute or hash of the report."""
        return self._mechanism.assigns

    @property
    def hash_domain(self) -> int:
        """The number of categories that are hashed into the k symbols; 0 without hashing."""
        return self.domain if self._mechanism.hashes else 0

    @cached_property
    def k(self) -> int:
        """The number of indices of a codeword: attributes, categories, or the symbols that categories are hashed into."""
        return self._mechanism.symbols(self.content.size, self.epsilon_q20)

    @property
    def readings(self) -> int:
        """The number of readings in a report."""
        return self._mechanism.readings(self.k)

    @property
    def assignments(self) -> int:
        """The number of values that a report number can assign; 1 if it assigns nothing."""
        return self._mechanism.assignments(self.content, self.k)

    @property
    def cells(self) -> int:
        """The number of cells that reports are counted in; see :meth:`cell`."""
        return self._mechanism.cells(self.content, self.k)

    def cell(self, assigned: Any, index: Any) -> Any:
        """Return the cell in which a report is counted, from its assigned value and its index (integers or arrays).

        The cell is the index, except for local hashing, where an answer needs its hash: ``assigned * k + index``.
        """
        return assigned * self.k + index if self._mechanism.hashes else index

    @property
    def epsilon(self) -> float:
        """The privacy budget of one report."""
        return self.epsilon_q20 / EPSILON_ONE

    @cached_property
    def rule(self) -> int:
        """The rule R in Q31 (SPEC section 5)."""
        return self.rule_at(self.epsilon_q20)

    def rule_at(self, epsilon_q20: int) -> int:
        """Return the rule for another epsilon."""
        return core_rule(epsilon_q20, self._mechanism.outcomes(self.k))

    @property
    def likeliest(self) -> float:
        """The probability of the most probable outcome of an honest coin."""
        keep = self.rule / RULE_ONE
        return keep + (1 - keep) / self._mechanism.outcomes(self.k)

    @property
    def cap(self) -> float:
        """The distance that one forged report can move an estimate, in honest reports: about (e^eps + outcomes - 1) / (e^eps - 1)."""
        return RULE_ONE / self.rule

    @property
    def frame_bytes(self) -> int:
        """The size of a sealed frame."""
        return int(lib.peel_frame_bytes(self.width, 0))

    @property
    def burst(self) -> int:
        """The most numbers that a device can take at once (SPEC section 10)."""
        return burst_size(self.quota)

    @property
    def interval_s(self) -> float:
        """Seconds between the reports of a device that uses its quota evenly, in whole milliseconds as devices count."""
        return even_interval(self.quota, self.period)

    def table(self) -> dict[str, Any]:
        """Return the profile as a device's bundle contains it."""
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
        """Return the canonical form. ``id`` is its digest."""
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
    """Return the most numbers that a device with this quota takes at once: an eighth of it (SPEC section 10)."""
    return max(1, quota // 8)


def even_interval(quota: int, period: int) -> float:
    """Return the seconds between reports that use a quota evenly. A shorter interval cannot be kept for long."""
    return math.ceil((1000 * period + 1) / (quota + 1 - burst_size(quota))) / 1000


def load_profile(path: Path | str) -> Profile:
    """Read a TOML profile. Errors name the file and the key."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(str(path), f"cannot be read: {error}") from error
    try:
        return parse_profile(text)
    except ProfileError as error:
        raise ProfileError(f"{path}: {error.key}", str(error).removeprefix(f"{error.key}: ")) from error


def parse_profile(text: str) -> Profile:
    """Parse a profile from TOML text. ``width`` defaults to the larger of 48 and k."""
    try:
        table = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError("profile", f"is not TOML: {error}") from error
    return make_profile(table)


def make_profile(table: Mapping[str, Any]) -> Profile:
    """Make a profile from a table with the keys of the TOML file."""
    fields.refuse_unknown(table, _KEYS)
    mechanism = mechanisms.by_name(fields.text(table, "mechanism"))
    rows = table.get("attribute")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ProfileError("attribute", "at least one [[attribute]] table is required")
    content, epsilon = mechanism.content(rows), _epsilon(table)
    least_width = max(DEFAULT_WIDTH, mechanism.symbols(content.size, epsilon))
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
        raise ProfileError("width", f"must be at least the number of symbols, {profile.k}, got {profile.width}")
    try:
        _ = profile.rule
    except PeelError as error:
        raise ProfileError("epsilon", str(error)) from error


def _check_wisdom(profile: Profile, mechanism: mechanisms.Mechanism, table: Mapping[str, Any]) -> None:
    """Refuse a profile for which another mechanism is better in every respect, unless the file forces it."""
    forced = table.get("force_krr", False)
    if not isinstance(forced, bool):
        raise ProfileError("force_krr", f"must be true or false, not {forced!r}")
    reservation = mechanism.reservation(profile.content, profile.epsilon_q20)
    if reservation and not forced:
        raise ProfileError("mechanism", f'{reservation}; use mechanism = "hashing", or set force_krr = true')


def _epsilon(table: Mapping[str, Any]) -> int:
    epsilon = fields.decimal(table, "epsilon")
    units = int(epsilon * EPSILON_ONE) if 0 < epsilon <= 16 else 0  # rounded down: never more than requested
    if units == 0:
        raise ProfileError("epsilon", f"must be above 0 (at least 2^-20) and at most 16, not {epsilon}")
    return units
