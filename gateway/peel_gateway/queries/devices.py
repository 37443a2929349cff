# SPDX-License-Identifier: MIT
"""The devices, from the registry, the store and their own status messages (claims)."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from string import hexdigits
from typing import cast

import numpy as np
import numpy.typing as npt

from peel_gateway.fleet.claims import Claim, claim_table
from peel_gateway.fleet.device import no_such_tag
from peel_gateway.fleet.directory import DeviceDirectory, DeviceInfo
from peel_gateway.fleet.folder import REVOKED, Device
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_gateway.model.gateway_time import RATE_SLACK
from peel_gateway.model.standing import STANDINGS, Signs, Standing, expected_interval, last_heard, patience
from peel_gateway.model.tables import DeviceTable, NewestReports
from peel_gateway.model.verdict import Verdict
from peel_gateway.queries import responses
from peel_gateway.queries.parameters import DeviceQuery, NotFoundError
from peel_gateway.queries.responses import moment, moment_or_none
from peel_gateway.storage.store import Archive

__all__ = ["DeviceCounts", "DeviceList", "having"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_AT_ONCE = 500
_DIGITS = 8
_LEAST_QUIET = 60.0
"""Seconds without any report that do not count as silence yet: batches and networks take their time."""
_MOST_QUIET = 86_400.0
"""Longest interval in seconds that counts. Devices claim their own interval, and one must not hide the silence of all others."""


_STALL_BUCKETS = 2
"""Time buckets without an answer to an audit or a challenge that do not count as a stall yet."""
_DECIDED = frozenset({Standing.REVOKED, Standing.EXPOSED})
"""Held reports of these devices do not count whatever they answer."""

_SUMMED = ("dropped", "unconfirmed", "refused_receipts", "lost", "skipped", "no_reading", "throttled", "faults")


@dataclass(frozen=True, kw_only=True)
class DeviceCounts:
    """Numbers of devices, and sums over their status messages."""

    states: Mapping[Standing, int]
    claimed: Mapping[str, int]
    """Sums of the devices' own counters: frames dropped or lost, readings skipped, sources of randomness refused, and so on."""
    heard: int
    """Devices with a stored report, pruned ones included."""
    last_report: float | None
    """Unix seconds at which the last report of any device was received."""
    quiet_after: float
    """Seconds without any report after which the fleet counts as silent; longer than any heard device's planned interval."""
    held: int | None
    """Reports that wait until their coins are opened; None without a verified profile."""
    stalled: int | None
    """Devices with an unanswered audit or challenge; None without a verified profile."""
    rates: Mapping[tuple[str, str | None], float]
    """Reports per second that active devices are planned to send, by profile and tag; tag None is all devices of the profile."""

    def response(self, now: float) -> responses.DeviceStates:
        """Return the devices' part of the summary at this time (Unix seconds)."""
        silent = None if self.last_report is None else max(0.0, now - self.last_report)
        return {
            "states": {standing.label: self.states[standing] for standing in Standing},
            "heard": self.heard,
            "last_report": moment_or_none(self.last_report),
            "silent_seconds": None if silent is None or silent <= self.quiet_after else round(silent, 1),
            "held_reports": self.held,
            "stalled_devices": self.stalled,
        }

    def rate(self, profile: str, tag: str | None) -> float:
        """Return the reports per second that a profile's active devices are planned to send: those with a tag, or all."""
        return self.rates.get((profile, tag), 0.0)


@dataclass(frozen=True, slots=True)
class _Past:
    """A device's state in the store; times in Unix seconds."""

    last_number: int | None = None
    first_received: float | None = None
    last_received: float | None = None
    exposed: str | None = None
    exposed_at: float | None = None
    withdrawn: bool = False
    held: int = 0


_NO_PAST = _Past()


@dataclass(frozen=True, slots=True)
class _Known:
    """A device with all that the gateway knows about it; `row` is its row in the directory."""

    row: int
    device: int
    past: _Past
    claim: Claim | None
    standing: Standing
    heard: float | None
    patience: float
    left: int | None


class DeviceList:
    """The devices of a fleet.

    Parameters
    ----------
    claims : callable
        Returns a device's last status message, or None.
    silent_seconds : float
        Shortest time without a report after which a device can count as silent.
    """

    def __init__(
        self,
        store: Archive,
        snapshot: Callable[[], FleetSnapshot],
        claims: Callable[[int], Claim | None],
        *,
        silent_seconds: float,
    ) -> None:
        self._store = store
        self._snapshot = snapshot
        self._claims = claims
        self._silent_seconds = silent_seconds

    def page(self, query: DeviceQuery) -> responses.Devices:
        """Return a page of devices by id; `next` continues it."""
        snapshot = self._snapshot()
        directory = snapshot.devices
        chosen = having(directory, query.profile, query.tag)
        if part := (query.find or "").strip().lower():
            chosen &= directory.per_device(lambda info: part in info.note.lower(), np.bool_) | _spelled(
                directory.ids, part
            )
        found = self._known(snapshot, np.flatnonzero(chosen & (directory.ids > (query.after or 0))), query.state)
        page = list(islice(found, query.limit))
        rows = self._rows(snapshot, page)
        return {"items": rows, "next": rows[-1]["device"] if len(rows) == query.limit else None}

    def _rows(self, snapshot: FleetSnapshot, page: Sequence[_Known]) -> list[responses.Device]:
        """Return the entries of some devices, with the verdicts on their reports."""
        directory, patience = snapshot.devices, _patience(snapshot)
        ids = np.array([known.device for known in page], np.int64)
        forfeited, reports = self._store.forfeited_reports(ids), self._store.device_reports(ids)
        asked_at, now = self._unanswered(snapshot, ids), 1000 * time.time()
        rows = []
        for known in page:
            device = directory[known.row]
            mine = reports.get(known.device, {})
            counted = 0 if known.past.withdrawn else mine.get(Verdict.ACCEPTED, 0) - forfeited.get(known.device, 0)
            row = _entry(known, device, mine, counted)
            if device.profile in patience:
                waiting, late = known.standing not in _DECIDED, now - patience[device.profile]
                asked = asked_at.get(known.device, late)
                row["held"] = known.past.held if waiting else 0
                row["stalled"] = moment(asked / 1000) if waiting and asked < late else None
            rows.append(row)
        return rows

    def _unanswered(self, snapshot: FleetSnapshot, only: Ints | None = None) -> Mapping[int, int]:
        """Return when unanswered audits and challenges began; empty without a verified profile."""
        return self._store.unanswered(only) if _patience(snapshot) else {}

    def _count_waits(
        self, snapshot: FleetSnapshot, standings: Ints, reports: NewestReports, now: float
    ) -> tuple[int, int] | tuple[None, None]:
        """Return the numbers of held reports and of stalled devices; None without a verified profile."""
        patience, ids = _patience(snapshot), snapshot.devices.ids
        if not patience:
            return None, None
        allowed = snapshot.devices.per_device(lambda info: patience.get(info.profile, 0), np.int64)
        unanswered = self._unanswered(snapshot)
        asked = np.fromiter(unanswered.keys(), np.int64)
        late = np.fromiter(unanswered.values(), np.int64) < 1000 * now - allowed[snapshot.devices.rows(asked)]
        decided = np.isin(standings, [STANDINGS.index(each) for each in _DECIDED])
        held = _placed(ids, reports.device, reports.held)
        return int(held[~decided].sum()), len(set(asked[late].tolist()) - set(ids[decided].tolist()))

    def counts(self) -> DeviceCounts:
        """Count all devices."""
        snapshot, now = self._snapshot(), time.time()
        directory = snapshot.devices
        everyone = np.arange(len(directory))
        claims = [self._claims(device) for device in directory.ids.tolist()]
        reports = self._store.newest_reports()
        signs = self._signs(snapshot, everyone, reports, claims, now)
        standings = signs.standings(now)
        received = _placed(directory.ids, reports.device, reports.last_received) / 1000
        active, silent = (standings == STANDINGS.index(each) for each in (Standing.ACTIVE, Standing.SILENT))
        rates: defaultdict[tuple[str, str | None], float] = defaultdict(float)
        per_info = np.bincount(directory.info_of[active], 1 / signs.interval[active], len(directory.infos))
        for info, rate in zip(directory.infos, per_info.tolist(), strict=True):
            for tag in (None, *info.tags) if rate else ():
                rates[info.profile, tag] += rate
        states = np.bincount(standings, minlength=len(STANDINGS)).tolist()
        # Ignore times that a wrong clock set in the future.
        last_report = received[received <= now].max(initial=0.0)
        longest = signs.interval[(received > 0) & (active | silent)].max(initial=0.0)
        said = [claim for claim in claims if claim is not None]
        held, stalled = self._count_waits(snapshot, standings, reports, now)
        return DeviceCounts(
            states=dict(zip(STANDINGS, states, strict=True)),
            claimed={name: sum(filter(None, map(attrgetter(name), said))) for name in _SUMMED}
            | {"refused": sum(map(len, filter(None, map(attrgetter("refused"), said))))},
            heard=int(np.count_nonzero(received)),
            last_report=float(last_report) or None,
            quiet_after=max(_LEAST_QUIET, RATE_SLACK * min(float(longest), _MOST_QUIET)),
            held=held,
            stalled=stalled,
            rates=rates,
        )

    def _known(self, snapshot: FleetSnapshot, rows: Ints, state: Standing | None) -> Iterator[_Known]:
        """Yield the devices in these rows of the directory, of one state or of all. They are looked up in parts: there may be a million."""
        now = time.time()
        for begin in range(0, len(rows), _AT_ONCE):
            some = rows[begin : begin + _AT_ONCE]
            ids = snapshot.devices.ids[some].astype(np.int64)
            table = self._store.devices(ids)
            pasts, claims = _pasts(table), [self._claims(device) for device in ids.tolist()]
            signs = self._signs(snapshot, some, table, claims, now)
            columns = (some, ids, signs.standings(now), signs.heard, signs.patience, signs.left)
            for claim, row, device, place, heard, patient, left in zip(
                claims, *(column.tolist() for column in columns), strict=True
            ):
                if state in (None, STANDINGS[place]):
                    yield _Known(
                        row=row,
                        device=device,
                        past=pasts.get(device, _NO_PAST),
                        claim=claim,
                        standing=STANDINGS[place],
                        heard=None if math.isnan(heard) else heard,
                        patience=patient,
                        left=None if math.isnan(left) else int(left),
                    )

    def _signs(
        self,
        snapshot: FleetSnapshot,
        rows: Ints,
        reports: DeviceTable | NewestReports,
        claims: Sequence[Claim | None],
        now: float,
    ) -> Signs:
        """Return the facts about the devices in these rows of the directory, [N]; `claims` are theirs."""
        directory = snapshot.devices
        profiles = {profile.name: profile for profile in snapshot.profiles}

        def per_device(said: Callable[[DeviceInfo], float | None]) -> Floats:
            found: Floats = np.array([said(info) for info in directory.infos], np.float64)[directory.info_of[rows]]
            return found

        def claimed(name: str) -> Floats:
            return np.array([getattr(claim, name) if claim else None for claim in claims], np.float64)

        ids = directory.ids[rows]
        received = _placed(ids, reports.device, reports.last_received) / 1000
        used = _placed(ids, reports.device, reports.last_number)
        least = per_device(lambda info: profiles[info.profile].period / profiles[info.profile].quota)
        interval = expected_interval(least, claimed("interval_ms"))
        patient = patience(interval, self._silent_seconds)
        heard = np.stack([np.where(received > 0, received, np.nan), claimed("heard")])
        return Signs(
            revoked=per_device(lambda info: info.state == REVOKED) > 0,
            exposed=_placed(ids, reports.device, reports.cause) != 0,
            left=np.maximum(0, per_device(lambda info: profiles[info.profile].lifetime) - used),
            claimed_left=claimed("left"),
            stopped=np.array([claim is not None and claim.state == "stopped" for claim in claims], np.bool_),
            failing=np.array([claim is not None and bool(claim.failing) for claim in claims], np.bool_),
            heard=last_heard(heard, now=now, patience=patient),
            interval=interval,
            patience=patient,
        )


def _patience(snapshot: FleetSnapshot) -> dict[str, int]:
    """Return how long audits and challenges may stay unanswered, in milliseconds, by the name of each verified profile."""
    return {each.name: 1000 * _STALL_BUCKETS * each.bucket for each in snapshot.profiles if each.verified}


def having(directory: DeviceDirectory, profile: str | None, tag: str | None) -> npt.NDArray[np.bool_]:
    """Return whether each device has this profile and this tag, bool[D]; None matches all. NotFoundError if no device has the tag."""
    if tag is not None and not any(tag in info.tags for info in directory.infos):
        raise NotFoundError(f"tag: {no_such_tag(tag, directory.tags)}")
    return directory.matching(profile, tag)


def _placed(ids: npt.NDArray[np.uint32], devices: Ints, values: Ints) -> Ints:
    """Return each device's value, 0 where it has none, int64[N]; both lists of ids ascend."""
    if not len(devices):
        return np.zeros(len(ids), np.int64)
    places = np.minimum(np.searchsorted(devices, ids), len(devices) - 1)
    return np.where(devices[places] == ids, values[places], 0)


def _spelled(ids: npt.NDArray[np.uint32], part: str) -> npt.NDArray[np.bool_]:
    """Return whether each id's eight hexadecimal digits contain `part`, bool[D], without formatting up to a million ids."""
    found = np.zeros(len(ids), np.bool_)
    if len(part) <= _DIGITS and set(part) <= set(hexdigits.lower()):
        for place in range(_DIGITS - len(part) + 1):
            found |= (ids >> np.uint32(4 * place)) & np.uint32(16 ** len(part) - 1) == np.uint32(int(part, 16))
    return found


def _entry(known: _Known, device: Device, reports: Mapping[Verdict, int], counted: int) -> responses.Device:
    past, claim = known.past, known.claim
    return {
        "device": device.label,
        "profile": device.profile,
        "tags": list(device.tags),
        "state": known.standing.label,
        "note": device.note,
        "created": device.created,
        "last_number": past.last_number,
        "first_received": moment_or_none(past.first_received),
        "last_received": moment_or_none(past.last_received),
        "last_heard": moment_or_none(known.heard),
        "silent_after_seconds": known.patience,
        "exposed": past.exposed,
        "exposed_at": moment_or_none(past.exposed_at),
        "withdrawn": past.withdrawn,
        "left": known.left,
        "claims": None if claim is None else _claims(claim),
        "reports": {verdict.label: count for verdict, count in reports.items()},
        "counted": counted,
        "held": None,
        "stalled": None,
    }


def _claims(claim: Claim) -> responses.Claims:
    return cast(responses.Claims, claim_table(claim) | {"heard": moment_or_none(claim.heard)})


def _pasts(table: DeviceTable) -> dict[int, _Past]:
    columns = zip(
        table.device.tolist(),
        table.last_number.tolist(),
        table.first_received.tolist(),
        table.last_received.tolist(),
        table.cause.tolist(),
        table.cause_time.tolist(),
        table.withdrawn.tolist(),
        table.held.tolist(),
        strict=True,
    )
    return {
        device: _Past(
            number,
            first / 1000 if first else None,
            last / 1000 if last else None,
            Verdict(cause).label if cause else None,
            when / 1000 if cause else None,
            bool(withdrawn),
            held,
        )
        for device, number, first, last, cause, when, withdrawn, held in columns
    }
