# SPDX-License-Identifier: MIT
"""Retention on SQLite: old log rows go, their sums stay, and a low-water mark per device remembers where the log begins."""

from __future__ import annotations

import sqlite3

from peel_gateway.model.tables import Aged
from peel_gateway.storage.sqlite.rows import as_rows, columns, read_gaps, read_log

__all__ = ["aged", "prune"]

_ROWS = 100_000
"""Log rows that go in one transaction, about: the gateway waits for it."""

_MARKS = """
    SELECT device, mark, pardoned FROM (
        SELECT device, mark, SUM(events) OVER (ORDER BY device) - events AS before FROM (
            SELECT device, MIN(arrival) AS first, COUNT(*) AS events,
                   COALESCE(MIN(CASE WHEN number >= young THEN arrival END) - 1, MAX(arrival)) AS mark
            FROM log JOIN (
                SELECT device, COALESCE(MIN(CASE WHEN received >= ? THEN number END), 281474976710656) AS young FROM log GROUP BY device
            ) USING (device) GROUP BY device
        ) WHERE first <= mark
    ) JOIN device USING (device) WHERE before < ?
"""
"""Per device: events go up to the first one whose number is not below all young ones, so that a late report is not taken for stale."""


def aged(connection: sqlite3.Connection, before: int) -> Aged:
    """Find what is older than `before` (Unix milliseconds): of each device the first events, as far as their
    numbers are below those of all reports that are younger.

    What arrives afterwards with a number that went cannot be told from a replay any more, and is refused as stale.
    """
    device, arrival, pardoned = columns(connection.execute(_MARKS, (before, _ROWS)).fetchall(), 3)
    connection.execute("DELETE FROM temp.asked")
    rows = [(place, *row) for place, row in enumerate(as_rows(device, arrival))]
    connection.executemany("INSERT INTO temp.asked VALUES (?, ?, ?)", rows)
    of = "temp.asked AS asked CROSS JOIN {0} ON {0}.device = asked.device AND {0}.arrival <= asked.number"
    log, gaps = read_log(connection, of.format("log")), read_gaps(connection, of.format("gap"))
    return Aged(device, arrival, log, gaps, pardoned)


def prune(connection: sqlite3.Connection, aged: Aged) -> None:
    """Drop events and keep their sums."""
    values = [{"device": device, "mark": mark} for device, mark in as_rows(aged.device, aged.arrival)]
    connection.execute(_LATEST_CHECKPOINT)
    for statement in (_SUM_ROWS, _SUM_GAPS, _RAISE_MARK, *_DELETE):
        connection.executemany(statement, values)


_LATEST_CHECKPOINT = """
    INSERT OR REPLACE INTO conduct
    SELECT base.* FROM conduct_base AS base LEFT JOIN conduct USING (device, profile)
    WHERE base.arrival > COALESCE(conduct.arrival, 0)
"""
"""What follows a checkpoint must be in the log."""

_SUM_ROWS = """
    INSERT INTO pruned
    SELECT device, profile, bucket, idx, verdict, arrival <= forfeited AS gone, SUM(sign > 0), SUM(sign < 0)
    FROM log JOIN device USING (device) WHERE device = :device AND arrival <= :mark
    GROUP BY profile, bucket, idx, verdict, gone
    ON CONFLICT DO UPDATE SET plus = plus + excluded.plus, minus = minus + excluded.minus
"""

_SUM_GAPS = """
    INSERT INTO pruned_gap
    SELECT device, profile, idx, COUNT(*) FROM gap WHERE device = :device AND arrival <= :mark GROUP BY profile, idx
    ON CONFLICT DO UPDATE SET gaps = gaps + excluded.gaps
"""

_RAISE_MARK = """
    UPDATE device SET low_water = MAX(
        low_water, COALESCE((SELECT MAX(number) FROM log WHERE device = :device AND arrival <= :mark), 0))
    WHERE device = :device
"""

_DELETE = (
    "DELETE FROM log WHERE device = :device AND arrival <= :mark",
    "DELETE FROM gap WHERE device = :device AND arrival <= :mark",
)
