# SPDX-License-Identifier: MIT
"""Retention: delete old events from the log and keep their sums."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_gateway.model.grouping import add_up, up_to
from peel_gateway.model.tables import Aged, GapTable, LogTable, PrunedTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import GAP, as_tables, join_tables
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.log import cut, read_columns
from peel_gateway.storage.sql.rows import add_counts, add_pruned, as_test_states, put_test_states
from peel_gateway.storage.sql.tallies import read_forfeits

__all__ = ["aged", "forget_bucket_spans", "prune"]

_EVENTS = 100_000
"""About this many events are deleted per transaction, because the gateway waits for it."""


def aged(connection: Connection, before: int, now: int) -> Aged:
    """Return the first events of the log that were received before a time (Unix milliseconds), at most about `_EVENTS`."""
    upto = _old_until(connection, before, now)
    parts: list[tuple[LogTable, GapTable]] = []
    reached = 0
    for last, columns in read_columns(connection):
        first = last - len(columns["received"])
        if first >= upto or sum(len(log) + len(gaps) for log, gaps in parts) >= _EVENTS:
            break
        reached = min(last, upto)
        parts.append(as_tables({name: column[: reached - first] for name, column in columns.items()}, reached))
    return Aged(reached, *join_tables(parts))


def _old_until(connection: Connection, before: int, now: int) -> int:
    """Return the last event that was received before `before` and that no younger event precedes.

    An event from the future was received while the clock was wrong, or the clock is wrong now. It is old if an old event follows it.
    """
    until = seen = 0
    for last, columns in read_columns(connection, ("verdict", "received")):
        received, dated = columns["received"], columns["verdict"] != GAP
        young = np.flatnonzero(dated & (received >= before) & (received <= now))
        end = int(young[0]) if len(young) else len(received)
        old = np.flatnonzero(dated[:end] & (received[:end] < before))
        if len(old):
            until = last - len(received) + int(old[-1]) + 1
        seen += len(received)
        if len(young) or (until and seen >= _EVENTS):
            break
    return until


def prune(connection: Connection, aged: Aged) -> None:
    """Delete events. First add them to the sums, and move older checkpoints to the new beginning of the log."""
    put_test_states(connection, as_test_states(connection.rows(_LATEST_CHECKPOINT)))
    pruned = _summed(aged.log, up_to(*read_forfeits(connection), aged.log.device, aged.log.arrival))
    add_pruned(connection, pruned)
    add_counts(connection, "pruned_gap", {0: len(aged.gaps)})
    cut(connection, aged.arrival)


_LATEST_CHECKPOINT = """
    SELECT base.device, base.profile, base.arrival, base.state
    FROM {test_state_base} AS base LEFT JOIN {test_state} AS test_state
    ON test_state.device = base.device AND test_state.profile = base.profile
    WHERE base.arrival > COALESCE(test_state.arrival, 0)
"""
"""Bases that are newer than their checkpoint: the log must hold all events after a checkpoint."""


def _summed(log: LogTable, gone: npt.NDArray[np.bool_]) -> PrunedTable:
    accepted = log.verdict == Verdict.ACCEPTED
    signs = [(log.sign > 0).astype(np.int64), (log.sign < 0).astype(np.int64)]
    columns = [log.device, log.profile, log.verdict, np.where(accepted, log.index, -1), gone.astype(np.int64), *signs]
    rows = np.stack(columns)
    # The row of an opened coin takes back that its report is held.
    back = rows[:, log.opened != 0]
    back[2], back[3], back[4], back[5], back[6] = int(Verdict.HELD), -1, 0, -1, 0
    summed = np.concatenate([rows, back], axis=1)
    keys, sums = add_up(list(summed[:5]), list(summed[5:]))
    return PrunedTable(*keys, *sums)


def forget_bucket_spans(connection: Connection, before: int) -> None:
    """Delete number ranges in buckets (Unix seconds) that no report can be put into any more."""
    connection.delete("bucket_span", "bucket < ?", (before,))
