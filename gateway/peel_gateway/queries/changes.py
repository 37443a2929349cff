# SPDX-License-Identifier: MIT
"""The change of estimates between two spans of time, as tables and as sentences."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import floor, log10

from peel_core import Profile
from peel_gateway.estimation.estimate import Change, Choice, Difference, changes
from peel_gateway.queries import responses
from peel_gateway.queries.estimates import MOST_FIGURES, Tag, interval_table, tallies_of
from peel_gateway.queries.parameters import QueryError
from peel_gateway.queries.responses import moment
from peel_gateway.storage.store import Archive

__all__ = ["ChangeQuestion", "amount", "change_count", "change_table"]

_MOST_DIGITS = 6


@dataclass(frozen=True)
class ChangeQuestion:
    """A query for the changes of one profile. Its spans are in Unix seconds; None means now."""

    profile: Profile
    earlier: tuple[float, float]
    later: tuple[float, float | None]
    devices: bool
    """Whether to read the sums per device."""
    over_devices: bool
    """Whether to return changes over devices too; needs `devices`."""
    choice: Choice
    tag: Tag | None

    @property
    def key(self) -> tuple[object, ...]:
        """The key in the cache."""
        return (
            self.profile.id,
            self.earlier,
            self.later,
            self.devices,
            self.over_devices,
            self.choice,
            self.tag,
        )


def change_table(store: Archive, question: ChangeQuestion, share_cap: float) -> responses.Changes:
    """Return the changes of a profile's estimates."""
    if (count := question.choice.count(question.profile)) > MOST_FIGURES:
        raise QueryError(f"top: {count} changes are more than {MOST_FIGURES}; ask for fewer, or for one name")
    before, after = (
        tallies_of(store, question.profile, *span, devices=question.devices)
        for span in (question.earlier, question.later)
    )
    tag = question.tag
    if tag is not None:
        before, after = tag.part_of(before), tag.part_of(after)
    now = time.time()
    found = changes(
        question.profile, before, after, share_cap=share_cap, known=question.over_devices, choice=question.choice
    )
    counts = [int((each.plus + each.minus)[each.withdrawn == 0].sum()) for each in (before, after)]
    return {
        "profile": question.profile.name,
        "tag": tag.name if tag else None,
        "members": len(tag.members) if tag else None,
        "note": tag.note if tag else None,
        "since": moment(question.later[0]),
        "until": moment(now if question.later[1] is None else question.later[1]),
        "before_since": moment(question.earlier[0]),
        "before_until": moment(question.earlier[1]),
        "n_before": counts[0],
        "n_after": counts[1],
        "figures": question.profile.size,
        "computed": moment(now),
        "changes": [_change_row(row) for row in found],
    }


def change_count(table: responses.Changes) -> int:
    """Return the number of changes in a table."""
    return len(table["changes"])


def _change_row(row: Change) -> responses.Change:
    name, unit = row.about.name, row.about.unit
    return {
        **_difference_table(row.over_reports, name, unit),
        "name": name,
        "unit": unit,
        "range": [row.about.low, row.about.high],
        "n_before": row.n_before,
        "n_after": row.n_after,
        "over_devices": None
        if row.over_devices is None
        else _difference_table(row.over_devices, f"{name} over devices", unit),
    }


def _difference_table(found: Difference, name: str, unit: str) -> responses.Difference:
    """Return a difference, with a sentence that calls it `name`."""
    return {
        **interval_table(found.difference),
        "before": interval_table(found.before),
        "after": interval_table(found.after),
        "visible": _direction(found) != 0,
        "sentence": _sentence(found, name, unit),
    }


def _direction(found: Difference) -> int:
    """Return 1 for a rise, -1 for a fall, 0 without an interval or if it includes zero."""
    low, high = found.difference.low, found.difference.high
    return 0 if low is None or high is None else int(low > 0) - int(high < 0)


def _sentence(found: Difference, name: str, unit: str) -> str:
    value, low, high = found.difference.value, found.difference.low, found.difference.high
    if value is None or low is None or high is None:
        return f"{name}: no change is known, because one of the spans has no report"
    if low > 0:
        return f"{name} rose by {amount(value, low, high, unit)}"
    if high < 0:
        return f"{name} fell by {amount(-value, -high, -low, unit)}"
    return f"no change of {name} is visible: {amount(value, low, high, unit)}"


def amount(value: float, low: float, high: float, unit: str) -> str:
    """Return a value with its unit and interval, to as many digits as the interval's width allows: 1.2 °C (0.4 to 2.0)."""
    half = (high - low) / 2
    digits = min(_MOST_DIGITS, max(0, -floor(log10(half)))) if half > 0 else _MOST_DIGITS
    shown = [f"{round(each, digits) + 0.0:.{digits}f}" for each in (value, low, high)]
    return f"{shown[0]}{f' {unit}' if unit else ''} ({shown[1]} to {shown[2]})"
