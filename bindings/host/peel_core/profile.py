# SPDX-License-Identifier: MIT
"""The profile: what a fleet's devices and its gateway agree on (SPEC section 10)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from peel_core.errors import PeelError
from peel_core.primitives import EPSILON_ONE, MAX_WIDTH, MECHANISMS, hash_
from peel_core.primitives import rule as core_rule

DEFAULT_WIDTH = 48
_MICRO = 10**6
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_KEYS = {"name", "mechanism", "epsilon", "width", "seed", "quota", "period", "attribute"}


class ProfileError(ValueError):
    """A profile that cannot be used.

    Attributes
    ----------
    key : str
        The key at fault, such as ``attribute[2].low``.
    """

    def __init__(self, key: str, problem: str) -> None:
        self.key = key
        super().__init__(f"{key}: {problem}")


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
        return self.low_micro / _MICRO

    @property
    def high(self) -> float:
        """Upper end of the range, in the unit."""
        return self.high_micro / _MICRO


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A validated profile. Make one with :func:`load_profile` or :func:`parse_profile`.

    ``attributes`` is empty for kRR, ``categories`` for Harmony; ``subject`` names the attribute whose categories kRR counts.
    """

    name: str
    mechanism: str
    epsilon_q20: int
    width: int
    seed: int
    quota: int
    period: int
    attributes: tuple[Attribute, ...] = ()
    subject: str = ""
    categories: tuple[str, ...] = ()

    @property
    def k(self) -> int:
        """How many attributes, or categories."""
        return len(self.attributes) or len(self.categories)

    @property
    def epsilon(self) -> float:
        """The budget of one report."""
        return self.epsilon_q20 / EPSILON_ONE

    @property
    def mechanism_id(self) -> int:
        """The mechanism's number in a frame."""
        return MECHANISMS[self.mechanism]

    @cached_property
    def rule(self) -> int:
        """The rule R in Q31 (SPEC section 5)."""
        return core_rule(self.epsilon_q20, 2 if self.mechanism == "harmony" else self.k)

    @property
    def frame_bytes(self) -> int:
        """Size of a sealed frame."""
        return 28 + (self.width + 3) // 5

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
        ]
        lines += [f"attribute={a.name}|{a.unit}|{a.low_micro}|{a.high_micro}" for a in self.attributes]
        if self.categories:
            lines.append(f"attribute={self.subject}")
            lines += [f"category={category}" for category in self.categories]
        return "".join(line + "\n" for line in lines)

    @cached_property
    def id(self) -> int:
        """The 32-bit profile id."""
        return int.from_bytes(hash_("peel/1 profile", self.canonical().encode(), 4), "little")


def load_profile(path: Path | str) -> Profile:
    """Read a TOML profile. Errors name the file and the key."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
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
    _refuse_unknown(table, _KEYS, "")
    mechanism = _text(table, "mechanism")
    if mechanism not in MECHANISMS:
        raise ProfileError("mechanism", f"{mechanism!r} is not one of {', '.join(MECHANISMS)}")
    rows = table.get("attribute")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ProfileError("attribute", "give one [[attribute]] table or more")
    attributes: tuple[Attribute, ...] = ()
    subject = ""
    categories: tuple[str, ...] = ()
    if mechanism == "harmony":
        attributes = tuple(_attribute(row, f"attribute[{i}]") for i, row in enumerate(rows))
        _distinct([a.name for a in attributes], "attribute")
    else:
        subject, categories = _categorical(rows)
    profile = Profile(
        name=_name(table, "name", ""),
        mechanism=mechanism,
        epsilon_q20=_epsilon(table),
        width=_integer(table, "width", 2, MAX_WIDTH, max(DEFAULT_WIDTH, len(attributes) or len(categories))),
        seed=_integer(table, "seed", 0, 2**32 - 1),
        quota=_integer(table, "quota", 1, 10**6),
        period=_integer(table, "period", 1, 10**8),
        attributes=attributes,
        subject=subject,
        categories=categories,
    )
    _check_size(profile)
    return profile


def _check_size(profile: Profile) -> None:
    what = "attribute" if profile.attributes else "category"
    if not 2 <= profile.k <= MAX_WIDTH:
        raise ProfileError(what, f"a profile has 2 to {MAX_WIDTH} of them, this one {profile.k}")
    if profile.width < profile.k:
        raise ProfileError("width", f"{profile.width} is less than the {profile.k} symbols it must hold")
    try:
        _ = profile.rule
    except PeelError as error:
        raise ProfileError("epsilon", str(error)) from error


def _refuse_unknown(table: Mapping[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise ProfileError(f"{where}{key}", f"unknown key; known are {', '.join(sorted(known))}")


def _required(table: Mapping[str, Any], key: str, where: str = "") -> Any:
    if key not in table:
        raise ProfileError(f"{where}{key}", "is missing")
    return table[key]


def _text(table: Mapping[str, Any], key: str, where: str = "") -> str:
    value = _required(table, key, where)
    if not isinstance(value, str):
        raise ProfileError(f"{where}{key}", f"must be text, not {value!r}")
    return value


def _name(table: Mapping[str, Any], key: str, where: str) -> str:
    name = _text(table, key, where)
    if not _NAME.fullmatch(name):
        raise ProfileError(f"{where}{key}", f"{name!r}: use 1 to 32 of a-z, 0-9 and '_', starting with a letter")
    return name


def _integer(table: Mapping[str, Any], key: str, low: int, high: int, default: int | None = None) -> int:
    value = table.get(key, default)
    if value is None:
        raise ProfileError(key, "is missing")
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ProfileError(key, f"must be a whole number from {low} to {high}, not {value}")
    return value


def _decimal(table: Mapping[str, Any], key: str, where: str = "") -> Decimal:
    value = _required(table, key, where)
    if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
        raise ProfileError(f"{where}{key}", f"must be a number, not {value!r}")
    number = Decimal(str(value))
    if not number.is_finite():
        raise ProfileError(f"{where}{key}", "must be finite")
    return number


def _epsilon(table: Mapping[str, Any]) -> int:
    epsilon = _decimal(table, "epsilon")
    units = int(epsilon * EPSILON_ONE) if 0 < epsilon <= 16 else 0  # rounded down: never more than asked for
    if units == 0:
        raise ProfileError("epsilon", f"must be above 0 (at least 2^-20) and at most 16, not {epsilon}")
    return units


def _micro(table: Mapping[str, Any], key: str, where: str) -> int:
    value = _decimal(table, key, where)
    if abs(value) > 10**12:
        raise ProfileError(f"{where}{key}", f"must lie within ±10^12, not {value}")
    scaled = value * _MICRO
    if scaled != int(scaled):
        raise ProfileError(f"{where}{key}", f"{value} has more than six decimals")
    return int(scaled)


def _plain(text: str, key: str, least: int) -> str:
    if not least <= len(text.encode()) <= 32:
        raise ProfileError(key, f"{text!r} must have {least} to 32 bytes of UTF-8")
    if "|" in text or any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text):
        raise ProfileError(key, f"{text!r} must not contain '|' or control characters")
    return text


def _attribute(row: Mapping[str, Any], where: str) -> Attribute:
    _refuse_unknown(row, {"name", "unit", "low", "high"}, f"{where}.")
    low, high = _micro(row, "low", f"{where}."), _micro(row, "high", f"{where}.")
    if low >= high:
        raise ProfileError(f"{where}.low", f"{row['low']} is not below high = {row['high']}")
    unit = _plain(_text(row, "unit", f"{where}.") if "unit" in row else "", f"{where}.unit", 0)
    return Attribute(_name(row, "name", f"{where}."), unit, low, high)


def _categorical(rows: list[dict[str, Any]]) -> tuple[str, tuple[str, ...]]:
    if len(rows) != 1:
        raise ProfileError("attribute", f"kRR counts the categories of one attribute, not of {len(rows)}")
    row, where = rows[0], "attribute[0]."
    _refuse_unknown(row, {"name", "categories"}, where)
    categories = _required(row, "categories", where)
    if not isinstance(categories, list) or not all(isinstance(c, str) for c in categories):
        raise ProfileError(f"{where}categories", "must be a list of texts")
    for i, category in enumerate(categories):
        _plain(category, f"{where}categories[{i}]", 1)
    _distinct(categories, f"{where}categories")
    return _name(row, "name", where), tuple(categories)


def _distinct(names: list[str], key: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ProfileError(key, f"{name!r} appears twice")
