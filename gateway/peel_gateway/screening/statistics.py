# SPDX-License-Identifier: MIT
"""The statistics layer on a batch: count open reports and new gaps as conduct, and judge the devices that they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import index_many
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.moment import Moment
from peel_gateway.model.tables import Conduct, Exposure, GapTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening import eprocess, layers
from peel_gateway.screening.batch import Batch
from peel_gateway.screening.book import Book, States
from peel_gateway.screening.exposures import device_exposure
from peel_gateway.screening.layers import OPEN
from peel_gateway.screening.policy import Policy
from peel_gateway.screening.roster import Roster, slots_of

__all__ = ["Gaps", "Judged", "find_gaps", "judge"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Gaps:
    """Numbers that were settled as missing."""

    table: GapTable
    slot: Ints
    position: Ints
    """Of the device's profile."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What the layer says."""

    verdicts: Ints
    """No report is open any more."""
    cohort: Ints
    """The cohort's sign before this batch, for each toss: the agreement bets are about it."""
    convicted: Ints
    """Positions among the heard devices."""
    cases: Sequence[Exposure]
    added: Sequence[tuple[Ints, Ints]]
    """Per profile: rows of its conduct, and what to add to them, int64[R], int64[R, k, len(Conduct)]."""


def find_gaps(roster: Roster, device: Ints, number: Ints) -> Gaps:
    """The attributes that missing numbers assign."""
    keyring = roster.keyring
    slot = slots_of(keyring, device)
    position = keyring.profile_of[slot].astype(np.int64)
    index = np.zeros(len(device), np.int64)
    for each in np.unique(position):
        of = position == each
        index[of] = index_many(keyring.profiles[each], device[of], keyring.index_keys[slot[of]], number[of])
    profile = roster.profile_ids()[position] if len(device) else np.zeros(0, np.int64)
    return Gaps(GapTable(device, number, profile, index, np.zeros(len(device), np.int64)), slot, position)


def judge(
    batch: Batch,
    book: Book,
    verdicts: Ints,
    states: States,
    gaps: Gaps,
    late: Ints,
    policy: Policy,
    moment: Moment,
) -> Judged:
    """Judge all devices with news; the reports that tip the balance do not count."""
    verdicts = verdicts.copy()
    cohort = np.zeros(len(verdicts), np.int64)
    convicted, cases, added = [np.zeros(0, np.int64)], [], []
    for position, profile in enumerate(book.roster.keyring.profiles):
        mine = (verdicts == OPEN) & (batch.opened.profile == position)
        if mechanism_of(profile).assigns:
            cohort[mine] = np.sign(book.totals[position])[batch.decoded.index[mine]]
        devices, news = _news(batch, np.flatnonzero(mine), cohort, late, gaps, position, profile.k)
        rows = book.row_of[batch.heard[devices]]
        counts = book.conduct[position][rows] + news
        tipped = eprocess.crossed(profile, counts, policy.alpha) & (states["withdrawn"][devices] == 0)
        ids = book.roster.ids(batch.heard[devices[tipped]])
        cases += [
            device_exposure(profile, int(device), conduct, policy.alpha, moment.seen)
            for device, conduct in zip(ids, counts[tipped], strict=True)
        ]
        layers.object_to(verdicts, np.isin(batch.at, devices[tipped]) & mine, Verdict.STATISTICS)
        convicted.append(devices[tipped])
        added.append((rows, news))
    verdicts[verdicts == OPEN] = Verdict.ACCEPTED
    return Judged(verdicts=verdicts, cohort=cohort, convicted=np.concatenate(convicted), cases=cases, added=added)


def _news(batch: Batch, rows: Ints, cohort: Ints, late: Ints, gaps: Gaps, position: int, k: int) -> tuple[Ints, Ints]:
    """Return the heard devices of a profile with news, and what to add to their conduct, int64[R, k, len(Conduct)]."""
    of = gaps.position == position
    gap_at = np.searchsorted(batch.heard, gaps.slot[of])
    devices = np.unique(np.concatenate([batch.at[rows], gap_at]))
    added = np.zeros((len(devices), k, len(Conduct)), np.int64)
    row, index = np.searchsorted(devices, batch.at[rows]), batch.decoded.index[rows]
    sign = batch.decoded.sign[rows]
    facts = {
        Conduct.PLUS: sign > 0,
        Conduct.MINUS: sign < 0,
        Conduct.AGREE: sign == cohort[rows],
        Conduct.DISAGREE: sign == -cohort[rows],
        Conduct.FRESH: late[rows] == 0,
    }
    for column, fact in facts.items():
        np.add.at(added[..., column], (row, index), fact)
    np.add.at(added[..., Conduct.GAPS], (np.searchsorted(devices, gap_at), gaps.table.index[of]), 1)
    return devices, added
