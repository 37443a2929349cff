# SPDX-License-Identifier: MIT
"""The effects of a screened batch as sums and columns, ready to be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_gateway.model.tables import ConductTable, GapTable, LogTable, TallyTable
from peel_gateway.screening.book import Played, States, cohort_rows
from peel_gateway.screening.conduct import Conduct, checkpoints, joined
from peel_gateway.screening.roster import Roster

__all__ = ["conduct_table", "in_order", "net_totals", "tallies"]

Ints = npt.NDArray[np.int64]


def tallies(profiles: Sequence[Profile], position: Ints, bucket: Ints, index: Ints, sign: Ints) -> TallyTable:
    """Sum reports per profile (given by position), bucket and attribute."""
    keys, where = _unique_rows(position, bucket, index)
    ids = np.array([profile.id for profile in profiles], np.int64)
    plus = np.bincount(where[sign > 0], minlength=len(keys)).astype(np.int64)
    minus = np.bincount(where[sign < 0], minlength=len(keys)).astype(np.int64)
    none = np.zeros(len(keys), np.int64)
    return TallyTable(ids[keys[:, 0]], keys[:, 1], keys[:, 2], plus, minus, none, none)


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
        slots = of.slots[each.rows[each.stored]]
        tables.append(checkpoints(profile, roster.ids(slots), each.arrival[each.stored], each.states[each.stored]))
    return joined(tables)


def in_order(log: LogTable, gaps: GapTable, heard: Ints, states: States) -> tuple[LogTable, GapTable, States]:
    """Number the events of a batch, device by device: reports by their numbers, then gaps. What the order decides is thus in the log."""
    device = np.concatenate([log.device, gaps.device])
    kind = np.repeat([0, 1], [len(log), len(gaps)])
    order = np.lexsort((np.concatenate([log.number, gaps.number]), kind, device))
    at = np.searchsorted(heard, device[order])
    starts = np.flatnonzero(np.diff(at, prepend=-1))
    place = np.arange(len(at)) - np.repeat(starts, np.diff(np.append(starts, len(at))))
    arrival = np.empty(len(device), np.int64)
    arrival[order] = states["arrivals"][at] + 1 + place
    arrivals = states["arrivals"] + np.bincount(at, minlength=len(heard))
    return (
        replace(log, arrival=arrival[: len(log)]),
        replace(gaps, arrival=arrival[len(log) :]),
        states | {"arrivals": arrivals},
    )


def _unique_rows(*columns: Ints) -> tuple[Ints, Ints]:
    """Distinct rows of equally long columns, int64[U, columns], and where each row is among them."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:  # each column is coded by rank first, so that the product cannot overflow
        values, rank = np.unique(column, return_inverse=True)
        code = code * max(1, len(values)) + rank
    _, first, where = np.unique(code, return_index=True, return_inverse=True)
    return np.stack([column[first] for column in columns], axis=1), where
