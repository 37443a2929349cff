# SPDX-License-Identifier: MIT
"""Estimates of the whole fleet, or of the devices with a tag. docs/reference.md explains the fields."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.estimation.distribution import QUANTILES, Distribution, distributions
from peel_gateway.estimation.estimate import Choice, Estimate, Estimates, Figure, Interval, anonymous, estimates
from peel_gateway.fleet.directory import DeviceDirectory
from peel_gateway.fleet.folder import device_label
from peel_gateway.model.tables import DeviceTallyTable
from peel_gateway.queries import responses
from peel_gateway.queries.parameters import QueryError
from peel_gateway.queries.responses import moment, moment_or_none
from peel_gateway.storage.store import Archive

__all__ = [
    "ENOUGH",
    "FEW",
    "LONGER",
    "MOST_FIGURES",
    "WIDEST",
    "EstimateQuestion",
    "Tag",
    "estimate_tables",
    "figure_count",
    "interval_table",
    "tags_of",
    "tallies_of",
    "window_name",
    "windows",
    "with_plan",
]

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))

LONGER = (6 * 3600, 24 * 3600, 7 * 86_400, 30 * 86_400)
"""Longer windows in seconds, used where a shorter one has too few reports."""


def windows(shortest: int) -> tuple[int, ...]:
    """Return the windows to try, in seconds: spans of time up to now, the shortest first."""
    return (shortest, *(seconds for seconds in LONGER if seconds > shortest))


def window_name(seconds: int) -> str:
    """Return a window in the largest unit that divides it: 3600 is "1h", 86400 is "1d"."""
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return f"{seconds // size}{unit}"


FEW = 10
"""A tag with fewer devices gets a warning: its estimate says nearly as much about each of them."""


@dataclass(frozen=True)
class Tag:
    """A tag (a floor, a zone, a customer) and the ids of the devices that have it now."""

    name: str
    members: frozenset[int]

    @property
    def note(self) -> str | None:
        """A warning if it has few devices, else None."""
        if len(self.members) >= FEW:
            return None
        count = f"{len(self.members)} device{'s' if len(self.members) > 1 else ''}"
        return f"only {count}: an estimate of so few says nearly as much about each of them as its own reports do"

    def response(self) -> responses.Tag:
        return {"tag": self.name, "members": len(self.members), "note": self.note}

    def part_of(self, tallies: DeviceTallyTable) -> DeviceTallyTable:
        """Return the rows of its devices."""
        rows = np.isin(tallies.device, np.fromiter(self.members, np.int64, len(self.members)))
        return tallies.at(rows)


def tags_of(devices: DeviceDirectory) -> list[Tag]:
    """Return all tags by name. A device is a member of each of its tags."""
    return [Tag(name, frozenset(ids.tolist())) for name, ids in devices.by_tag().items()]


ENOUGH = 0.05
"""Half an interval as a part of the range. A narrower one is good enough for most purposes."""

WIDEST = 0.25
"""Half an interval as a part of the range. With a wider one the value means little: there are too few reports."""

MOST_FIGURES = 100_000
"""Most figures in one response: about 200 MB of tables."""


@dataclass(frozen=True)
class EstimateQuestion:
    """A query for the estimates of one profile."""

    profile: Profile
    since: float | None
    until: float | None
    bucket_seconds: int | None
    devices: bool
    choice: Choice
    tags: tuple[Tag, ...] | None = None
    """None for the whole fleet."""
    above: float | None = None
    """Also the share of readings above this, of readings that have a ladder."""

    @property
    def members(self) -> npt.NDArray[np.int64] | None:
        """The devices of its tags, ascending; None for the whole fleet."""
        if self.tags is None:
            return None
        return np.array(sorted(frozenset().union(*(tag.members for tag in self.tags))), np.int64)

    @property
    def key(self) -> tuple[object, ...]:
        """The key in the cache."""
        return (
            self.profile.id,
            self.since,
            self.until,
            self.bucket_seconds,
            self.devices,
            self.choice,
            self.tags,
            self.above,
        )


def tallies_of(
    store: Archive, profile: Profile, since: float | None, until: float | None, *, devices: bool
) -> DeviceTallyTable:
    """Return the tallies of a span of time: of each device, from the log, or without devices, from the stored sums."""
    if devices:
        return store.device_tallies(profile.id, since=since, until=until)
    return anonymous(store.tallies(profile.id, since=since, until=until))


def estimate_tables(store: Archive, question: EstimateQuestion, share_cap: float) -> list[responses.Estimates]:
    """Return one table for the whole span, or one per bucket; with tags, the same for each of them."""
    profile = question.profile
    since, until, seconds = question.since, question.until, question.bucket_seconds
    if not question.devices or (seconds and _figures(question, _most_buckets(question, seconds)) > MOST_FIGURES):
        sums = store.tallies(profile.id, since=since, until=until, bucket_seconds=seconds)
        _refuse_flood(question, len(np.unique(sums.bucket)) if seconds else 1)
    else:
        _refuse_flood(question, 1)
    if not question.devices:
        return _part_tables(question, share_cap, anonymous(sums), None, store.withdrawn_devices(profile.id))
    found: dict[str | None, list[responses.Estimates]] = {}
    only, gone = question.members, store.withdrawn_devices(profile.id)
    for tallies in _tallies(store, question, only):
        for tag in question.tags or (None,):
            part = tallies if tag is None or question.tags == (tag,) else tag.part_of(tallies)
            withdrawn = gone if tag is None else _withdrawn(part)
            found.setdefault(tag.name if tag else None, []).extend(
                _part_tables(question, share_cap, part, tag, withdrawn)
            )
    return [table for tables in found.values() for table in tables]


def _tallies(
    store: Archive, question: EstimateQuestion, only: npt.NDArray[np.int64] | None
) -> Iterator[DeviceTallyTable]:
    """Yield the tallies of devices, some buckets at a time; for the whole span one table, which may be empty."""
    profile, since, until, seconds = question.profile.id, question.since, question.until, question.bucket_seconds
    if seconds is None:
        yield store.device_tallies(profile, since=since, until=until, only=only)
    else:
        yield from store.device_tally_parts(profile, since=since, until=until, bucket_seconds=seconds, only=only)


def _withdrawn(tallies: DeviceTallyTable) -> int:
    return len(np.unique(tallies.device[tallies.withdrawn != 0]))


def _part_tables(
    question: EstimateQuestion, share_cap: float, tallies: DeviceTallyTable, tag: Tag | None, withdrawn_devices: int
) -> list[responses.Estimates]:
    """Return the estimates from some devices' tallies; `tag` is None for the whole fleet."""
    rows = estimates(
        question.profile,
        tallies,
        question.bucket_seconds,
        share_cap=share_cap,
        known=question.devices,
        choice=question.choice,
    )
    return [_estimates_table(row, tag, withdrawn_devices, question.above) for row in rows]


def figure_count(tables: list[responses.Estimates]) -> int:
    """Return the number of figures in the tables."""
    return sum(len(table["estimates"]) for table in tables)


def _most_buckets(question: EstimateQuestion, seconds: int) -> float:
    """Return the largest number of buckets that a query can have by its times alone."""
    until = time.time() if question.until is None else question.until
    return inf if question.since is None else (until - question.since) / seconds + 2


def _figures(question: EstimateQuestion, buckets: float) -> float:
    """Return the number of figures of so many buckets."""
    parts = 1 if question.tags is None else len(question.tags)
    return buckets * parts * question.choice.count(question.profile)


def _refuse_flood(question: EstimateQuestion, buckets: int) -> None:
    """Refuse a query with too many figures, such as a year in buckets of five minutes for hundreds of attributes."""
    parts = 1 if question.tags is None else len(question.tags)
    figures = _figures(question, buckets)
    if figures > MOST_FIGURES:
        raise QueryError(
            f"bucket: {buckets} buckets{f' of {parts} tags' if parts > 1 else ''} have {figures:.0f} figures, "
            f"more than {MOST_FIGURES}; ask for larger buckets, a shorter time or one name"
        )


def with_plan(table: responses.Estimates, rate: float | None) -> responses.Estimates:
    """Add the time until intervals are narrow enough to a table of estimates.

    `rate` is how many reports per second the devices are planned to send; None where no report is missing.
    """

    def seconds(row: responses.Estimate, reports: int | None) -> float | None:
        if not rate or reports is None:
            return 0.0 if reports == 0 else None
        return float(reports / (rate * row["n"] / table["n"]))

    rows: list[responses.Estimate] = [
        {
            **row,
            "seconds_missing": seconds(row, row["reports_missing"]),
            "seconds_to_value": seconds(row, _missing(row["n"], row["half_width"], WIDEST)),
        }
        for row in table["estimates"]
    ]
    return {**table, "rate": rate, "estimates": rows}


def _missing(reports: int, half_width: float | None, goal: float) -> int | None:
    """Return how many more reports narrow an interval down to the goal. Its width falls with the root of the reports."""
    return None if half_width is None else max(0, ceil(reports * ((half_width / goal) ** 2 - 1)))


def _estimates_table(
    found: Estimates, tag: Tag | None, withdrawn_devices: int, above: float | None
) -> responses.Estimates:
    return {
        "profile": found.profile,
        "tag": tag.name if tag else None,
        "members": len(tag.members) if tag else None,
        "note": tag.note if tag else None,
        "start": moment_or_none(found.start),
        "seconds": found.seconds,
        "n": found.n,
        "devices": found.devices,
        "withdrawn": found.withdrawn,
        "withdrawn_devices": withdrawn_devices,
        "share_cap": found.share_cap,
        "figures": found.figures,
        "computed": moment(time.time()),
        "rate": None,
        "estimates": [_estimate_table(row) for row in found.estimates],
        "distributions": [_distribution_table(each, above) for each in distributions(found.estimates)],
    }


def _distribution_table(found: Distribution, above: float | None) -> responses.Distribution:
    inside = above is not None and found.range[0] <= above <= found.range[1]
    return {
        "attribute": found.attribute,
        "unit": found.unit,
        "range": list(found.range),
        "n": found.n,
        "shares_above": [
            {"threshold": rung, **interval_table(share)} for rung, share in zip(found.rungs, found.above, strict=True)
        ],
        "quantiles": [{"part": part, **interval_table(found.quantile(part))} for part in QUANTILES],
        "above": {"threshold": above, **interval_table(found.share_above(above))}
        if above is not None and inside
        else None,
    }


def _estimate_table(row: Estimate) -> responses.Estimate:
    """Return an estimate, with its half width as a part of the range. `with_plan` adds the times."""
    low, high = row.published.unclipped.low, row.published.unclipped.high
    half = None if low is None or high is None else (high - low) / 2 / (row.range[1] - row.range[0])
    return {
        "name": row.about.name,
        "attribute": row.about.attribute.name,
        "kind": row.about.attribute.kind,
        "unit": row.about.unit,
        "threshold": row.about.threshold,
        "range": list(row.range),
        "n": row.n,
        "devices": row.devices,
        **_figure_table(row.published),
        "over_devices": None if row.over_devices is None else _figure_table(row.over_devices),
        "plain": interval_table(row.plain),
        "withdrawn": row.withdrawn,
        "before_withdrawal": interval_table(row.before),
        "half_width": half,
        "reports_missing": _missing(row.n, half, ENOUGH),
        "seconds_missing": None,
        "too_few": half is None or half > WIDEST,
        "seconds_to_value": None,
    }


def _figure_table(figure: Figure) -> responses.Figure:
    return {
        "over": figure.over,
        **interval_table(figure.within),
        "edge": figure.edge,
        "unclipped": interval_table(figure.unclipped),
        "n_effective": figure.effective,
        "influence": figure.influence,
        "influence_share": figure.influence_share,
        "influence_device": None if figure.influence_device is None else device_label(figure.influence_device),
    }


def interval_table(interval: Interval) -> responses.Interval:
    return {"value": interval.value, "low": interval.low, "high": interval.high}
