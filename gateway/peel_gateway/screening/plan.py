# SPDX-License-Identifier: MIT
"""The plan of a batch: every report's verdict, and all effects that are to be written. Nothing is changed here.

The layers are run in order on arrays with one entry per report; device states are copies with one entry per device heard ("heard devices").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from peel_core import Opened, index_many
from peel_gateway.screening import effects, eprocess, freshness, gaps, screen
from peel_gateway.screening.book import Book, Change
from peel_gateway.screening.clock import Moment
from peel_gateway.screening.evidence import Case, device_exposure, report_exposures
from peel_gateway.screening.screen import OPEN
from peel_gateway.screening.verdict import BLAMED, LOGGED, Verdict
from peel_gateway.storage.store import BatchWrite, Exposure, GapTable, LogTable, Transaction

__all__ = ["ExposedDevice", "Letter", "Plan", "Policy", "plan_batch"]

Ints = npt.NDArray[np.int64]


class Letter(Protocol):
    """What the plan needs of a message."""

    @property
    def topic(self) -> str: ...

    @property
    def payload(self) -> bytes: ...

    @property
    def received(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The engine's settings that decide verdicts."""

    residual_limit: float
    alpha: float
    withdraw_faulty: bool
    number_allowance: int


@dataclass(frozen=True)
class ExposedDevice:
    """A device that this batch exposed."""

    device: int
    cause: Verdict
    withdrawn: bool
    """Whether its reports, past and future, do not count."""


@dataclass(frozen=True)
class Plan:
    """All effects of a batch, for the store and for the book."""

    write: BatchWrite
    change: Change
    exposed_devices: list[ExposedDevice]


def plan_batch(
    messages: Sequence[Letter],
    opened: Opened,
    *,
    book: Book,
    gammas: Sequence[npt.NDArray[np.float32]],
    revoked: Ints,
    policy: Policy,
    transaction: Transaction,
    moment: Moment,
    bucket_seconds: int,
) -> Plan:
    """Screen a batch against the book."""
    batch = _Planner(messages, opened, book, policy, transaction, moment)
    batch.front(revoked)
    batch.freshness()
    batch.content(gammas)
    batch.blame()
    batch.statistics()
    return batch.finish(bucket_seconds)


class _Planner:
    """The arrays of a batch while its layers are run; one method per stage, called in order."""

    def __init__(
        self,
        messages: Sequence[Letter],
        opened: Opened,
        book: Book,
        policy: Policy,
        transaction: Transaction,
        moment: Moment,
    ) -> None:
        self.messages, self.opened, self.book, self.policy = messages, opened, book, policy
        self.transaction, self.moment = transaction, moment
        self.number = opened.number.astype(np.int64)
        received = np.array([max(0, round(message.received * 1000)) for message in messages], np.int64)
        self.received: Ints = received[opened.message]
        self.slot = opened.slot.astype(np.int64)
        self.cohort = np.zeros(len(opened), np.int64)
        self.late = np.zeros(len(opened), np.int64)
        self.allowed = np.zeros(len(opened), np.int64)
        self.reached = np.zeros(len(opened), np.int64)
        self.exposed: list[tuple[int, Verdict]] = []
        self.device_cases: list[Exposure] = []

    # ---- who speaks: the layers that need no state ----

    def front(self, revoked: Ints) -> None:
        opened = self.opened
        self.verdicts = screen.judge_front(opened, np.isin(opened.device.astype(np.int64), revoked))
        sealed = screen.authenticated(opened, self.verdicts)
        # Whoever has sealed once is not believed without a seal: a downgrade would be a forgery.
        seals = self.book.states["sealed"].copy()
        seals[self.slot[sealed]] = 1
        unsealed = np.flatnonzero((self.verdicts == OPEN) & ~sealed)
        self.verdicts[unsealed[seals[self.slot[unsealed]] != 0]] = Verdict.UNSEALED
        self.body = effects.bodies([message.payload for message in self.messages], opened, self.verdicts == OPEN)
        self._hear(seals)

    def _hear(self, seals: Ints) -> None:
        """Copy the states of the devices that speak in this batch, and begin those of new ones."""
        speaking = self.verdicts == OPEN
        self.heard = np.unique(self.slot[speaking])
        self.before = self.book.gather(self.heard)
        self.states = {name: column.copy() for name, column in self.before.items()}
        self.at = np.where(speaking, np.searchsorted(self.heard, self.slot), 0)
        self.states["sealed"] = seals[self.heard]
        lowest = np.full(len(self.heard), np.iinfo(np.int64).max)
        np.minimum.at(lowest, self.at[speaking], self.number[speaking])
        new = self.states["first_number"] == 0
        self.states["first_number"][new] = lowest[new]
        self.states["first_tick"][new] = self.moment.tick
        self.states["settled"][new] = lowest[new] - 1
        if not self.moment.behind:  # else nobody knows for how long the old quota was in force
            self._follow_quota()

    def _follow_quota(self) -> None:
        """Fill the buckets of devices whose profile has changed by the new quota, from now on."""
        states, (quota, period) = self.states, self.book.profile_columns(self.heard)
        differs = (states["quota"] != quota) | (states["period"] != period)
        changed = np.flatnonzero(differs & (states["quota"] != 0))
        states["first_number"][changed] = freshness.rebased(
            states["first_number"][changed],
            self.moment.tick - states["first_tick"][changed],
            (states["quota"][changed], states["period"][changed]),
            (quota[changed], period[changed]),
        )
        states["first_tick"][changed] = self.moment.tick
        states["quota"], states["period"] = quota, period

    # ---- freshness ----

    def freshness(self) -> None:
        rows = np.flatnonzero(self.verdicts == OPEN)
        stale = self.number[rows] <= self.states["low_water"][self.at[rows]]
        self.verdicts[rows[stale]] = Verdict.STALE
        rows = rows[~stale]
        device, number = self.opened.device[rows].astype(np.int64), self.number[rows]
        logged, logged_body = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.int64)
        maybe = number <= self.states["last_number"][self.at[rows]]  # a number above the largest was never logged
        logged[maybe], logged_body[maybe] = self.transaction.bodies(device[maybe], number[maybe])
        repeat = freshness.repeats(device, number, self.body[rows], logged, logged_body)
        self.verdicts[rows[repeat == freshness.Repeat.SAME]] = Verdict.REDELIVERED
        self.verdicts[rows[repeat == freshness.Repeat.OTHER]] = Verdict.REUSED
        if not self.moment.behind:
            self._judge_flood(rows)

    def _judge_flood(self, rows: Ints) -> None:
        """Object to devices that have come too far: with this number, or while nobody knew how far they might (clock behind)."""
        self.allowed[rows] = self._last_allowed()[self.at[rows]]
        self.reached[rows] = np.maximum(self.number[rows], self.states["last_number"][self.at[rows]])
        screen.object_to(self.verdicts, self.reached > self.allowed, Verdict.FLOOD)

    def _last_allowed(self) -> Ints:
        """The larger of two bounds: since first contact, and since enrolment at number 1.

        A network that delivers an old report first makes a device look fast since first contact; the other bound it cannot touch.
        """
        quota, period = self.states["quota"], self.states["period"]
        allowance = self.policy.number_allowance
        first, ones = self.states["first_number"], np.ones(len(self.heard), np.int64)
        since_contact = freshness.last_allowed(
            first, self.moment.tick - self.states["first_tick"], quota, period, allowance
        )
        enrolled = self.book.enrolled[self.heard]
        since_enrolment = freshness.last_allowed(ones, self.moment.wall - enrolled, quota, period, allowance)
        return np.maximum(since_contact, np.where(enrolled > 0, since_enrolment, 0))

    # ---- rule, support, structure ----

    def content(self, gammas: Sequence[npt.NDArray[np.float32]]) -> None:
        profiles = self.book.keyring.profiles
        self.decoded = screen.decode(self.opened, profiles, gammas)
        screen.judge_content(self.verdicts, self.opened, self.decoded, profiles, self.policy.residual_limit)

    # ---- who is to blame ----

    def blame(self) -> None:
        """Expose the devices of faulty reports; what else a withdrawn device sends does not count."""
        faulty = np.flatnonzero(np.isin(self.verdicts, [int(verdict) for verdict in BLAMED]))
        devices, first = np.unique(self.at[faulty], return_index=True)
        self._expose(devices, self.verdicts[faulty[first]], withdraw=self.policy.withdraw_faulty)
        gone = self.states["withdrawn"][self.at] != 0 if len(self.heard) else np.zeros(len(self.opened), np.bool_)
        screen.object_to(self.verdicts, gone, Verdict.WITHDRAWN)

    def _expose(self, devices: Ints, causes: Ints, *, withdraw: bool) -> None:
        """Mark heard devices; the first cause stays."""
        new = self.states["cause"][devices] == 0
        self.states["cause"][devices[new]] = causes[new]
        self.states["cause_time"][devices[new]] = self.moment.seen
        news = new
        if withdraw:
            news = new | (self.states["withdrawn"][devices] == 0)
            self.states["withdrawn"][devices] = 1
        self.exposed += [
            (int(device), Verdict(int(cause))) for device, cause in zip(devices[news], causes[news], strict=True)
        ]

    # ---- statistics ----

    def statistics(self) -> None:
        """Count the open reports and new gaps as evidence, and judge the devices that they are about."""
        self._advance()
        self.gaps = self._settle()
        self.added: list[tuple[Ints, Ints]] = []
        for position, profile in enumerate(self.book.keyring.profiles):
            self._toss(position)
            devices, added = self._evidence(position)
            rows = self.book.row_of[self.heard[devices]]
            counts = self.book.evidence[position][rows] + added
            tipped = eprocess.crossed(profile, counts, self.policy.alpha) & (self.states["withdrawn"][devices] == 0)
            self._convict(position, devices[tipped], counts[tipped])
            self.added.append((rows, added))
        self.verdicts[self.verdicts == OPEN] = Verdict.ACCEPTED

    def _advance(self) -> None:
        """Note the largest number that will be in the log."""
        self.entering = np.isin(self.verdicts, [OPEN, *(int(verdict) for verdict in LOGGED)])
        at, number, received = self.at[self.entering], self.number[self.entering], self.received[self.entering]
        np.maximum.at(self.states["last_number"], at, number)
        np.maximum.at(self.states["last_received"], at, received)
        new = self.states["first_received"] == 0
        self.states["first_received"][new] = self.states["last_received"][new]

    def _settle(self) -> GapTable:
        """Settle numbers that are no longer expected, and find the attributes that the missing ones assign."""
        keyring = self.book.keyring
        harmony = np.array([profile.mechanism == "harmony" for profile in keyring.profiles], np.bool_)
        settled = np.maximum(self.states["settled"], self.states["low_water"])  # below it the log is gone
        upto = gaps.settle_to(settled, self.states["last_number"])
        upto = np.where(self.states["withdrawn"] == 0, upto, settled)
        mine = np.flatnonzero((upto > settled) & harmony[keyring.profile_of[self.heard]])
        ids = keyring.device_ids[self.heard].astype(np.int64)
        logged = self.transaction.numbers(ids[mine], np.maximum(settled, upto - gaps.LIMIT)[mine], upto[mine])
        seen_device = np.concatenate([logged[0], ids[self.at[self.entering]]]) if len(mine) else logged[0]
        seen_number = np.concatenate([logged[1], self.number[self.entering]]) if len(mine) else logged[1]
        device, number = gaps.missing(ids[mine], settled[mine], upto[mine], seen_device, seen_number)
        self.late[self.entering] = self.number[self.entering] <= settled[self.at[self.entering]]
        self.states["settled"] = upto
        slot = np.searchsorted(keyring.device_ids, device.astype(np.uint32))
        position = keyring.profile_of[slot]
        index = np.zeros(len(device), np.int64)
        profile_id = np.zeros(len(device), np.int64)
        for each in np.unique(position):
            of = position == each
            profile = keyring.profiles[each]
            index[of] = index_many(profile, device[of], keyring.index_keys[slot[of]], number[of])
            profile_id[of] = profile.id
        return GapTable(device, number, profile_id, index)

    def _toss(self, position: int) -> None:
        """Note the cohort's sign before this batch beside each toss: the agreement bets are about it."""
        if self.book.keyring.profiles[position].mechanism == "harmony":
            rows = (self.verdicts == OPEN) & (self.opened.profile == position)
            self.cohort[rows] = np.sign(self.book.totals[position])[self.decoded.index[rows]]

    def _evidence(self, position: int) -> tuple[Ints, Ints]:
        """Return the heard devices of a profile with news, and what to add to their counts, int64[R, k, 6]."""
        keyring = self.book.keyring
        profile = keyring.profiles[position]
        rows = np.flatnonzero((self.verdicts == OPEN) & (self.opened.profile == position))
        of = self.gaps.profile == profile.id
        slots = np.searchsorted(keyring.device_ids, self.gaps.device[of].astype(np.uint32))
        gap_at = np.searchsorted(self.heard, slots)
        devices = np.unique(np.concatenate([self.at[rows], gap_at]))
        added = np.zeros((len(devices), profile.k, 6), np.int64)
        row, index = np.searchsorted(devices, self.at[rows]), self.decoded.index[rows]
        sign, cohort = self.decoded.sign[rows], self.cohort[rows]
        facts = (sign > 0, sign < 0, sign == cohort, sign == -cohort, self.late[rows] == 0)
        for column, fact in enumerate(facts):
            np.add.at(added[..., column], (row, index), fact)
        np.add.at(added[..., 5], (np.searchsorted(devices, gap_at), self.gaps.index[of]), 1)
        return devices, added

    def _convict(self, position: int, devices: Ints, counts: Ints) -> None:
        """Expose devices whose wealth has crossed the limit: the reports that tipped it do not count."""
        profile = self.book.keyring.profiles[position]
        for device, device_counts in zip(devices, counts, strict=True):
            self.device_cases.append(
                device_exposure(profile, self._id(int(device)), device_counts, self.policy.alpha, self.moment.seen)
            )
        mine = np.isin(self.at, devices) & (self.opened.profile == position)
        screen.object_to(self.verdicts, mine, Verdict.STATISTICS)
        self._expose(devices, np.full(len(devices), int(Verdict.STATISTICS)), withdraw=True)

    def _id(self, at: int) -> int:
        return int(self.book.keyring.device_ids[self.heard[at]])

    # ---- all effects ----

    def finish(self, bucket_seconds: int) -> Plan:
        keyring = self.book.keyring
        exposures = self._exposures()
        values, numbers = np.unique(self.verdicts, return_counts=True)
        counted = self.verdicts == Verdict.ACCEPTED
        tallies = effects.tallies(
            keyring.profiles,
            self.opened.profile[counted].astype(np.int64),
            self.received[counted] // 1000 // bucket_seconds * bucket_seconds,
            self.decoded.index[counted],
            self.decoded.sign[counted],
        )
        newly = (self.states["withdrawn"] != 0) & (self.before["withdrawn"] == 0)
        changed = np.zeros(len(self.heard), np.bool_)
        for name, column in self.states.items():
            changed |= column != self.before[name]
        write = BatchWrite(
            log=self._log(),
            devices=self.book.table(
                self.heard[changed], {name: column[changed] for name, column in self.states.items()}
            ),
            evidence=effects.evidence_table(keyring, self.added),
            tallies=tallies,
            gaps=self.gaps,
            exposures=exposures,
            withdrawn=keyring.device_ids[self.heard[newly]].tolist(),
            counts={Verdict(int(value)): int(count) for value, count in zip(values, numbers, strict=True)},
            moment=self.moment,
        )
        exposed = [ExposedDevice(self._id(at), cause, bool(self.states["withdrawn"][at])) for at, cause in self.exposed]
        totals = effects.net_totals(keyring.profiles, tallies)
        return Plan(write, Change(self.heard, self.states, self.added, totals), exposed)

    def _log(self) -> LogTable:
        rows = np.flatnonzero(np.isin(self.verdicts, [int(verdict) for verdict in LOGGED]))
        ids = np.array([profile.id for profile in self.book.keyring.profiles], np.int64)
        sign = self.decoded.sign[rows]
        return LogTable(
            device=self.opened.device[rows].astype(np.int64),
            number=self.number[rows],
            profile=ids[self.opened.profile[rows]],
            received=self.received[rows],
            verdict=self.verdicts[rows],
            index=self.decoded.index[rows],
            sign=np.where(sign == 0, 1, sign),  # undecodable: one row all the same
            cohort=self.cohort[rows],
            late=self.late[rows],
            body=self.body[rows],
        )

    def _exposures(self) -> list[Exposure]:
        """Build exposures with their evidence; bytes that were exposed before are a redelivery."""
        case = Case(
            messages=self.messages,
            opened=self.opened,
            decoded=self.decoded,
            verdicts=self.verdicts,
            received=self.received,
            allowed=self.allowed,
            reached=self.reached,
            profiles=self.book.keyring.profiles,
        )
        rows, exposures = report_exposures(case)
        digests = [exposure.digest for exposure in exposures]
        known = self.transaction.known_digests([digest for digest in digests if digest is not None])
        fresh = []
        for row, exposure, digest in zip(rows, exposures, digests, strict=True):
            if digest is not None and digest in known:
                self.verdicts[row] = Verdict.REDELIVERED
                continue
            if digest is not None:
                known.add(digest)
            fresh.append(exposure)
        return fresh + self.device_cases
