# SPDX-License-Identifier: MIT
"""What the gateway knows, as plain tables: the commands print them, the API serves them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from peel_core import Profile
from peel_gateway.answers.memory import Memory
from peel_gateway.estimation.estimate import Estimate, Estimates, Figure, Interval, anonymous, estimates
from peel_gateway.fleet.registry import ACTIVE, REVOKED, device_label
from peel_gateway.fleet.snapshot import Snapshot
from peel_gateway.model.tables import Counts, DeviceTable, Exposure, ExposureFilter, TallyTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.store import Store

__all__ = ["DeviceFilter", "QueryError", "Table", "Views", "moment", "parse_moment"]

Table = dict[str, Any]


class QueryError(ValueError):
    """A question that cannot be answered; the message names the parameter."""


def moment(seconds: float) -> str:
    """Unix seconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def parse_moment(name: str, text: str) -> float:
    """Read a time: Unix seconds, or ISO 8601 (UTC unless it says otherwise)."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            parsed = datetime.fromisoformat(text)
        except ValueError:
            raise QueryError(f"{name}: {text!r} is neither Unix seconds nor ISO 8601") from None
        seconds = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(seconds) or not 0 <= seconds < 1e11:
        raise QueryError(f"{name}: {text!r} is out of range")
    return seconds


@dataclass(frozen=True, kw_only=True)
class DeviceFilter:
    """Which devices to list; unset fields match all."""

    profile: str | None = None
    state: str | None = None
    """active, revoked, exposed or silent."""
    after: int = 0
    limit: int = 100

    STATES = (ACTIVE, REVOKED, "exposed", "silent")


class Views:
    """Answers from a store and the current snapshot of the fleet.

    Parameters
    ----------
    share_cap: the largest part of a mean over reports that one device may have; 1 lets every report count once.
    """

    def __init__(self, store: Store, snapshot: Callable[[], Snapshot], *, share_cap: float = 1.0) -> None:
        self._store = store
        self._snapshot = snapshot
        self._share_cap = share_cap
        self._memory: Memory[list[Table]] = Memory(store.generation)

    def estimates(
        self,
        profile: str | None = None,
        *,
        since: float | None = None,
        until: float | None = None,
        bucket_seconds: int | None = None,
        devices: bool = True,
    ) -> list[Table]:
        """Each profile's estimates, over the whole time asked for or per bucket.

        With `devices` the log is read, and it is said what single devices can do; without, estimates come from the tallies at once.
        """
        if bucket_seconds is not None and (bucket_seconds <= 0 or bucket_seconds % self._store.bucket_seconds):
            raise QueryError(f"bucket: must be a multiple of {self._store.bucket_seconds} s, not {bucket_seconds}")
        if not devices and self._share_cap < 1:
            raise QueryError("devices: cannot be no where estimate.share_cap is below 1: weights depend on devices")
        found: list[Table] = []
        for each in self._profiles(profile):
            find = partial(self._estimates, each, since, until, bucket_seconds, devices)
            question = (each.id, since, until, bucket_seconds)
            found += self._memory.recall(question, find) if devices else find()
        return found

    def _estimates(
        self, profile: Profile, since: float | None, until: float | None, bucket_seconds: int | None, devices: bool
    ) -> list[Table]:
        read = self._store.device_tallies if devices else self._store.tallies
        tallies = read(profile.id, since=since, until=until, bucket_seconds=bucket_seconds)
        common = {"withdrawn_devices": self._store.withdrawn_devices(profile.id), "computed": moment(time.time())}
        rows = estimates(
            profile,
            anonymous(tallies) if isinstance(tallies, TallyTable) else tallies,
            bucket_seconds,
            share_cap=self._share_cap,
            known=devices,
        )
        return [_estimates_table(row) | common for row in rows]

    def exposures(self, which: ExposureFilter, *, limit: int = 100, before: int | None = None) -> Table:
        """A page of exposures, newest first; `next` continues it."""
        rows = self._store.exposures(which, limit=limit, before=before)
        names = {profile.id: profile.name for profile in self._snapshot().profiles}
        return {
            "items": [_exposure_table(row, names) for row in rows],
            "next": rows[-1].id if len(rows) == limit else None,
        }

    def devices(self, which: DeviceFilter) -> Table:
        """A page of devices by id, registered ones and what is known of them; `next` continues it."""
        states = _device_states(self._store.devices())
        reports = self._store.device_reports()
        rows: list[Table] = []
        for device in self._snapshot().devices:
            if device.id <= which.after or which.profile not in (None, device.profile):
                continue
            row = {
                "device": device.label,
                "profile": device.profile,
                "state": device.state,
                "note": device.note,
                "created": device.created,
                "reports": {verdict.label: count for verdict, count in reports.get(device.id, {}).items()},
                **states.get(device.id, _UNHEARD),
            }
            if which.state in (None, device.state) or which.state == _standing(row):
                rows.append(row)
            if len(rows) == which.limit:
                break
        return {"items": rows, "next": rows[-1]["device"] if len(rows) == which.limit else None}

    def profiles(self) -> list[Table]:
        """The profiles, with their privacy parameters spelled out."""
        snapshot = self._snapshot()
        names = [device.profile for device in snapshot.devices]
        return [
            profile.table()
            | {"epsilon": profile.epsilon, "frame_bytes": profile.frame_bytes, "devices": names.count(profile.name)}
            for profile in snapshot.profiles
        ]

    def totals(self) -> Table:
        """Counters over the life of the database."""
        return _counts_table(self._store.counts()) | {
            "devices": len(self._snapshot().devices),
            "revoked_devices": len(self._snapshot().revoked),
        }

    def _profiles(self, name: str | None) -> list[Profile]:
        profiles = self._snapshot().profiles
        if name is None:
            return list(profiles)
        found = [profile for profile in profiles if profile.name == name]
        if not found:
            known = ", ".join(profile.name for profile in profiles) or "none"
            raise QueryError(f"profile: {name!r} is not in this fleet; there is: {known}")
        return found


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
        "estimates": [_estimate_table(row) for row in found.estimates],
    }


def _estimate_table(row: Estimate) -> Table:
    return {
        "name": row.name,
        "unit": row.unit,
        "range": [row.low, row.high],
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


def _exposure_table(row: Exposure, profiles: dict[int, str]) -> Table:
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


_UNHEARD: Table = {
    "last_number": None,
    "first_received": None,
    "last_received": None,
    "exposed": None,
    "exposed_at": None,
    "withdrawn": False,
}


def _device_states(table: DeviceTable) -> dict[int, Table]:
    columns = zip(
        table.device.tolist(),
        table.last_number.tolist(),
        table.first_received.tolist(),
        table.last_received.tolist(),
        table.cause.tolist(),
        table.cause_time.tolist(),
        table.withdrawn.tolist(),
        strict=True,
    )
    return {
        device: {
            "last_number": number,
            "first_received": moment(first / 1000) if first else None,
            "last_received": moment(last / 1000) if last else None,
            "exposed": Verdict(cause).label if cause else None,
            "exposed_at": moment(when / 1000) if cause else None,
            "withdrawn": bool(withdrawn),
        }
        for device, number, first, last, cause, when, withdrawn in columns
    }


def _standing(row: Table) -> str:
    if row["exposed"]:
        return "exposed"
    return "silent" if row["last_received"] is None else str(row["state"])


def _counts_table(counts: Counts) -> Table:
    table = asdict(counts)
    table["verdicts"] = {verdict.label: counts.verdicts.get(verdict, 0) for verdict in Verdict}
    table["dropped"] = {verdict.label: count for verdict, count in counts.dropped.items()}
    return table | {
        "accepted": counts.verdicts.get(Verdict.ACCEPTED, 0),
        "exposed": counts.exposed,
        "poisoning_ratio": counts.poisoning_ratio,
    }
