# SPDX-License-Identifier: MIT
"""The devices, from the registry, the store and their own status messages (claims)."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from string import hexdigits
from typing import cast

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.fleet.claims import Claim, claim_table
from peel_gateway.fleet.directory import DeviceDirectory, DeviceInfo
from peel_gateway.fleet.folder import REVOKED, Device
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_gateway.model.gateway_time import RATE_SLACK
from peel_gateway.model.standing import Signs, Standing, expected_interval, last_heard, patience
from peel_gateway.model.tables import DeviceTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.queries import responses
from peel_gateway.queries.parameters import DeviceQuery
from peel_gateway.queries.responses import moment_or_none
from peel_gateway.storage.store import Archive

__all__ = ["DeviceCounts", "DeviceList"]

Ints = npt.NDArray[np.int64]

_AT_ONCE = 500
_DIGITS = 8
_LEAST_QUIET = 60.0
"""Seconds without any report that do not count as silence yet: batches and networks take their time."""
_MOST_QUIET = 86_400.0
"""Longest interval in seconds that counts. Devices claim their own interval, and one must not hide the silence of all others."""


_SUMMED = ("dropped", "unconfirmed", "refused_receipts", "lost", "skipped", "throttled", "faults")


@dataclass(frozen=True, kw_only=True)
class DeviceCounts:
    """Numbers of devices, and sums over their status messages."""

    states: Mapping[Standing, int]
    claimed: Mapping[str, int]
    """Sums of the devices' own counters: frames dropped or lost, readings skipped, sources of randomness refused, and so on."""
    heard: int
    """Devices that have ever sent a report."""
    last_report: float | None
    """Unix seconds at which the last report of any device was received."""
    quiet_after: float
    """Seconds without any report after which the fleet counts as silent; longer than any heard device's planned interval."""
    rates: Mapping[tuple[str, str], float]
    """Reports per second that active devices are planned to send, by profile and group ("" for devices in no group)."""

    def response(self, now: float) -> responses.DeviceStates:
        """Return the devices' part of the summary at this time (Unix seconds)."""
        silent = None if self.last_report is None else max(0.0, now - self.last_report)
        return {
            "states": {standing.label: self.states[standing] for standing in Standing},
            "heard": self.heard,
            "last_report": moment_or_none(self.last_report),
            "silent_seconds": None if silent is None or silent <= self.quiet_after else round(silent, 1),
        }

    def rate(self, profile: str, group: str | None) -> float:
        """Return the reports per second that a profile's active devices are planned to send, in one group or in all."""
        return sum(rate for key, rate in self.rates.items() if key[0] == profile and group in (None, key[1]))


@dataclass(frozen=True, slots=True)
class _Past:
    """A device's state in the store; times in Unix seconds."""

    last_number: int | None = None
    first_received: float | None = None
    last_received: float | None = None
    exposed: str | None = None
    exposed_at: float | None = None
    withdrawn: bool = False


_NO_PAST = _Past()


@dataclass(frozen=True, slots=True)
class _Known:
    """A device with all that the gateway knows about it; `row` is its row in the directory."""

    row: int
    device: int
    info: DeviceInfo
    past: _Past
    claim: Claim | None
    signs: Signs
    standing: Standing


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
        chosen = directory.per_device(
            lambda info: query.profile in (None, info.profile) and query.group in (None, info.group), np.bool_
        )
        if part := (query.find or "").strip().lower():
            chosen &= directory.per_device(lambda info: part in info.note.lower(), np.bool_) | _spelled(
                directory.ids, part
            )
        found = self._known(snapshot, np.flatnonzero(chosen & (directory.ids > (query.after or 0))))
        page = list(islice((known for known in found if query.state in (None, known.standing)), query.limit))
        rows = self._rows(directory, page)
        return {"items": rows, "next": rows[-1]["device"] if len(rows) == query.limit else None}

    def _rows(self, directory: DeviceDirectory, page: Sequence[_Known]) -> list[responses.Device]:
        """Return the entries of some devices, with the verdicts on their reports."""
        ids = np.array([known.device for known in page], np.int64)
        forfeited, reports = self._store.forfeited_reports(ids), self._store.device_reports(ids)
        rows = []
        for known in page:
            mine = reports.get(known.device, {})
            counted = 0 if known.past.withdrawn else mine.get(Verdict.ACCEPTED, 0) - forfeited.get(known.device, 0)
            rows.append(_entry(known, directory[known.row], mine, counted))
        return rows

    def counts(self) -> DeviceCounts:
        """Count all devices."""
        states: Counter[Standing] = Counter()
        claimed: Counter[str] = Counter()
        rates: defaultdict[tuple[str, str], float] = defaultdict(float)
        heard, received, longest, now = 0, 0.0, 0.0, time.time()
        snapshot = self._snapshot()
        for known in self._known(snapshot, np.arange(len(snapshot.devices))):
            states[known.standing] += 1
            if known.claim is not None:
                claimed.update({name: getattr(known.claim, name) or 0 for name in _SUMMED})
                claimed["refused"] += len(known.claim.refused or ())
            if known.past.last_received is not None:
                heard += 1
                if known.past.last_received <= now:  # ignore times that a wrong clock set in the future
                    received = max(received, known.past.last_received)
                if known.standing in (Standing.ACTIVE, Standing.SILENT):
                    longest = max(longest, known.signs.interval)
            if known.standing is Standing.ACTIVE:
                rates[known.info.profile, known.info.group] += 1 / known.signs.interval
        return DeviceCounts(
            states={standing: states[standing] for standing in Standing},
            claimed={name: claimed[name] for name in (*_SUMMED, "refused")},
            heard=heard,
            last_report=received or None,
            quiet_after=max(_LEAST_QUIET, RATE_SLACK * min(longest, _MOST_QUIET)),
            rates=rates,
        )

    def _known(self, snapshot: FleetSnapshot, rows: Ints) -> Iterator[_Known]:
        """Yield the devices in these rows of the directory. They are looked up in parts, since there may be a million."""
        profiles = {profile.name: profile for profile in snapshot.profiles}
        now = time.time()
        for begin in range(0, len(rows), _AT_ONCE):
            some = rows[begin : begin + _AT_ONCE]
            ids = snapshot.devices.ids[some].astype(np.int64)
            pasts = _pasts(self._store.devices(ids))
            codes = snapshot.devices.info_of[some].tolist()
            for row, device, place in zip(some.tolist(), ids.tolist(), codes, strict=True):
                info = snapshot.devices.infos[place]
                past, claim = pasts.get(device, _NO_PAST), self._claims(device)
                signs = self._signs(info, profiles[info.profile], past, claim, now)
                yield _Known(row, device, info, past, claim, signs, signs.standing(now))

    def _signs(self, info: DeviceInfo, profile: Profile, past: _Past, claim: Claim | None, now: float) -> Signs:
        heard = (past.last_received, claim.heard if claim else None)
        interval = expected_interval(profile.quota, profile.period, claim.interval_ms if claim else None)
        patient = patience(interval, self._silent_seconds)
        return Signs(
            revoked=info.state == REVOKED,
            exposed=past.exposed is not None,
            left=None if profile.lifetime is None else max(0, profile.lifetime - (past.last_number or 0)),
            claimed_state=claim.state if claim else None,
            claimed_left=claim.left if claim else None,
            failing=claim.failing if claim else None,
            heard=last_heard(heard, now=now, patience=patient),
            interval=interval,
            patience=patient,
        )


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
        "group": device.group or None,
        "state": known.standing.label,
        "note": device.note,
        "created": device.created,
        "last_number": past.last_number,
        "first_received": moment_or_none(past.first_received),
        "last_received": moment_or_none(past.last_received),
        "last_heard": moment_or_none(known.signs.heard),
        "silent_after_seconds": known.signs.patience,
        "exposed": past.exposed,
        "exposed_at": moment_or_none(past.exposed_at),
        "withdrawn": past.withdrawn,
        "left": known.signs.left,
        "claims": None if claim is None else _claims(claim),
        "reports": {verdict.label: count for verdict, count in reports.items()},
        "counted": counted,
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
        )
        for device, number, first, last, cause, when, withdrawn in columns
    }
