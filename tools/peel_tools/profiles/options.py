# SPDX-License-Identifier: MIT
"""The options that name attributes on the command line, and the command line that makes a given profile."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from functools import wraps
from typing import Any

import click

from peel_core.kinds import KINDS, Attribute
from peel_core.odds import EPSILON_MAX, EPSILON_ONE
from peel_tools.profiles.drafts import Row

__all__ = ["ATTRIBUTE_OPTIONS", "attribute_options", "check_epsilon", "options_of"]

_FORMS = {
    "mean": "NAME:LOW:HIGH[:UNIT]",
    "above": "NAME:T1,T2[:UNIT]",
    "ladder": "NAME:LOW:HIGH:RUNGS[:UNIT]",
    "category": "NAME:A,B,C",
    "hashed": "NAME:COUNT or NAME:A,B,C",
}
_HELP = {
    "mean": "The mean of a number in a range; repeat for more.",
    "above": "The share of readings above each threshold. The unit may come from another attribute of the reading.",
    "ladder": "The distribution of a number: RUNGS thresholds at equal distances, or a list of them such as 500,800,1200.",
    "category": "The shares of a few categories.",
    "hashed": "The shares of many categories, by their number or their names.",
}
ATTRIBUTE_OPTIONS = tuple(f"--{kind}" for kind in _FORMS)
_WEIGHT = re.compile(r"@(-?\d+(?:\.\d+)?)$")


def attribute_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options for attributes to a command, which gets all of them as `attributes`, a list of rows."""

    @wraps(command)
    def with_attributes(*arguments: Any, force_category: bool, **named: Any) -> None:
        texts = [(kind, text) for kind in _FORMS for text in named.pop(f"kind_{kind}")]
        rows = _with_units([_row(kind, text, force_category) for kind, text in texts])
        command(*arguments, attributes=rows, **named)

    wrapped = with_attributes
    force = click.option("--force-category", is_flag=True, help="Allow --category where --hashed is better.")
    options = [
        click.option(f"--{kind}", f"kind_{kind}", multiple=True, metavar=form, help=_HELP[kind])
        for kind, form in _FORMS.items()
    ]
    for option in (force, *reversed(options)):
        wrapped = option(wrapped)
    return wrapped


def check_epsilon(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    """Return epsilon as it was written. A profile rounds it down to a multiple of 2^-20."""
    try:
        inside = 1 <= Decimal(text) * EPSILON_ONE <= EPSILON_MAX
    except InvalidOperation:
        inside = False
    if not inside:
        raise click.BadParameter(
            f"must be a number above 0 (at least 2^-20) and at most {EPSILON_MAX // EPSILON_ONE}, got {text!r}"
        )
    return text


def _row(kind: str, text: str, force: bool) -> dict[str, object]:
    """Return the [[attribute]] table that an option describes."""
    found = _WEIGHT.search(text)
    plain = text[: found.start()] if found else text
    name, *parts = plain.split(":")
    try:
        own = _PARSERS[kind](parts)
    except (ValueError, InvalidOperation):
        raise click.BadParameter(f"{text!r}: write {_FORMS[kind]}", param_hint=f"--{kind}") from None
    row = {"name": name, "kind": kind, **own}
    if found:
        row["weight"] = Decimal(found[1]) if "." in found[1] else int(found[1])
    return row | {"force_category": True} if force and kind == "category" else row


def _mean(parts: Sequence[str]) -> dict[str, object]:
    low, high, unit = _padded(parts, 2)
    return {"unit": unit, "low": _number(low), "high": _number(high)}


def _above(parts: Sequence[str]) -> dict[str, object]:
    thresholds, unit = _padded(parts, 1)
    return {"unit": unit, "thresholds": _numbers(thresholds)}


def _ladder(parts: Sequence[str]) -> dict[str, object]:
    low, high, rungs, unit = _padded(parts, 3)
    return {
        "unit": unit,
        "low": _number(low),
        "high": _number(high),
        "rungs": int(rungs) if "," not in rungs else _numbers(rungs),
    }


def _category(parts: Sequence[str]) -> dict[str, object]:
    return {"categories": ":".join(_some(parts)).split(",")}


def _hashed(parts: Sequence[str]) -> dict[str, object]:
    text = ":".join(_some(parts))
    return {"domain": int(text)} if text.isdecimal() else {"categories": _names(text)}


_PARSERS: dict[str, Callable[[Sequence[str]], dict[str, object]]] = {
    "mean": _mean,
    "above": _above,
    "ladder": _ladder,
    "category": _category,
    "hashed": _hashed,
}


def _padded(parts: Sequence[str], required: int) -> list[str]:
    """Return the required parts and the unit, which may contain colons and may be absent."""
    if len(parts) < required:
        raise ValueError
    return [*parts[:required], ":".join(parts[required:])]


def _some(parts: Sequence[str]) -> Sequence[str]:
    if not parts:
        raise ValueError
    return parts


def _names(text: str) -> list[str]:
    """Return names; one name alone is a mistyped number."""
    if "," not in text:
        raise ValueError
    return text.split(",")


def _number(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError
    return number


def _numbers(text: str) -> list[Decimal]:
    return [_number(each) for each in text.split(",")]


def _with_units(rows: Sequence[dict[str, object]]) -> list[Row]:
    """Fill in the units of thresholds from other attributes of the same reading."""
    known = {row["name"]: row["unit"] for row in rows if row.get("unit")}
    return [row | {"unit": known.get(row["name"], "")} if row.get("unit") == "" else row for row in rows]


def options_of(attributes: Iterable[Attribute], epsilon_q20: int) -> Iterator[str]:
    """Yield the options that make these attributes, as typed in a shell.

    The order of kinds is fixed, so attributes of different kinds are sorted by kind.
    """
    found = list(attributes)
    for kind in _FORMS:
        for attribute in (each for each in found if each.kind == kind):
            weight = "" if attribute.weight == 1 else f"@{attribute.weight}"
            yield f"--{kind} {shlex.quote(f'{attribute.name}:{_written(attribute)}{weight}')}"
    if any(KINDS[each.kind].reservation(each, epsilon_q20) for each in found):
        yield "--force-category"


def _written(attribute: Attribute) -> str:
    unit = f":{attribute.unit}" if attribute.unit else ""
    thresholds = ",".join(map(_short, attribute.thresholds))
    ends = f"{_short(attribute.low)}:{_short(attribute.high)}"
    names = ",".join(attribute.categories)
    return {
        "mean": f"{ends}{unit}",
        "above": f"{thresholds}{unit}",
        "ladder": f"{ends}:{thresholds}{unit}",
        "category": names,
        "hashed": names or str(attribute.domain),
    }[attribute.kind]


def _short(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")
