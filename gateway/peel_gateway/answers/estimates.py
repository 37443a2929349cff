# SPDX-License-Identifier: MIT
"""Estimates as plain tables. Their fields are explained in docs/estimates.md."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.answers.groups import WHOLE_FLEET, Group
from peel_gateway.answers.table import QueryError, Table, moment
from peel_gateway.estimation.estimate import Choice, Estimate, Estimates, Figure, Interval, anonymous, estimates
from peel_gateway.fleet.registry import device_label
from peel_gateway.model.tables import DeviceTallyTable
from peel_gateway.storage.store import Archive

__all__ = ["ENOUGH", "MOST_FIGURES", "EstimateQuestion", "estimate_tables", "figure_count"]

ENOUGH = 0.05
"""Half an interval, as a part of the range: what is narrower will do for most."""
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
    """The answer: one table for the whole time, or one per bucket; the same for each group where groups are asked for."""
    profile = question.profile
    since, until, seconds = question.since, question.until, question.bucket_seconds
    sums = store.tallies(profile.id, since=since, until=until, bucket_seconds=seconds)
    _refuse_flood(question, sums.bucket)
    tallies = anonymous(sums)
    if question.devices:  # only now: it reads the log
        tallies = store.device_tallies(profile.id, since=since, until=until, bucket_seconds=seconds)
    if question.groups is None:
        common = WHOLE_FLEET | {"withdrawn_devices": store.withdrawn_devices(profile.id)}
        return _part_tables(store, question, share_cap, tallies, common)
    found: list[Table] = []
    for group in question.groups:
        part = group.part_of(tallies)
        gone = len(np.unique(part.device[part.withdrawn != 0]))
        found += _part_tables(store, question, share_cap, part, group.table() | {"withdrawn_devices": gone})
    return found


def _part_tables(
    store: Archive, question: EstimateQuestion, share_cap: float, tallies: DeviceTallyTable, common: Table
) -> list[Table]:
    """The tables of some devices' tallies, with what they have in common."""
    now = time.time()
    rate = _rate(store, question, int((tallies.plus + tallies.minus).sum()), now)
    rows = estimates(
        question.profile,
        tallies,
        question.bucket_seconds,
        share_cap=share_cap,
        known=question.devices,
        choice=question.choice,
    )
    return [_estimates_table(row, rate) | common | {"computed": moment(now), "rate": rate} for row in rows]


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


def _rate(store: Archive, question: EstimateQuestion, reports: int, now: float) -> float | None:
    """Reports per second in the time asked for, as far as anything had been heard by then; None before the first one."""
    first = store.first_received()
    if first is None:
        return None
    begin = max(question.since or 0, first)
    end = min(question.until or now, now)
    return reports / (end - begin) if end - begin >= 1 else None


def _until_enough(row: Estimate, rate: float | None, reports: int) -> Table:
    """What is missing to an interval of 5% of the range to either side, which narrows with the root of the reports behind it."""
    low, high = row.published.unclipped.low, row.published.unclipped.high
    if low is None or high is None or not row.n:
        return {"half_width": None, "reports_missing": None, "seconds_missing": None}
    half = (high - low) / 2 / (row.range[1] - row.range[0])
    missing = max(0, ceil(row.n * ((half / ENOUGH) ** 2 - 1)))
    mine = rate * row.n / reports if rate else None
    return {
        "half_width": half,
        "reports_missing": missing,
        "seconds_missing": 0.0 if not missing else missing / mine if mine else None,
    }


def _estimates_table(found: Estimates, rate: float | None) -> Table:
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
        "estimates": [_estimate_table(row) | _until_enough(row, rate, found.n) for row in found.estimates],
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
