# SPDX-License-Identifier: MIT
"""The devices as plain tables: what the registry, their reports and they themselves say of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from string import hexdigits

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.answers.table import Table, moment
from peel_gateway.fleet.claims import Claim, claim_table
from peel_gateway.fleet.registry import REVOKED, Device
from peel_gateway.fleet.snapshot import Snapshot
from peel_gateway.model.standing import Signs, Standing, last_heard, patience
from peel_gateway.model.tables import DeviceTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.store import Archive

__all__ = ["DeviceFilter", "DeviceList", "Muster"]

Ints = npt.NDArray[np.int64]

_AT_ONCE = 500
_DIGITS = 8


@dataclass(frozen=True, kw_only=True)
class DeviceFilter:
    """Which devices to list; unset fields match all."""

    profile: str | None = None
    group: str | None = None
    state: Standing | None = None
    find: str = ""
    """Part of an id or of a note, in small letters."""
    after: int = 0
    limit: int = 100


_SUMMED = ("dropped", "unconfirmed", "refused_receipts", "lost", "skipped", "throttled", "faults")


@dataclass(frozen=True, kw_only=True)
class Muster:
    """The devices counted."""

    states: Mapping[Standing, int]
    claimed: Mapping[str, int]
    """What they say of themselves, summed: frames dropped or lost, readings skipped, sources of randomness refused, and so on."""


@dataclass(frozen=True, slots=True)
class _Past:
    """What a device's reports have left in the store; times in Unix seconds."""

    last_number: int | None = None
    first_received: float | None = None
    last_received: float | None = None
    exposed: str | None = None
    exposed_at: float | None = None
    withdrawn: bool = False


_NO_PAST = _Past()


@dataclass(frozen=True, slots=True)
class _Known:
    device: Device
    past: _Past
    claim: Claim | None
    signs: Signs
    standing: Standing


class DeviceList:
    """The devices of a fleet.

    Parameters
    ----------
    claims : callable
        The last that a device said of itself, if anything.
    silent_seconds : float
        For how long nothing need be heard of any device.
    """

    def __init__(
        self,
        store: Archive,
        snapshot: Callable[[], Snapshot],
        claims: Callable[[int], Claim | None],
        *,
        silent_seconds: float,
    ) -> None:
        self._store = store
        self._snapshot = snapshot
        self._claims = claims
        self._silent_seconds = silent_seconds

    def page(self, which: DeviceFilter) -> Table:
        """A page of devices by id; `next` continues it."""
        roll = self._snapshot().devices
        chosen = roll.each(
            lambda about: which.profile in (None, about.profile) and which.group in (None, about.group), np.bool_
        )
        if which.find:
            noted = roll.each(lambda about: which.find in about.note.lower(), np.bool_)
            chosen &= noted | _spelled(roll.ids, which.find)
        found = self._known(np.flatnonzero(chosen & (roll.ids > which.after)))
        page = list(islice((known for known in found if which.state in (None, known.standing)), which.limit))
        rows = self._rows(page)
        return {"items": rows, "next": rows[-1]["device"] if len(rows) == which.limit else None}

    def _rows(self, page: Sequence[_Known]) -> list[Table]:
        """What is told of some devices, with what became of their reports."""
        ids = np.array([known.device.id for known in page], np.int64)
        forfeited, reports = self._store.forfeited_reports(ids), self._store.device_reports(ids)
        rows = []
        for known in page:
            mine = reports.get(known.device.id, {})
            counted = 0 if known.past.withdrawn else mine.get(Verdict.ACCEPTED, 0) - forfeited.get(known.device.id, 0)
            rows.append(_row(known) | {"reports": _labelled(mine), "counted": counted})
        return rows

    def muster(self) -> Muster:
        """All devices counted."""
        states: Counter[Standing] = Counter()
        claimed: Counter[str] = Counter()
        for known in self._known(np.arange(len(self._snapshot().devices))):
            states[known.standing] += 1
            if known.claim is not None:
                claimed.update({name: getattr(known.claim, name) or 0 for name in _SUMMED})
                claimed["refused"] += len(known.claim.refused or ())
        return Muster(
            states={standing: states[standing] for standing in Standing},
            claimed={name: claimed[name] for name in (*_SUMMED, "refused")},
        )

    def _known(self, rows: Ints) -> Iterator[_Known]:
        """What is known of some devices of the roll; looked up some at a time, since there may be a million of them."""
        snapshot = self._snapshot()
        profiles = {profile.name: profile for profile in snapshot.profiles}
        now = time.time()
        for begin in range(0, len(rows), _AT_ONCE):
            devices = [snapshot.devices[row] for row in rows[begin : begin + _AT_ONCE].tolist()]
            pasts = _pasts(self._store.devices(np.array([device.id for device in devices], np.int64)))
            for device in devices:
                past, claim = pasts.get(device.id, _NO_PAST), self._claims(device.id)
                signs = self._signs(device, profiles[device.profile], past, claim, now)
                yield _Known(device, past, claim, signs, signs.standing(now))

    def _signs(self, device: Device, profile: Profile, past: _Past, claim: Claim | None, now: float) -> Signs:
        heard = (past.last_received, claim.heard if claim else None)
        patient = patience(profile.quota, profile.period, claim.interval_ms if claim else None, self._silent_seconds)
        return Signs(
            revoked=device.state == REVOKED,
            exposed=past.exposed is not None,
            left=None if profile.lifetime is None else max(0, profile.lifetime - (past.last_number or 0)),
            claimed_state=claim.state if claim else None,
            claimed_left=claim.left if claim else None,
            heard=last_heard(heard, now=now, patience=patient),
            patience=patient,
        )


def _spelled(ids: npt.NDArray[np.uint32], part: str) -> npt.NDArray[np.bool_]:
    """Which ids have a part in their eight hexadecimal digits, bool[D]; without spelling any of what may be a million."""
    found = np.zeros(len(ids), np.bool_)
    if len(part) <= _DIGITS and set(part) <= set(hexdigits.lower()):
        for place in range(_DIGITS - len(part) + 1):
            found |= (ids >> np.uint32(4 * place)) & np.uint32(16 ** len(part) - 1) == np.uint32(int(part, 16))
    return found


def _labelled(reports: Mapping[Verdict, int]) -> dict[str, int]:
    return {verdict.label: count for verdict, count in reports.items()}


def _row(known: _Known) -> Table:
    device, past, claim = known.device, known.past, known.claim
    return {
        "device": device.label,
        "profile": device.profile,
        "group": device.group or None,
        "state": known.standing.label,
        "note": device.note,
        "created": device.created,
        "last_number": past.last_number,
        "first_received": _moment(past.first_received),
        "last_received": _moment(past.last_received),
        "last_heard": _moment(known.signs.heard),
        "silent_after_seconds": known.signs.patience,
        "exposed": past.exposed,
        "exposed_at": _moment(past.exposed_at),
        "withdrawn": past.withdrawn,
        "left": known.signs.left,
        "claims": None if claim is None else claim_table(claim) | {"heard": _moment(claim.heard)},
    }


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else moment(seconds)


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
