# SPDX-License-Identifier: MIT
"""Tallies of a profile in a span of time: those that are kept, and those of each device, computed from the log."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import numpy as np

from peel_gateway.model.tables import DeviceTallyTable, TallyTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.sqlite.rows import REPORTS_SQL, columns

__all__ = ["Span", "read_device_tallies", "read_tallies"]


@dataclass(frozen=True)
class Span:
    """Which buckets, and how they are put together: those that start in [since, until), by `size` seconds or all in one (bucket 0)."""

    since: float | None
    until: float | None
    size: int | None

    @property
    def start(self) -> str:
        """What a row is grouped under, in SQL."""
        return "0" if self.size is None else "bucket / :size * :size"

    @property
    def conditions(self) -> str:
        """To be added to a WHERE clause."""
        if self.since is None and self.until is None and self.size is None:
            return ""
        since = "" if self.since is None else " AND bucket >= :since"
        until = "" if self.until is None else " AND bucket < :until"
        return f" AND bucket > 0{since}{until}"  # what is filed under no time belongs to none

    @property
    def values(self) -> dict[str, float | None]:
        """What both refer to."""
        return {"since": self.since, "until": self.until, "size": self.size}


def read_tallies(connection: sqlite3.Connection, profile: int, span: Span) -> TallyTable:
    """Read the tallies as they are kept."""
    query = f"""SELECT profile, {span.start} AS start, idx,
                       SUM(plus), SUM(minus), SUM(withdrawn_plus), SUM(withdrawn_minus)
                FROM tally WHERE profile = :profile{span.conditions} GROUP BY start, idx ORDER BY start, idx"""  # noqa: S608
    rows = connection.execute(query, {"profile": profile, **span.values}).fetchall()
    return TallyTable(*columns(rows, 7))


def read_device_tallies(connection: sqlite3.Connection, profile: int, span: Span) -> DeviceTallyTable:
    """Sum the accepted reports of each device.

    One statement per device: the log is clustered by device, so that no more than one device's rows are ever sorted at a time.
    """
    query = f"""SELECT {span.start} AS start, :device, idx, SUM(plus), SUM(minus), :withdrawn OR forfeited AS gone
                FROM ({REPORTS_SQL})
                WHERE device = :device AND profile = :profile AND verdict = {int(Verdict.ACCEPTED)}{span.conditions}
                GROUP BY start, idx, gone"""  # noqa: S608
    values = {"profile": profile, **span.values}
    parts = [np.zeros((0, 6), np.int64)]
    for device, withdrawn in connection.execute("SELECT device, withdrawn FROM device ORDER BY device").fetchall():
        rows = connection.execute(query, {**values, "device": device, "withdrawn": withdrawn}).fetchall()
        parts.append(np.array(rows, np.int64).reshape(-1, 6))
    table = np.concatenate(parts)
    return DeviceTallyTable(*np.ascontiguousarray(table[np.lexsort(table.T[2::-1])].T))
