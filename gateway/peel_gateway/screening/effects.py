# SPDX-License-Identifier: MIT
"""The effects of a screened batch as sums and columns, ready to be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.model.grouping import add_up
from peel_gateway.model.tables import ConductTable, GapTable, LogTable, TallyTable
from peel_gateway.screening.book import Played, States, cohort_rows
from peel_gateway.screening.conduct import Conduct, checkpoints, joined
from peel_gateway.screening.roster import Roster

__all__ = ["conduct_table", "in_order", "net_totals", "tallies"]

Ints = npt.NDArray[np.int64]


def tallies(profiles: Sequence[Profile], position: Ints, bucket: Ints, index: Ints, sign: Ints) -> TallyTable:
    """Sum reports per profile (given by position), bucket and attribute."""
    ids = np.array([profile.id for profile in profiles], np.int64)
    signs = [(sign > 0).astype(np.int64), (sign < 0).astype(np.int64)]
    (of, when, what), (plus, minus) = add_up([position, bucket, index], signs)
    return TallyTable(ids[of], when, what, plus, minus, 0 * plus, 0 * minus)


def net_totals(profiles: Sequence[Profile], table: TallyTable) -> list[Ints]:
    """Sum plus minus minus over all buckets, per profile, int64[k]: the cohort's sign is that of the running total."""
    totals = []
    for profile in profiles:
        mine = cohort_rows(profile, table)
        net = np.zeros(profile.k, np.int64)
        np.add.at(net, table.index[mine], (table.plus - table.minus)[mine])
        totals.append(net)
    return totals


def conduct_table(roster: Roster, conduct: Sequence[Conduct], played: Sequence[Played]) -> ConductTable:
    """What is stored of the bets on devices with news."""
    tables = []
    for profile, of, each in zip(roster.keyring.profiles, conduct, played, strict=True):
        rows = each.rows[each.stored]
        ids = roster.ids(of.seats.slot[rows])
        tables.append(checkpoints(profile, ids, each.arrival[each.stored], of.states, rows))
    return joined(tables)


def in_order(
    log: LogTable, gaps: GapTable, heard: Ints, states: States, last: int
) -> tuple[LogTable, GapTable, States]:
    """Give the events of a batch their places behind the last one, device by device: reports by their numbers, then gaps.

    Reports are sorted so, and so are gaps.
    """
    device = np.concatenate([log.device, gaps.device])
    place = np.empty(len(device), np.int64)
    place[np.argsort(device, kind="stable")] = last + 1 + np.arange(len(device))
    arrival = states["arrival"].copy()
    np.maximum.at(arrival, np.searchsorted(heard, device), place)
    return (
        replace(log, arrival=place[: len(log)]),
        replace(gaps, arrival=place[len(log) :]),
        states | {"arrival": arrival},
    )
