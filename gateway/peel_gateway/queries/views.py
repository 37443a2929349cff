# SPDX-License-Identifier: MIT
"""All queries but those about exposed devices: the commands print the results, the API serves them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from peel_core import Profile
from peel_gateway.estimation.estimate import Choice
from peel_gateway.fleet.claims import Claim
from peel_gateway.fleet.folder import device_label
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_gateway.model.exposure import PARDON, AuditEntry, Exposure
from peel_gateway.model.verdict import Verdict
from peel_gateway.planning.outlook import outlook
from peel_gateway.planning.solve import PlanError, solve
from peel_gateway.queries import responses
from peel_gateway.queries.cache import QueryCache
from peel_gateway.queries.changes import ChangeQuestion, change_count, change_table
from peel_gateway.queries.devices import DeviceCounts, DeviceList, having
from peel_gateway.queries.estimates import (
    EstimateQuestion,
    Tag,
    estimate_tables,
    figure_count,
    tags_of,
    window_name,
    windows,
    with_plan,
)
from peel_gateway.queries.exposed import MANY, accident
from peel_gateway.queries.parameters import (
    AuditQuery,
    ChangeQuery,
    DeviceQuery,
    EstimateQuery,
    NotFoundError,
    PlanQuery,
    QueryError,
    ReportQuery,
)
from peel_gateway.queries.responses import moment
from peel_gateway.settings import Settings
from peel_gateway.storage.store import Archive

__all__ = ["Views", "audit_item", "open_views"]

_MOST_FIGURES_KEPT = 20_000
"""About 2 KB each."""


class Views:
    """Queries of a store and the current snapshot of the fleet.

    Parameters
    ----------
    share_cap : float
        Largest share that one device may have in a mean over reports; 1 counts every report once.
    claims : callable
        Returns a device's last status message, or None.
    silent_seconds : float
        Shortest time without a report after which a device can count as silent.
    """

    def __init__(
        self,
        store: Archive,
        snapshot: Callable[[], FleetSnapshot],
        *,
        share_cap: float = 1.0,
        claims: Callable[[int], Claim | None] = lambda _: None,
        silent_seconds: float = 300.0,
    ) -> None:
        self._store = store
        self._snapshot = snapshot
        self._share_cap = share_cap
        self._devices = DeviceList(store, snapshot, claims, silent_seconds=silent_seconds)
        # Devices fall silent as time passes, so the clock is the generation.
        self._counts: QueryCache[DeviceCounts] = QueryCache(time.monotonic_ns, size=lambda _: 1, capacity=1)
        self._cache: QueryCache[list[responses.Estimates]] = QueryCache(
            store.generation, size=figure_count, capacity=_MOST_FIGURES_KEPT
        )
        self._changes: QueryCache[responses.Changes] = QueryCache(
            store.generation, size=change_count, capacity=_MOST_FIGURES_KEPT
        )

    def estimates(self, query: EstimateQuery = EstimateQuery()) -> list[responses.Estimates]:  # noqa: B008 - never changes
        """Return each profile's estimates, for the whole span or per bucket; for all devices, one tag, or each tag.

        With `devices` the estimates come from the roll-ups and include the influence of single devices. Without, they come from
        the tallies, which is faster.
        """
        asked, bucket, choice = self._asked_tags(query.tag, each=query.tags), query.bucket, query.choice
        if asked is not None and not query.devices:
            raise QueryError(
                "devices: no cannot be combined with tag or tags, which need sums per device; leave it out"
            )
        if bucket is not None and (bucket <= 0 or bucket % self._store.bucket_seconds):
            raise QueryError(f"bucket: must be a multiple of {self._store.bucket_seconds} s, not {bucket}")
        if not query.devices and self.needs_devices:
            raise QueryError(
                "devices: no cannot be combined with an estimate.share_cap below 1, which needs sums per device; leave it out"
            )
        found: list[responses.Estimates] = []
        for each in self._profiles_with(query.profile, choice):
            question = EstimateQuestion(
                each, query.since, query.until, bucket, query.devices, choice, asked, query.above
            )
            find = partial(estimate_tables, self._store, question, self._share_cap)
            tables = self._cache.get(question.key, find) if query.devices else find()
            if query.tags:
                tables = self._without_empty(each.name, tables)
            found += [with_plan(table, self._planned_rate(each.name, table)) for table in tables]
        return found

    def _without_empty(self, profile: str, tables: list[responses.Estimates]) -> list[responses.Estimates]:
        """Leave out tables without reports of tags that no device of this profile has."""
        tags = {tag for info in self._snapshot().devices.infos if info.profile == profile for tag in info.tags}
        return [table for table in tables if table["n"] or table["withdrawn"] or table["tag"] in tags]

    def changes(self, query: ChangeQuery) -> list[responses.Changes]:
        """Return each profile's changes between two spans of time, for all devices or one tag."""
        tag = self._asked_tags(query.tag, each=False)
        devices = query.devices or tag is not None or self.needs_devices
        spans = query.spans(time.time(), self._store.bucket_seconds)
        found = []
        for each in self._profiles_with(query.profile, query.choice):
            question = ChangeQuestion(each, *spans, devices, query.devices, query.choice, tag[0] if tag else None)
            find = partial(change_table, self._store, question, self._share_cap)
            found.append(self._changes.get(question.key, find) if devices else find())
        return found

    def recent(self, shortest: int) -> list[responses.RecentEstimates]:
        """Return each profile's estimates over its own window, for all devices and then for each tag.

        A window has enough reports when no 95% interval is wider than half the range. Of `windows`, the shortest one that has
        enough is taken, or the longest one where none has. A tag's window is no shorter than that of the whole fleet.
        """
        found, tags = [], bool(self.tags())
        for profile in self._snapshot().profiles:
            (whole,) = self._over_windows(profile.name, windows(shortest), tags=False)
            found.append(whole)
            if tags:
                found += self._over_windows(profile.name, windows(whole["window_seconds"]), tags=True)
        return found

    def range_of(self, profile: str, name: str) -> tuple[float, float]:
        """Return the least and the greatest value of an attribute or category. Raises QueryError for an unknown one."""
        (found,) = self._profiles_with(profile, Choice(name))
        statistic = found.statistics[Choice(name).named(found)[0]]
        return statistic.low, statistic.high

    def since(self, seconds: int, *, profile: str, tag: str | None, name: str) -> responses.Estimates:
        """Return one estimate over a window up to now, for all devices or one tag."""
        devices = tag is not None or self.needs_devices
        query = EstimateQuery(since=self._start(seconds), profile=profile, tag=tag, name=name, devices=devices)
        (table,) = self.estimates(query)
        return table

    def _start(self, seconds: int) -> float:
        """Return the start of a window up to now: that of a bucket."""
        return (time.time() - seconds) // self._store.bucket_seconds * self._store.bucket_seconds

    def _over_windows(self, profile: str, choice: Sequence[int], *, tags: bool) -> list[responses.RecentEstimates]:
        """Return estimates over the first window that has enough reports; each tag has its own."""
        found: dict[str | None, responses.RecentEstimates] = {}
        for seconds in choice:
            since = self._start(seconds)
            devices = tags or self.needs_devices
            for table in self.estimates(EstimateQuery(profile=profile, since=since, devices=devices, tags=tags)):
                before = found.get(table["tag"])
                if before is None or before["too_few"]:
                    found[table["tag"]] = {
                        **table,
                        "window": window_name(seconds),
                        "window_seconds": seconds,
                        "since": moment(since),
                        "too_few": any(row["too_few"] for row in table["estimates"]),
                    }
            if not any(table["too_few"] for table in found.values()):
                break
        return list(found.values())

    def _planned_rate(self, profile: str, table: responses.Estimates) -> float | None:
        """Return how many reports per second the active devices are planned to send.

        None for a bucket, and where no report is missing, because counting all devices takes time. The rate is not cached with
        the estimates: devices fall silent while the store stays the same.
        """
        if table["start"] is not None or not any(row["reports_missing"] != 0 for row in table["estimates"]):
            return None
        return self.device_counts().rate(profile, table["tag"])

    def accident(self) -> responses.Accident | None:
        """Return a description of many devices that were exposed together, as by an operator's mistake; None if there are none."""
        exposed = self._store.exposed()
        if len(exposed) < MANY:
            return None
        return accident(exposed, revoked=self._snapshot().revoked, heard=self.device_counts().heard)

    def exposures(self, query: ReportQuery) -> responses.Page[responses.Report]:
        """Return a page of refused reports, newest first; `next` continues it."""
        rows = self._store.exposures(query.which, limit=query.limit, before=query.before)
        names = {profile.id: profile.name for profile in self._snapshot().profiles}
        return {
            "items": [_report_of(row, names) for row in rows],
            "next": rows[-1].id if len(rows) == query.limit else None,
        }

    def audit(self, query: AuditQuery = AuditQuery()) -> responses.Audit:  # noqa: B008 - never changes
        """Return a page of the audit trail, newest first; `next` continues it. `fleet` has the changes to the fleet folder."""
        rows = self._store.audit(device=query.device, limit=query.limit, before=query.before)
        label = None if query.device is None else device_label(query.device)
        done = [each for each in self._snapshot().audit if label in (None, each.device)]
        return {
            "items": [audit_item(row) for row in rows],
            "next": rows[-1].id if len(rows) == query.limit else None,
            "fleet": [
                {
                    "time": each.time,
                    "action": each.action,
                    "device": each.device,
                    "who": each.who,
                    "reason": each.reason,
                }
                for each in done[::-1][: query.limit]
            ],
        }

    def devices(self, query: DeviceQuery) -> responses.Devices:
        """Return a page of registered devices by id; `next` continues it."""
        return self._devices.page(query)

    def device(self, device: int) -> responses.Device:
        """Return one device's entry in the list. Raises NotFoundError when it is not registered."""
        found = self.devices(DeviceQuery(after=device - 1, limit=1))["items"]
        if not found or found[0]["device"] != device_label(device):
            raise NotFoundError(f"device {device_label(device)} is not registered")
        return found[0]

    @property
    def needs_devices(self) -> bool:
        """Whether estimates need tallies per device; the sums over all devices are not enough."""
        return self._share_cap < 1

    def tags(self) -> list[responses.Tag]:
        """Return the tags, with their numbers of devices."""
        return [tag.response() for tag in tags_of(self._snapshot().devices)]

    def device_counts(self) -> DeviceCounts:
        """Return the number of devices by state, and the sums of their status messages."""
        return self._counts.get(None, self._devices.counts)

    def profiles(self) -> list[responses.Profile]:
        """Return the profiles with their parameters, including epsilon."""
        return [self._profile(profile) for profile in self._snapshot().profiles]

    def _profile(self, profile: Profile) -> responses.Profile:
        figures = {"epsilon": profile.epsilon, "k": profile.k, "verified": profile.verified}
        more = {"frame_bytes": profile.frame_bytes, "devices": self._devices_of(profile.name)}
        return cast(responses.Profile, profile.table() | figures | more)

    def _devices_of(self, profile: str) -> int:
        return int(self._snapshot().devices.per_device(lambda info: info.profile == profile, np.bool_).sum())

    def plan(self, query: PlanQuery) -> responses.Plan:
        """Return the accuracy and the privacy cost of a fleet with this profile.

        The number of devices is this fleet's, unless it is given or follows from the accuracy.
        """
        (planned,), given = self._profiles(query.profile), query.given
        if given.devices is None and given.accuracy is None:
            given = replace(given, devices=self._devices_of(query.profile) or None)
        try:
            return {
                "profile": query.profile,
                **outlook(solve(given.of_profile(planned)), given.accuracy, given.within_s),
            }
        except PlanError as error:
            raise QueryError(str(error)) from None

    def totals(self) -> responses.Totals:
        """Return the counters over the life of the database."""
        counts, snapshot = self._store.counts(), self._snapshot()
        return {
            "verdicts": {verdict.label: counts.verdicts.get(verdict, 0) for verdict in Verdict},
            "accepted": counts.verdicts.get(Verdict.ACCEPTED, 0),
            "exposed": counts.exposed,
            "poisoning_ratio": counts.poisoning_ratio,
            "withdrawn_past": counts.withdrawn_past,
            "exposed_devices": counts.exposed_devices,
            "withdrawn_devices": counts.withdrawn_devices,
            "quarantined": counts.quarantined,
            "quarantined_bytes": counts.quarantined_bytes,
            "dropped": {verdict.label: count for verdict, count in counts.dropped.items()},
            "gaps": counts.gaps,
            "replayed": {verdict.label: count for verdict, count in counts.replayed.items()},
            "pardons": counts.pardons,
            "generation": counts.generation,
            "devices": len(snapshot.devices),
            "revoked_devices": len(snapshot.revoked),
        }

    def _asked_tags(self, name: str | None, *, each: bool) -> tuple[Tag, ...] | None:
        """Return the tags to estimate; None for the whole fleet."""
        if name is None and not each:
            return None
        if name is not None and each:
            raise QueryError("tags: yes cannot be combined with tag; leave one of them out")
        devices = self._snapshot().devices
        if name is None:
            return tuple(tags_of(devices))
        return (Tag(name, frozenset(devices.ids[having(devices, None, name)].tolist())),)

    def _profiles_with(self, profile: str | None, choice: Choice) -> list[Profile]:
        """Return the profiles that have the chosen statistics."""
        found = [each for each in self._profiles(profile) if choice.named(each)]
        if choice.name is not None and not found:
            raise QueryError(f"name: no attribute or category is called {choice.name!r}; /api/profiles lists them")
        return found

    def _profiles(self, name: str | None) -> list[Profile]:
        profiles = self._snapshot().profiles
        if name is None:
            return list(profiles)
        found = [profile for profile in profiles if profile.name == name]
        if not found:
            known = ", ".join(profile.name for profile in profiles) or "none"
            raise QueryError(f"profile: {name!r} is not in this fleet; the profiles are: {known}")
        return found


def open_views(
    settings: Settings,
    store: Archive,
    snapshot: Callable[[], FleetSnapshot],
    claims: Callable[[int], Claim | None] = lambda _: None,
) -> Views:
    """Build the queries from the settings."""
    return Views(
        store,
        snapshot,
        share_cap=settings.estimate_share_cap,
        claims=claims,
        silent_seconds=settings.health_silent_seconds,
    )


def _report_of(row: Exposure, profiles: dict[int, str]) -> responses.Report:
    return {
        "id": row.id,
        "verdict": row.verdict.label,
        "blamed": row.blamed,
        "device": device_label(row.device) if row.device else None,
        "number": row.number or None,
        "profile": profiles.get(row.profile, f"{row.profile:08x}" if row.profile else None),
        "received": moment(row.received),
        "topic": row.topic,
        "evidence": dict(row.evidence),
        "raw": row.raw.hex(),
    }


def audit_item(row: AuditEntry) -> responses.AuditItem:
    """Return an entry of the audit trail as a response."""
    return {
        "id": row.id,
        "time": moment(row.time),
        "action": row.action,
        "device": device_label(row.device),
        "cause": Verdict(row.cause).label if row.action == PARDON else None,
        "restored": row.restored if row.action == PARDON else None,
        "reports": row.reports,
        "who": row.who,
        "reason": row.reason,
    }
