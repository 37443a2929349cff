# SPDX-License-Identifier: MIT
"""The statistics layer on a batch: bet on open reports and new gaps, and judge the devices that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from peel_core import index_many
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.exposure import Exposure
from peel_gateway.model.gateway_time import GatewayTime
from peel_gateway.model.tables import DeviceIds, DeviceStates, GapTable, Positions, Rows, Slots
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening import layers
from peel_gateway.screening.batch import Batch
from peel_gateway.screening.decode_context import DecodeContext, slots_of
from peel_gateway.screening.device_tests import events_of
from peel_gateway.screening.effects import device_exposure
from peel_gateway.screening.layers import OPEN, Policy
from peel_gateway.screening.state_cache import StateCache

__all__ = ["Gaps", "Judged", "find_gaps", "judge_devices"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Gaps:
    """Numbers that were settled as missing."""

    table: GapTable
    slot: Slots
    position: Ints
    """Of the profile of the number's bundle."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The results of the statistics layer."""

    verdicts: Ints
    """No report is open any more."""
    cohort: Ints
    """The cohort's sign before this batch, for each toss: the agreement bets are about it."""
    convicted: Positions
    """Positions among the senders."""
    cases: Sequence[Exposure]
    played: Sequence[tuple[Positions, Rows]]
    """Per profile: positions among the sending devices, and the rows of the bets on them, which have been played."""


def find_gaps(context: DecodeContext, device: DeviceIds, number: Ints) -> Gaps:
    """The attributes that missing numbers assign: those of bundles whose numbers assign some."""
    if not len(device):
        return Gaps(GapTable(*np.zeros((len(fields(GapTable)), 0), np.int64)), Slots(device), device)
    keyring = context.keyring
    bundle = keyring.find(device, number)
    assigns = np.array([questions_of(profile).assigned for profile in keyring.profiles], np.bool_)
    known = bundle >= 0
    known[known] = assigns[keyring.bundle_profile[bundle[known]]]
    device, number, bundle = DeviceIds(device[known]), number[known], bundle[known]
    position = keyring.bundle_profile[bundle].astype(np.int64)
    index = np.zeros(len(device), np.int64)
    for each in np.unique(position):
        of = position == each
        index[of] = index_many(keyring.profiles[each], device[of], keyring.keys.of(bundle[of]), number[of])
    table = GapTable(device, number, context.profile_ids()[position], index, np.zeros(len(device), np.int64))
    return Gaps(table, slots_of(keyring, device), position)


def judge_devices(
    batch: Batch,
    cache: StateCache,
    verdicts: Ints,
    states: DeviceStates,
    gaps: Gaps,
    late: Ints,
    policy: Policy,
    moment: GatewayTime,
) -> Judged:
    """Judge all devices with news; the reports that tip the balance do not count. Their test states in the cache are updated."""
    verdicts = verdicts.copy()
    cohort, absent = np.zeros(len(verdicts), np.int64), np.zeros(len(verdicts), np.bool_)
    convicted, cases, played = [np.zeros(0, np.int64)], [], []
    for position, profile in enumerate(cache.context.keyring.profiles):
        mine = (verdicts == OPEN) & (batch.opened.profile == position)
        questions = questions_of(profile)
        absent[mine] = batch.decoded.index[mine] == profile.k
        if not profile.verified:
            signs = np.flatnonzero(mine)[questions.signed(batch.cell[mine])]
            cohort[signs] = np.sign(cache.totals[position])[questions.question(batch.cell[signs])]
        devices, rows, crossed = _play(
            batch, cache, batch.order[mine[batch.order]], cohort, late, absent, gaps, position
        )
        verdicts[absent & mine] = Verdict.NO_READING
        tipped = crossed & (states.withdrawn[devices] == 0)
        device_tests = cache.device_tests[position]
        ids = cache.context.ids(Slots(batch.senders[devices[tipped]]))
        cases += [
            device_exposure(profile, int(device), device_tests.e_process, state, moment.seen)
            for device, state in zip(ids, device_tests.states[rows[tipped]], strict=True)
        ]
        if tipped.any():
            layers.object_to(verdicts, np.isin(batch.at, devices[tipped]) & mine, Verdict.STATISTICS)
        if profile.verified:
            layers.object_to(verdicts, mine, Verdict.HELD)
        convicted.append(devices[tipped])
        played.append((devices, rows))
    verdicts[verdicts == OPEN] = Verdict.ACCEPTED
    return Judged(
        verdicts=verdicts, cohort=cohort, convicted=Positions(np.concatenate(convicted)), cases=cases, played=played
    )


def _play(
    batch: Batch,
    cache: StateCache,
    rows: Ints,
    cohort: Ints,
    late: Ints,
    absent: npt.NDArray[np.bool_],
    gaps: Gaps,
    position: int,
) -> tuple[Positions, Rows, npt.NDArray[np.bool_]]:
    """Play the bets on the sending devices of a profile with news: these devices, their rows, and whose capital has reached the limit.

    Reports are played by their numbers, then gaps: `effects.in_order` writes that order into the log. Both come by device and number.
    """
    device_tests = cache.device_tests[position]
    of = np.flatnonzero(gaps.position == position)
    gap_at = np.searchsorted(batch.senders, gaps.slot[of])
    news = np.zeros(len(batch.senders), np.bool_)
    news[batch.at[rows]] = news[gap_at] = True
    devices, place = Positions(np.flatnonzero(news)), np.cumsum(news) - 1
    row, gap_row = place[batch.at[rows]], place[gap_at]
    events = events_of(
        cache.context.keyring.profiles[position],
        row=row,
        number=batch.number[rows],
        index=batch.cell[rows],
        sign=batch.sign[rows],
        cohort=cohort[rows],
        late=late[rows],
        absent=absent[rows],
        gap_row=gap_row,
        gap_number=gaps.table.number[of],
        gap_index=gaps.table.index[of],
        order=np.argsort(np.concatenate([row, gap_row]), kind="stable"),
    )
    places = device_tests.rows(Slots(batch.senders[devices]))
    crossed = device_tests.e_process.update(device_tests.states, events, places)
    return devices, places, crossed >= 0
