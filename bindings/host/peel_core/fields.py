# SPDX-License-Identifier: MIT
"""Read values of a profile table. Each function returns a checked value or raises an error that names the key."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

__all__ = [
    "ProfileError",
    "decimal",
    "distinct",
    "integer",
    "label",
    "micro",
    "name",
    "refuse_unknown",
    "required",
    "text",
]

MICRO = 10**6
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


class ProfileError(ValueError):
    """An invalid profile.

    Attributes
    ----------
    key : str
        The key at fault, such as ``attribute[2].low``.
    """

    def __init__(self, key: str, problem: str) -> None:
        self.key = key
        super().__init__(f"{key}: {problem}")


def refuse_unknown(table: Mapping[str, Any], known: Collection[str], where: str = "") -> None:
    """Refuse a table with a key that is not among ``known``."""
    for key in table:
        if key not in known:
            raise ProfileError(f"{where}{key}", f"unknown key; known keys are {', '.join(sorted(known))}")


def required(table: Mapping[str, Any], key: str, where: str = "") -> Any:
    """Return the value of a required key."""
    if key not in table:
        raise ProfileError(f"{where}{key}", "is missing")
    return table[key]


def text(table: Mapping[str, Any], key: str, where: str = "") -> str:
    """Return a string."""
    value = required(table, key, where)
    if not isinstance(value, str):
        raise ProfileError(f"{where}{key}", f"must be a string, not {value!r}")
    return value


def name(table: Mapping[str, Any], key: str, where: str = "") -> str:
    """Return the name of a profile or attribute."""
    found = text(table, key, where)
    if not _NAME.fullmatch(found):
        raise ProfileError(f"{where}{key}", f"{found!r}: use 1 to 32 of a-z, 0-9 and '_', starting with a letter")
    return found


def label(value: str, key: str, least: int) -> str:
    """Return a unit or category: ``least`` to 32 bytes of UTF-8 without control characters and ``|``."""
    if not least <= len(value.encode()) <= 32:
        raise ProfileError(key, f"{value!r} must have {least} to 32 bytes of UTF-8")
    if "|" in value or any(ord(c) < 32 or 127 <= ord(c) < 160 for c in value):
        raise ProfileError(key, f"{value!r} must not contain '|' or control characters")
    return value


def integer(
    table: Mapping[str, Any], key: str, low: int, high: int, default: int | None = None, where: str = ""
) -> int:
    """Return a whole number in [low, high]."""
    value = table.get(key, default)
    if value is None:
        raise ProfileError(f"{where}{key}", "is missing")
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ProfileError(f"{where}{key}", f"must be a whole number from {low} to {high}, not {value}")
    return value


def decimal(table: Mapping[str, Any], key: str, where: str = "") -> Decimal:
    """Return a finite number, exactly as it was written."""
    value = required(table, key, where)
    if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
        raise ProfileError(f"{where}{key}", f"must be a number, not {value!r}")
    number = Decimal(str(value))
    if not number.is_finite():
        raise ProfileError(f"{where}{key}", "must be finite")
    return number


def micro(table: Mapping[str, Any], key: str, where: str = "") -> int:
    """Return a number of up to six decimals, in millionths."""
    value = decimal(table, key, where)
    if abs(value) > 10**12:
        raise ProfileError(f"{where}{key}", f"must lie within ±10^12, not {value}")
    scaled = value * MICRO
    if scaled != int(scaled):
        raise ProfileError(f"{where}{key}", f"{value} has more than six decimals")
    return int(scaled)


def distinct(names: Sequence[str], key: str) -> None:
    """Refuse a list with duplicates."""
    seen: set[str] = set()
    for each in names:
        if each in seen:
            raise ProfileError(key, f"{each!r} appears twice. Rename one, or remove it.")
        seen.add(each)
