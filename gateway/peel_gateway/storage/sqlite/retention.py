# SPDX-License-Identifier: MIT
"""Retention on SQLite: old log rows go, their sums stay, and a low-water mark per device remembers where the log begins."""

from __future__ import annotations

import sqlite3

__all__ = ["prune"]


def prune(connection: sqlite3.Connection, before: int) -> int:
    """Drop log rows received before `before` (Unix milliseconds); return how many went.

    Per device a prefix of its numbers goes: all up to the first one that is still young. What arrives below that mark
    afterwards cannot be told from a replay any more, and is refused as stale.
    """
    marks = connection.execute(
        """SELECT log.device, COALESCE(MIN(CASE WHEN received >= ? THEN number END) - 1, MAX(number)) AS mark
           FROM log GROUP BY log.device HAVING MIN(number) <= mark""",
        (before,),
    ).fetchall()
    gone = 0
    for device, mark in marks:
        values = {"device": device, "mark": mark}
        connection.execute(_SUM_ROWS, values)
        connection.execute(_SUM_GAPS, values)
        gone += connection.execute("DELETE FROM log WHERE device = :device AND number <= :mark", values).rowcount
        connection.execute("DELETE FROM gap WHERE device = :device AND number <= :mark", values)
        connection.execute("UPDATE device SET low_water = :mark WHERE device = :device", values)
    if gone:
        connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
    return gone


_SUM_ROWS = """
    INSERT INTO pruned
    SELECT device, profile, bucket, idx, verdict,
           SUM(sign > 0), SUM(sign < 0), SUM(sign = cohort), SUM(sign = -cohort), SUM(late = 0)
    FROM log WHERE device = :device AND number <= :mark
    GROUP BY profile, bucket, idx, verdict
    ON CONFLICT DO UPDATE SET plus = plus + excluded.plus, minus = minus + excluded.minus,
        agree = agree + excluded.agree, disagree = disagree + excluded.disagree, fresh = fresh + excluded.fresh
"""

_SUM_GAPS = """
    INSERT INTO pruned_gap
    SELECT device, profile, idx, COUNT(*) FROM gap WHERE device = :device AND number <= :mark GROUP BY profile, idx
    ON CONFLICT DO UPDATE SET gaps = gaps + excluded.gaps
"""
