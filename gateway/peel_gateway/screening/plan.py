# SPDX-License-Identifier: MIT
"""The plan of a batch: every report's verdict, and all effects that are to be written. A pure function: nothing is read, nothing changed.

The engine listens to a batch (`batch.listen`), asks the store what `questions` needs to know, and then plans ::

    batch = listen(messages, opened, book, moment)
    found = transaction.find(questions(batch, book, policy, moment))
    plan(batch, book, found, policy, moment)

The layers are stages in order; each takes the verdicts so far and returns a small result of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import Keyring
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.moment import Moment
from peel_gateway.model.tables import DeviceTable, Effects, Exposure, Found, LogTable, Questions, digest_of
from peel_gateway.model.verdict import BLAMED, LOGGED, Verdict
from peel_gateway.screening import effects, filing, freshness, gaps, layers, statistics
from peel_gateway.screening.batch import Batch
from peel_gateway.screening.book import Book, Change, Played, States
from peel_gateway.screening.conduct import CHECKPOINT_EVENTS
from peel_gateway.screening.exposures import Case, report_exposures
from peel_gateway.screening.layers import OPEN
from peel_gateway.screening.policy import Policy

__all__ = ["ExposedDevice", "Plan", "plan", "questions"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ExposedDevice:
    """A device that this batch exposed."""

    device: int
    cause: Verdict
    withdrawn: bool
    """Whether its reports, past and future, do not count."""
    words: str
    """What speaks against it."""


@dataclass(frozen=True)
class Plan:
    """All effects of a batch, for the store and for the book."""

    effects: Effects
    change: Change
    exposed_devices: list[ExposedDevice]


# ---- what must be known of the log ----


def questions(batch: Batch, book: Book, policy: Policy, moment: Moment) -> Questions:
    """What the plan of this batch needs to know: little for honest reports, whose numbers were never seen and whose bytes are new."""
    rows = _maybe_logged(batch)
    due = _maybe_due(batch, book)
    crowded, filed_from = filing.asked(batch, book, policy.bucket_seconds)
    return Questions(
        device=batch.opened.device[rows].astype(np.int64),
        number=batch.number[rows],
        span_device=book.roster.ids(batch.heard[due]),
        span_above=_settled(batch.states)[due],
        digests=_maybe_held(batch, book, policy, moment),
        filed_device=book.roster.ids(batch.heard[crowded]),
        filed_from=filed_from,
    )


def _maybe_logged(batch: Batch) -> Ints:
    """Open reports whose number may be in the log; one above the largest was never logged."""
    known = batch.number <= batch.states["last_number"][batch.at] if len(batch.heard) else False
    return np.flatnonzero((batch.verdicts == OPEN) & ~_stale(batch) & known)


def _stale(batch: Batch) -> Bools:
    if not len(batch.heard):
        return np.zeros(len(batch.opened), np.bool_)
    return np.asarray((batch.verdicts == OPEN) & (batch.number <= batch.states["low_water"][batch.at]))


def _maybe_due(batch: Batch, book: Book) -> Ints:
    """Heard devices whose gaps this batch may settle."""
    last = batch.states["last_number"].copy()
    speaking = batch.verdicts == OPEN
    np.maximum.at(last, batch.at[speaking], batch.number[speaking])
    settled = _settled(batch.states)
    due = (gaps.settle_to(settled, last) > settled) & (batch.states["withdrawn"] == 0)
    return np.flatnonzero(due & _assigning(book.roster.keyring, batch.heard))


def _maybe_held(batch: Batch, book: Book, policy: Policy, moment: Moment) -> list[bytes]:
    """Digests of pieces that may be held already, under the verdicts that they may get before their content is judged."""
    refused = np.flatnonzero(np.isin(batch.verdicts, _HELD))
    digests = [digest_of(Verdict(int(batch.verdicts[row])), batch.raw(row)) for row in refused.tolist()]
    ahead, _ = _ahead(batch, book, policy, moment)
    for verdict, rows in (
        (Verdict.STALE, np.flatnonzero(_stale(batch))),
        (Verdict.REUSED, _maybe_reused(batch)),
        (Verdict.FLOOD, np.flatnonzero(ahead)),
    ):
        digests += [digest_of(verdict, batch.raw(row)) for row in rows.tolist()]
    return digests


_HELD = [int(verdict) for verdict in Verdict if verdict.layer is not None and verdict not in LOGGED]
"""Verdicts whose pieces are known by their bytes alone."""


def _maybe_reused(batch: Batch) -> Ints:
    """Open reports that may be the second under their number: it is in the log, or twice in the batch."""
    rows = np.flatnonzero((batch.verdicts == OPEN) & ~_stale(batch))
    pairs = np.stack([batch.at[rows], batch.number[rows]], axis=1)
    _, where, times = np.unique(pairs, axis=0, return_inverse=True, return_counts=True)
    return np.union1d(_maybe_logged(batch), rows[times[where.reshape(-1)] > 1])


# ---- freshness ----


@dataclass(frozen=True)
class _Fresh:
    verdicts: Ints
    allowed: Ints
    """Largest number that the device may have reached, 0 where that was not judged."""
    reached: Ints


def _judge_freshness(batch: Batch, book: Book, found: Found, policy: Policy, moment: Moment) -> _Fresh:
    verdicts = batch.verdicts.copy()
    layers.object_to(verdicts, _stale(batch), Verdict.STALE)
    rows = np.flatnonzero(verdicts == OPEN)
    logged, logged_body = np.zeros(len(verdicts), np.bool_), np.zeros(len(verdicts), np.int64)
    asked = _maybe_logged(batch)
    logged[asked], logged_body[asked] = found.logged, found.body
    device = batch.opened.device[rows].astype(np.int64)
    repeat = freshness.repeats(device, batch.number[rows], batch.body[rows], logged[rows], logged_body[rows])
    verdicts[rows[repeat == freshness.Repeat.SAME]] = Verdict.REDELIVERED
    verdicts[rows[repeat == freshness.Repeat.OTHER]] = Verdict.REUSED
    ahead, allowed = _ahead(batch, book, policy, moment)
    layers.object_to(verdicts, ahead, Verdict.FLOOD)
    reached = np.zeros(len(verdicts), np.int64)
    if len(batch.heard):
        reached[rows] = np.maximum(batch.number[rows], batch.states["last_number"][batch.at[rows]])
    return _Fresh(verdicts, allowed, reached)


def _ahead(batch: Batch, book: Book, policy: Policy, moment: Moment) -> tuple[Bools, Ints]:
    """Devices that have come too far, with this number or while nobody knew how far they might (clock behind), and how far they may."""
    judged = (batch.verdicts == OPEN) & ~_stale(batch)
    if moment.behind or not len(batch.heard):
        return np.zeros(len(judged), np.bool_), np.zeros(len(judged), np.int64)
    allowed = np.where(judged, _last_allowed(batch, book, policy, moment)[batch.at], 0)
    reached = np.maximum(batch.number, batch.states["last_number"][batch.at])
    return judged & (reached > allowed), allowed


def _last_allowed(batch: Batch, book: Book, policy: Policy, moment: Moment) -> Ints:
    """The larger of two bounds: since first contact, and since the device's bundle was made, at the bundle's first number.

    A network that delivers an old report first makes a device look fast since first contact; the other bound it cannot touch. Where
    nobody knows when that was, or the clocks say that it is yet to come, a device is granted more at first contact.
    """
    states, roster = batch.states, book.roster
    quota, period = states["quota"], states["period"]
    issued, first = roster.issued[batch.heard], roster.issued_number[batch.heard]
    known = (issued > 0) & (issued <= moment.wall)
    allowance = policy.number_allowance + np.where(known, 0, freshness.UNKNOWN_ALLOWANCE)
    contact = moment.tick - states["first_tick"]
    since_contact = freshness.last_allowed(states["first_number"], contact, quota, period, allowance)
    since_issue = freshness.last_allowed(first, moment.wall - issued, quota, period, allowance)
    return np.maximum(since_contact, np.where(known, since_issue, 0))


# ---- who is to blame ----


@dataclass(frozen=True)
class _Standing:
    """Device states with their exposures, and which exposures are new."""

    states: States
    exposed: tuple[tuple[int, Verdict], ...] = ()
    """Positions among the heard devices, with what exposed them."""


def _expose(standing: _Standing, devices: Ints, causes: Ints, *, withdraw: bool, moment: Moment) -> _Standing:
    """Mark heard devices; the first cause stays."""
    states = standing.states
    cause, when, withdrawn = (states[name].copy() for name in ("cause", "cause_time", "withdrawn"))
    new = cause[devices] == 0
    cause[devices[new]] = causes[new]
    when[devices[new]] = moment.seen
    news = new
    if withdraw:
        news = new | (withdrawn[devices] == 0)
        withdrawn[devices] = 1
    exposed = [(int(at), Verdict(int(why))) for at, why in zip(devices[news], causes[news], strict=True)]
    return _Standing(
        states | {"cause": cause, "cause_time": when, "withdrawn": withdrawn}, (*standing.exposed, *exposed)
    )


def _blame(batch: Batch, verdicts: Ints, policy: Policy, moment: Moment) -> tuple[Ints, _Standing]:
    """Expose the devices of faulty reports; what else a withdrawn device sends does not count."""
    verdicts = verdicts.copy()
    faulty = np.flatnonzero(np.isin(verdicts, [int(verdict) for verdict in BLAMED]))
    devices, first = np.unique(batch.at[faulty], return_index=True)
    causes = verdicts[faulty[first]]
    standing = _expose(_Standing(batch.states), devices, causes, withdraw=policy.withdraw_faulty, moment=moment)
    if len(batch.heard):
        layers.object_to(verdicts, standing.states["withdrawn"][batch.at] != 0, Verdict.WITHDRAWN)
    return verdicts, standing


# ---- numbers ----


@dataclass(frozen=True)
class _Numbers:
    """Numbers that enter the log, and numbers that are no longer expected."""

    states: States
    gaps: statistics.Gaps
    late: Ints


def _settled(states: States) -> Ints:
    """Up to where numbers have been settled; below the low-water mark the log is gone."""
    return np.maximum(states["settled"], states["low_water"])


def _assigning(keyring: Keyring, slots: Ints) -> Bools:
    assigns = np.array([mechanism_of(profile).assigns for profile in keyring.profiles], np.bool_)
    return np.asarray(assigns[keyring.profile_of[slots]], dtype=np.bool_)


def _settle(batch: Batch, book: Book, found: Found, verdicts: Ints, states: States) -> _Numbers:
    """Note the largest numbers, settle those that are no longer expected, and find the attributes that the missing ones assign."""
    roster = book.roster
    entering = np.isin(verdicts, [OPEN, *(int(verdict) for verdict in LOGGED)])
    at, number = batch.at[entering], batch.number[entering]
    states = _advance(states, at, number, batch.received[entering])
    settled = _settled(states)
    upto = np.where(states["withdrawn"] == 0, gaps.settle_to(settled, states["last_number"]), settled)
    mine = np.flatnonzero((upto > settled) & _assigning(roster.keyring, batch.heard))
    ids = roster.ids(batch.heard)
    device, missing = gaps.missing(
        ids[mine],
        settled[mine],
        upto[mine],
        np.concatenate([found.span_device, ids[at]]),
        np.concatenate([found.span_number, number]),
    )
    late = np.zeros(len(verdicts), np.int64)
    late[entering] = number <= settled[at]
    return _Numbers(states | {"settled": upto}, statistics.find_gaps(roster, device, missing), late)


def _advance(states: States, at: Ints, number: Ints, received: Ints) -> States:
    """Note the largest number that will be in the log, and when devices were heard."""
    last_number, last_received = states["last_number"].copy(), states["last_received"].copy()
    np.maximum.at(last_number, at, number)
    np.maximum.at(last_received, at, received)
    first_received = np.where(states["first_received"] == 0, last_received, states["first_received"])
    return states | {
        "last_number": last_number,
        "last_received": last_received,
        "first_received": first_received,
    }


# ---- all effects ----


def plan(batch: Batch, book: Book, found: Found, policy: Policy, moment: Moment) -> Plan:
    """Screen a batch against the book and what was found in the log."""
    roster = book.roster
    profiles = roster.keyring.profiles
    fresh = _judge_freshness(batch, book, found, policy, moment)
    verdicts = layers.judge_content(fresh.verdicts, batch.opened, batch.decoded, profiles, policy.residual_limit)
    verdicts, standing = _blame(batch, verdicts, policy, moment)
    numbers = _settle(batch, book, found, verdicts, standing.states)
    judged = statistics.judge(batch, book, verdicts, numbers.states, numbers.gaps, numbers.late, policy, moment)
    standing = _expose(
        _Standing(numbers.states, standing.exposed),
        judged.convicted,
        np.full(len(judged.convicted), int(Verdict.STATISTICS)),
        withdraw=True,
        moment=moment,
    )
    case = Case(batch=batch, verdicts=judged.verdicts, allowed=fresh.allowed, reached=fresh.reached, profiles=profiles)
    verdicts, exposures = _exhibit(case, found)
    counted = verdicts == Verdict.ACCEPTED
    filed = filing.file_reports(batch, book, found, counted, standing.states, policy.bucket_seconds)
    tallies = effects.tallies(
        profiles,
        batch.opened.profile[counted].astype(np.int64),
        filed.bucket[counted],
        batch.cell[counted],
        batch.decoded.sign[counted],
    )
    values, times = np.unique(verdicts, return_counts=True)
    log, gap_table, states = effects.in_order(
        _log(batch, book, verdicts, judged.cohort, numbers.late, filed.bucket),
        numbers.gaps.table,
        book.roster.ids(batch.heard),
        filed.states,
    )
    played = _checkpointed(batch, book, states, judged)
    newly = (states["withdrawn"] != 0) & (batch.before["withdrawn"] == 0)
    written = Effects(
        log=log,
        devices=_changed_devices(batch, book, states),
        conduct=effects.conduct_table(roster, book.conduct, played),
        tallies=tallies,
        filed=filed.table,
        gaps=gap_table,
        exposures=[*exposures, *judged.cases],
        withdrawn=roster.ids(batch.heard[newly]).tolist(),
        counts={Verdict(int(value)): int(count) for value, count in zip(values, times, strict=True)},
        moment=moment,
    )
    change = Change(batch.heard, states, played, effects.net_totals(profiles, tallies))
    return Plan(written, change, _exposed_devices(batch, book, standing, judged.cases))


def _checkpointed(batch: Batch, book: Book, states: States, judged: statistics.Judged) -> list[Played]:
    """The new states of the bets, and which of them are to be stored: the first, every so many events, and the last one that matters."""
    result = []
    for conduct, (devices, new) in zip(book.conduct, judged.played, strict=True):
        rows, arrival = conduct.rows(batch.heard[devices]), states["arrivals"][devices]
        before = conduct.checkpoint[rows]
        stored = (before < 0) | (arrival - before >= CHECKPOINT_EVENTS) | np.isin(devices, judged.convicted)
        result.append(Played(rows, new, stored, arrival))
    return result


def _exposed_devices(batch: Batch, book: Book, standing: _Standing, cases: Sequence[Exposure]) -> list[ExposedDevice]:
    ids = book.roster.ids(batch.heard)
    words = {case.device: str(case.evidence["words"]) for case in cases}
    withdrawn = standing.states["withdrawn"]
    return [
        ExposedDevice(
            int(ids[at]),
            cause,
            bool(withdrawn[at]),
            words[int(ids[at])] if cause is Verdict.STATISTICS else cause.sentence,
        )
        for at, cause in standing.exposed
    ]


def _changed_devices(batch: Batch, book: Book, states: States) -> DeviceTable:
    """New states of the devices that this batch changed."""
    changed = np.zeros(len(batch.heard), np.bool_)
    for name, column in states.items():
        changed |= column != batch.before[name]
    return DeviceTable(
        device=book.roster.ids(batch.heard[changed]), **{name: column[changed] for name, column in states.items()}
    )


def _log(batch: Batch, book: Book, verdicts: Ints, cohort: Ints, late: Ints, bucket: Ints) -> LogTable:
    rows = np.flatnonzero(np.isin(verdicts, [int(verdict) for verdict in LOGGED]))
    sign = batch.decoded.sign[rows]
    return LogTable(
        device=batch.opened.device[rows].astype(np.int64),
        number=batch.number[rows],
        profile=book.roster.profile_ids()[batch.opened.profile[rows]],
        received=batch.received[rows],
        verdict=verdicts[rows],
        index=batch.cell[rows],
        sign=np.where(sign == 0, 1, sign),  # undecodable: one row all the same
        cohort=cohort[rows],
        late=late[rows],
        body=batch.body[rows],
        bucket=bucket[rows],
        arrival=np.zeros(len(rows), np.int64),
    )


def _exhibit(case: Case, found: Found) -> tuple[Ints, Sequence[Exposure]]:
    """Build exposures of reports with what was seen; bytes that were exposed before are a redelivery."""
    verdicts = case.verdicts.copy()
    known = set(found.digests)
    fresh = []
    for row, exposure in report_exposures(case):
        digest = exposure.digest
        if digest is not None and digest in known:
            verdicts[row] = Verdict.REDELIVERED
            continue
        if digest is not None:
            known.add(digest)
        fresh.append(exposure)
    return verdicts, fresh
