# SPDX-License-Identifier: MIT
"""Judge a batch: give every report its verdict, and collect all effects to be written.

`judge` reads from nowhere and changes one thing: the test states in the cache, in place, since copies would cost more than all the rest.
So a cache that a batch was judged against is kept if the batch is committed, and thrown away otherwise.

The engine loads the devices that report into the cache, decodes the batch, prechecks it, asks the store, and judges ::

    verdicts = front(opened, context)
    cache.load(absent, transaction.devices(...), transaction.device_tests(...))
    batch = listen(messages, opened, verdicts, cache, moment)
    prechecked = precheck(batch, cache, policy, moment)
    judge(prechecked, transaction.find(prechecked.questions))

The layers are stages in order; each takes the verdicts so far and returns a small result of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from peel_core import Keyring
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.coins import HELD, Records
from peel_gateway.model.exposure import Exposure
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.grouping import rows_where
from peel_gateway.model.tables import (
    LOG_COLUMNS,
    MOVING_COLUMNS,
    DeviceIds,
    DeviceStates,
    DeviceTable,
    Effects,
    Found,
    LogTable,
    Positions,
    Slots,
)
from peel_gateway.model.verdict import BLAMED, LOGGED, Verdict
from peel_gateway.screening import bucketing, effects, layers, statistics
from peel_gateway.screening import numbers as gaps
from peel_gateway.screening.batch import Batch, Revealed
from peel_gateway.screening.counting import masked_answers
from peel_gateway.screening.layers import OPEN, Policy
from peel_gateway.screening.numbers import enter, used_numbers, with_used
from peel_gateway.screening.precheck import Precheck
from peel_gateway.screening.state_cache import Change, Played, StateCache

__all__ = ["ExposedDevice", "Judgement", "judge"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_BLAMED, _LOGGED = layers.among(BLAMED), layers.among(LOGGED)


@dataclass(frozen=True)
class ExposedDevice:
    """A device that this batch exposed."""

    device: int
    cause: Verdict
    withdrawn: bool
    """Whether its reports, past and future, do not count."""
    words: str
    """The evidence, in words."""


@dataclass(frozen=True)
class Judgement:
    """All effects of a batch, for the store and for the cache."""

    effects: Effects
    change: Change
    exposed_devices: list[ExposedDevice]
    held: Records
    """Reports that wait for their verified coins, as `HELD` records."""


# ---- who is to blame ----


def _come_again(prechecked: Precheck, found: Found) -> Ints:
    """Return the precheck's verdicts; the same bytes again, held already or earlier in this batch, are a redelivery.

    They have been judged, and blame nobody once more. Otherwise the network could expose a pardoned device with what it was pardoned for.
    """
    verdicts = prechecked.verdicts.copy()
    seen, again = set(found.digests), []
    for digest in prechecked.questions.digests:
        again.append(digest in seen)
        seen.add(digest)
    verdicts[prechecked.held[np.array(again, np.bool_)]] = Verdict.REDELIVERED
    return verdicts


@dataclass(frozen=True)
class _Standing:
    """Device states with their exposures, and which exposures are new."""

    states: DeviceStates
    exposed: tuple[tuple[int, Verdict], ...] = ()
    """Positions among the senders, with what exposed them."""


def _expose(standing: _Standing, devices: Positions, causes: Ints, *, withdraw: bool, moment: GatewayTime) -> _Standing:
    """Mark senders; the first cause stays."""
    if not len(devices):
        return standing
    states = standing.states
    cause, when, withdrawn = states.cause.copy(), states.cause_time.copy(), states.withdrawn.copy()
    new = cause[devices] == 0
    cause[devices[new]] = causes[new]
    when[devices[new]] = moment.seen
    news = new
    if withdraw:
        news = new | (withdrawn[devices] == 0)
        withdrawn[devices] = 1
    exposed = [(int(at), Verdict(int(why))) for at, why in zip(devices[news], causes[news], strict=True)]
    return _Standing(states.changed(cause=cause, cause_time=when, withdrawn=withdrawn), (*standing.exposed, *exposed))


def _blame(batch: Batch, verdicts: Ints, policy: Policy, moment: GatewayTime) -> tuple[Ints, _Standing]:
    """Expose the devices of faulty reports; what else a withdrawn device sends does not count."""
    verdicts = verdicts.copy()
    faulty = rows_where(_BLAMED[verdicts])
    devices, first = np.unique(batch.at[faulty], return_index=True)
    causes = verdicts[faulty[first]]
    standing = _expose(
        _Standing(batch.states), Positions(devices), causes, withdraw=policy.withdraw_faulty, moment=moment
    )
    if len(batch.senders):
        layers.object_to(verdicts, standing.states.withdrawn[batch.at] != 0, Verdict.WITHDRAWN)
    return verdicts, standing


# ---- numbers ----


@dataclass(frozen=True)
class _Numbers:
    """Numbers that enter the log, and numbers that are no longer expected."""

    states: DeviceStates
    gaps: statistics.Gaps
    late: Ints
    revealed: Revealed
    """Numbers that enter the log although no report has them."""


def _assigning(keyring: Keyring, slots: Slots) -> Bools:
    assigns = np.array([questions_of(profile).assigned for profile in keyring.profiles], np.bool_)
    return np.asarray(assigns[keyring.profile_of[slots]], dtype=np.bool_)


def _settle(batch: Batch, cache: StateCache, verdicts: Ints, states: DeviceStates, moment: GatewayTime) -> _Numbers:
    """Use the numbers that enter the log, settle those that are no longer expected, and find what the missing ones assign."""
    entering = _LOGGED[verdicts] | (verdicts == OPEN)
    at, number, settled = Positions(batch.at[entering]), batch.number[entering], states.settled
    revealed = _passed(batch, states.last_number, at, number)
    joined = Positions(np.concatenate([at, revealed.at])), np.concatenate([number, revealed.number])
    states = with_used(states, enter(used_numbers(states), *joined))
    states = _note_contact(states, at, batch.received[entering], moment)
    upto = np.where(states.withdrawn == 0, gaps.settle_to(settled, states.last_number), settled)
    mine = rows_where((upto > settled) & _assigning(cache.context.keyring, batch.senders))
    ids = cache.context.ids(Slots(batch.senders[mine]))
    owners, missing = gaps.missing(ids, settled[mine], upto[mine], states.holes[mine])
    late = np.zeros(len(verdicts), np.int64)
    late[entering] = number <= settled[at]
    return _Numbers(
        states.changed(settled=upto), statistics.find_gaps(cache.context, DeviceIds(owners), missing), late, revealed
    )


def _passed(batch: Batch, last: Ints, at: Positions, number: Ints) -> Revealed:
    """Return the revealed numbers between each device's last number and the highest that enters the log now."""
    revealed, highest = batch.revealed, last.copy()
    np.maximum.at(highest, at, number)
    between = (revealed.number > last[revealed.at]) & (revealed.number < highest[revealed.at])
    return Revealed(Positions(revealed.at[between]), revealed.number[between])


def _note_contact(states: DeviceStates, at: Positions, received: Ints, moment: GatewayTime) -> DeviceStates:
    """Note when devices were heard, by the clock that their silence is looked for with: a time yet to come would hide it until then."""
    last = states.last_received.copy()
    last[at] = np.where((last[at] > moment.seen) | (moment.behind > 0), 0, last[at])
    np.maximum.at(last, at, received)
    first = np.where(states.first_received == 0, last, states.first_received)
    return states.changed(last_received=last, first_received=first)


# ---- the layers in order ----


def _screen(prechecked: Precheck, found: Found) -> tuple[_Standing, _Numbers, statistics.Judged]:
    """Run the layers in order; `Judged.verdicts` are final."""
    batch, cache, policy, moment = prechecked.batch, prechecked.cache, prechecked.policy, prechecked.moment
    profiles = cache.context.keyring.profiles
    verdicts = _come_again(prechecked, found)
    verdicts = layers.judge_content(verdicts, batch.opened, batch.decoded, profiles, policy.residual_limit)
    verdicts, standing = _blame(batch, verdicts, policy, moment)
    numbers = _settle(batch, cache, verdicts, standing.states, moment)
    judged = statistics.judge_devices(
        batch, cache, verdicts, numbers.states, numbers.gaps, numbers.late, policy, moment
    )
    standing = _expose(
        _Standing(numbers.states, standing.exposed),
        judged.convicted,
        np.full(len(judged.convicted), int(Verdict.STATISTICS)),
        withdraw=True,
        moment=moment,
    )
    return standing, numbers, judged


# ---- all effects ----


def judge(prechecked: Precheck, found: Found) -> Judgement:
    """Screen a batch against the cache and the store's answers."""
    standing, numbers, judged = _screen(prechecked, found)
    batch, cache, moment = prechecked.batch, prechecked.cache, prechecked.moment
    verdicts = judged.verdicts
    context = cache.context
    profiles = context.keyring.profiles
    counted = verdicts == Verdict.ACCEPTED
    bucket, bucket_spans, states = bucketing.assign_buckets(
        # A report without a reading takes its place in a bucket: else a hoard could fill one with the attributes that it likes.
        batch,
        cache,
        found,
        counted | (verdicts == Verdict.NO_READING) | (verdicts == Verdict.HELD),
        standing.states,
        prechecked.crowded,
        prechecked.policy.bucket_seconds,
    )
    tallies = effects.tallies(
        profiles,
        batch.opened.profile[counted].astype(np.int64),
        bucket[counted],
        batch.cell[counted],
        batch.sign[counted],
    )
    held = verdicts == Verdict.HELD
    accepted, waiting = (np.bincount(batch.at[rows], minlength=len(batch.senders)) for rows in (counted, held))
    log, gap_table, states = effects.in_order(
        _log(batch, cache, verdicts, judged.cohort, numbers, bucket),
        numbers.gaps.table,
        context.ids(batch.senders),
        states.changed(accepted=states.accepted + accepted, held=states.held + waiting),
        cache.arrival,
    )
    exhibited, dropped = effects.exhibit(prechecked, verdicts)
    last = cache.arrival + len(log) + len(gap_table)
    changed, lasting = _changed_devices(batch, cache, states)
    played = _checkpointed(batch, cache, states, judged)
    newly = (states.withdrawn != 0) & (batch.before.withdrawn == 0)
    written = Effects(
        log=log,
        devices=changed,
        lasting=lasting,
        device_tests=effects.device_test_table(context, cache.device_tests, played),
        tallies=tallies,
        bucket_spans=bucket_spans,
        gaps=gap_table,
        exposures=[*exhibited, *judged.cases],
        dropped=dropped,
        withdrawn=context.ids(Slots(batch.senders[newly])).tolist(),
        counts=Counter(layers.by_verdict(verdicts)) + Counter({Verdict.REVEALED: len(numbers.revealed.number)}),
        arrival=last,
        moment=moment,
    )
    change = Change(batch.senders, states, played, effects.net_totals(profiles, tallies), log, last)
    return Judgement(
        written, change, _exposed_devices(batch, cache, standing, judged.cases), _held(batch, cache, verdicts, bucket)
    )


def _held(batch: Batch, cache: StateCache, verdicts: Ints, bucket: Ints) -> Records:
    """Return the reports that wait for their coins. Those without a reading wait along: challenges do not tell them from others."""
    profiles, opened = cache.context.keyring.profiles, batch.opened
    verified = np.array([profile.verified for profile in profiles], np.bool_)
    if not verified.any():
        return np.zeros(0, HELD)
    rows = rows_where((verdicts == Verdict.HELD) | (verdicts == Verdict.NO_READING))
    rows = rows[verified[opened.profile[rows]]]
    records = np.zeros(len(rows), HELD)
    records["profile"] = cache.context.profile_ids()[opened.profile[rows]]
    for name in ("device", "number", "unit"):
        records[name] = getattr(opened, name)[rows]
    records["bucket"], records["received"] = bucket[rows], batch.received[rows]
    for position, profile in enumerate(profiles):
        mine = rows_where(opened.profile[rows] == position)
        of = rows[mine]
        unit = opened.unit[of].astype(np.int64)
        records["masked"][mine] = masked_answers(profile, unit, batch.decoded.index[of], batch.decoded.sign[of])
    return records


def _checkpointed(batch: Batch, cache: StateCache, states: DeviceStates, judged: statistics.Judged) -> list[Played]:
    """The bets that were played, and which of them are to be stored at once: the first, and the last one that matters."""
    result = []
    for device_tests, (devices, rows) in zip(cache.device_tests, judged.played, strict=True):
        stored = (device_tests.checkpoint[rows] < 0) | np.isin(devices, judged.convicted)
        result.append(Played(rows, stored, states.arrival[devices]))
    return result


def _exposed_devices(
    batch: Batch, cache: StateCache, standing: _Standing, cases: Sequence[Exposure]
) -> list[ExposedDevice]:
    ids = cache.context.ids(batch.senders)
    words = {case.device: str(case.evidence["words"]) for case in cases}
    withdrawn = standing.states.withdrawn
    return [
        ExposedDevice(
            int(ids[at]),
            cause,
            bool(withdrawn[at]),
            words[int(ids[at])] if cause is Verdict.STATISTICS else cause.sentence,
        )
        for at, cause in standing.exposed
    ]


def _changed_devices(batch: Batch, cache: StateCache, states: DeviceStates) -> tuple[DeviceTable, Bools]:
    """New states of the devices that this batch changed, and which of them changed in what seldom does."""
    moved, lasting = np.zeros((2, len(batch.senders)), np.bool_)
    for name, column in states.columns():
        differs = column != getattr(batch.before, name)
        moved |= differs
        if name not in MOVING_COLUMNS:
            lasting |= differs
    ids = cache.context.ids(Slots(batch.senders[moved]))
    return DeviceTable(device=ids, **dict(states.at(moved).columns())), lasting[moved]


def _log(batch: Batch, cache: StateCache, verdicts: Ints, cohort: Ints, numbers: _Numbers, bucket: Ints) -> LogTable:
    rows = batch.order[_LOGGED[verdicts[batch.order]]]
    sign, none = batch.sign[rows], np.zeros(len(rows), np.int64)
    log = LogTable(
        device=batch.opened.device[rows].astype(np.int64),
        number=batch.number[rows],
        profile=cache.context.profile_ids()[batch.opened.profile[rows]],
        received=batch.received[rows],
        verdict=verdicts[rows],
        index=batch.cell[rows],
        sign=np.where(sign == 0, 1, sign),  # undecodable: one row all the same
        cohort=cohort[rows],
        late=numbers.late[rows],
        body=batch.body[rows],
        bucket=bucket[rows],
        opened=none,
        arrival=none,
    )
    if not len(numbers.revealed.number):
        return log
    return _in_order_of_numbers(log, _log_revealed(batch, cache, numbers.revealed))


def _log_revealed(batch: Batch, cache: StateCache, revealed: Revealed) -> LogTable:
    """Return the log's rows of revealed numbers, received with the last message."""
    keyring = cache.context.keyring
    device, number = cache.context.ids(Slots(batch.senders[revealed.at])), revealed.number
    table = LogTable(**{name: np.zeros(len(number), np.int64) for name in LOG_COLUMNS})
    return replace(
        table,
        device=device,
        number=number,
        profile=cache.context.profile_ids()[keyring.bundle_profile[keyring.find(device, number)]],
        received=np.full(len(number), batch.received.max()),
        verdict=np.full(len(number), int(Verdict.REVEALED)),
        index=np.full(len(number), -1),
        sign=np.ones(len(number), np.int64),
    )


def _in_order_of_numbers(*tables: LogTable) -> LogTable:
    joined = {name: np.concatenate([getattr(table, name) for table in tables]) for name in LOG_COLUMNS}
    order = np.lexsort((joined["number"], joined["device"]))
    return LogTable(**{name: column[order] for name, column in joined.items()})
