# SPDX-License-Identifier: MIT
"""Estimates as plain tables. Their fields are explained in docs/how-it-works.md."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.estimation.estimate import Choice, Estimate, Estimates, Figure, Interval, anonymous, estimates
from peel_gateway.fleet.registry import device_label
from peel_gateway.model.tables import DeviceTallyTable
from peel_gateway.queries.groups import WHOLE_FLEET, Group
from peel_gateway.queries.table import QueryError, Table, moment
from peel_gateway.storage.store import Archive

__all__ = ["ENOUGH", "MOST_FIGURES", "WIDEST", "EstimateQuestion", "estimate_tables", "figure_count", "with_plan"]

ENOUGH = 0.05
"""Half an interval, as a part of the range: what is narrower will do for most."""
WIDEST = 0.25
"""Half an interval, as a part of the range: with a wider one a value says nearly nothing, and reports are too few."""
MOST_FIGURES = 100_000
"""In one answer: some 200 MB of tables."""


@dataclass(frozen=True)
class EstimateQuestion:
    """What is asked of one profile."""

    profile: Profile
    since: float | None
    until: float | None
    bucket_seconds: int | None
    devices: bool
    choice: Choice
    groups: tuple[Group, ...] | None = None
    """Whose reports; None for the whole fleet's."""

    @property
    def key(self) -> tuple[object, ...]:
        """What tells it from others."""
        return (self.profile.id, self.since, self.until, self.bucket_seconds, self.devices, self.choice, self.groups)


def estimate_tables(store: Archive, question: EstimateQuestion, share_cap: float) -> list[Table]:
    """Return one table for the whole time, or one per bucket; the same for each group where groups are asked for."""
    profile = question.profile
    since, until, seconds = question.since, question.until, question.bucket_seconds
    sums = store.tallies(profile.id, since=since, until=until, bucket_seconds=seconds)
    _refuse_flood(question, sums.bucket)
    tallies = anonymous(sums)
    if question.devices:  # only now: it reads the log
        tallies = store.device_tallies(profile.id, since=since, until=until, bucket_seconds=seconds)
    if question.groups is None:
        common = WHOLE_FLEET | {"withdrawn_devices": store.withdrawn_devices(profile.id)}
        return _part_tables(question, share_cap, tallies, common)
    found: list[Table] = []
    for group in question.groups:
        part = group.part_of(tallies)
        gone = len(np.unique(part.device[part.withdrawn != 0]))
        found += _part_tables(question, share_cap, part, group.table() | {"withdrawn_devices": gone})
    return found


def _part_tables(question: EstimateQuestion, share_cap: float, tallies: DeviceTallyTable, common: Table) -> list[Table]:
    """Return the tables of some devices' tallies, with the fields that they have in common."""
    rows = estimates(
        question.profile,
        tallies,
        question.bucket_seconds,
        share_cap=share_cap,
        known=question.devices,
        choice=question.choice,
    )
    computed = moment(time.time())
    return [_estimates_table(row) | common | {"computed": computed} for row in rows]


def figure_count(tables: list[Table]) -> int:
    """How many figures an answer lists."""
    return sum(len(table["estimates"]) for table in tables)


def _refuse_flood(question: EstimateQuestion, bucket: npt.NDArray[np.int64]) -> None:
    """A year of five minutes each, of hundreds of attributes, would fill the memory."""
    buckets = len(np.unique(bucket)) if question.bucket_seconds else 1
    parts = 1 if question.groups is None else len(question.groups)
    figures = buckets * parts * question.choice.count(question.profile)
    if figures > MOST_FIGURES:
        raise QueryError(
            f"bucket: {buckets} buckets{f' of {parts} groups' if parts > 1 else ''} have {figures} figures, "
            f"an answer has at most {MOST_FIGURES}; "
            "ask for larger buckets, a shorter time, or one name"
        )


def with_plan(table: Table, rate: float | None) -> Table:
    """Return a table of estimates with how long it takes until intervals are narrow enough.

    `rate` is how many reports per second the devices are planned to send; None where that does not matter.
    """

    def seconds(row: Table, reports: int | None) -> float | None:
        if not rate or reports is None:
            return 0.0 if reports == 0 else None
        return float(reports / (rate * row["n"] / table["n"]))

    rows = [
        row
        | {
            "seconds_missing": seconds(row, row["reports_missing"]),
            "seconds_to_value": seconds(row, _missing(row["n"], row["half_width"], WIDEST)),
        }
        for row in table["estimates"]
    ]
    return table | {"rate": rate, "estimates": rows}


def _missing(reports: int, half_width: float | None, goal: float) -> int | None:
    """Return how many more reports narrow an interval down to the goal: it narrows with the root of the reports behind it."""
    return None if half_width is None else max(0, ceil(reports * ((half_width / goal) ** 2 - 1)))


def _width_table(row: Estimate) -> Table:
    """Return how wide an interval is, and how many reports are missing to a narrow one."""
    low, high = row.published.unclipped.low, row.published.unclipped.high
    half = None if low is None or high is None else (high - low) / 2 / (row.range[1] - row.range[0])
    return {
        "half_width": half,
        "reports_missing": _missing(row.n, half, ENOUGH),
        "too_few": half is None or half > WIDEST,
    }


def _estimates_table(found: Estimates) -> Table:
    return {
        "profile": found.profile,
        "mechanism": found.mechanism,
        "start": None if found.start is None else moment(found.start),
        "seconds": found.seconds,
        "n": found.n,
        "devices": found.devices,
        "withdrawn": found.withdrawn,
        "share_cap": found.share_cap,
        "figures": found.figures,
        "estimates": [_estimate_table(row) | _width_table(row) for row in found.estimates],
    }


def _estimate_table(row: Estimate) -> Table:
    return {
        "name": row.name,
        "unit": row.unit,
        "range": list(row.range),
        "n": row.n,
        "devices": row.devices,
        **_figure_table(row.published),
        "over_devices": None if row.over_devices is None else _figure_table(row.over_devices),
        "plain": _interval_table(row.plain),
        "withdrawn": row.withdrawn,
        "before_withdrawal": _interval_table(row.before),
    }


def _figure_table(figure: Figure) -> Table:
    return {
        "over": figure.over,
        **_interval_table(figure.within),
        "edge": figure.edge,
        "unclipped": _interval_table(figure.unclipped),
        "n_effective": figure.effective,
        "influence": figure.influence,
        "influence_share": figure.influence_share,
        "influence_device": None if figure.influence_device is None else device_label(figure.influence_device),
    }


def _interval_table(interval: Interval) -> Table:
    return {"value": interval.value, "low": interval.low, "high": interval.high}
