# SPDX-License-Identifier: MIT
"""Recount on SQLite: every cached number once more from the log, and what differs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from peel_gateway.model.tables import Difference
from peel_gateway.model.verdict import LOGGED, Verdict
from peel_gateway.storage.sqlite.rows import REPORTS_SQL

__all__ = ["differences", "gap_differences"]

_COUNTED = int(Verdict.ACCEPTED)

_TALLIES = f"""
    SELECT profile, bucket, idx, SUM(plus), SUM(minus), SUM(plus * gone), SUM(minus * gone)
    FROM (SELECT reports.*, device.withdrawn OR reports.forfeited AS gone FROM ({REPORTS_SQL}) AS reports JOIN device USING (device))
    WHERE verdict = {_COUNTED} GROUP BY profile, bucket, idx
"""  # noqa: S608

_COUNTERS = f"""
    SELECT verdict, SUM(rows) FROM (
        SELECT verdict, plus + minus AS rows FROM ({REPORTS_SQL})
        UNION ALL SELECT verdict, 1 FROM exposure WHERE verdict NOT IN ({", ".join(str(int(v)) for v in LOGGED)})
        UNION ALL SELECT key, value FROM counter WHERE kind = 'dropped' AND key NOT IN ({", ".join(str(int(v)) for v in LOGGED)})
    ) GROUP BY verdict
"""  # noqa: S608

_FILED = f"""
    SELECT device, bucket, SUM(plus + minus) FROM ({REPORTS_SQL})
    WHERE verdict = {_COUNTED} AND bucket > 0 GROUP BY device, bucket
"""  # noqa: S608
_DEVICE_REPORTS = f"SELECT device, verdict, SUM(plus + minus) FROM ({REPORTS_SQL}) GROUP BY device, verdict"  # noqa: S608

_GAPS = "SELECT 0, (SELECT COUNT(*) FROM gap) + (SELECT COALESCE(SUM(gaps), 0) FROM pruned_gap)"

_STORED_COUNTERS = """
    SELECT key, SUM(CASE kind WHEN 'verdict' THEN value ELSE -value END) FROM counter
    WHERE kind IN ('verdict', 'replayed') AND key != 1 GROUP BY key
"""  # redeliveries leave no trace
_WITHDRAWN = f"""
    SELECT 0, SUM(plus + minus) FROM ({REPORTS_SQL}) AS reports JOIN device USING (device)
    WHERE verdict = {_COUNTED} AND (withdrawn OR reports.forfeited)
"""  # noqa: S608


_PARDONS = """
    SELECT device, MAX(arrival), COALESCE(MAX(CASE WHEN NOT restored THEN arrival END), 0) FROM audit GROUP BY device
"""

_GAPS_THAT_CAME = "SELECT device, number FROM gap JOIN log USING (device, number) WHERE late = 0"
_UNSETTLED = """
    SELECT * FROM (
        SELECT device, settled - low AS due,
            (SELECT COUNT(*) FROM log WHERE log.device = span.device AND number > low AND number <= settled AND late = 0)
            + (SELECT COUNT(*) FROM gap WHERE gap.device = span.device AND number > low AND number <= settled) AS accounted
        FROM (SELECT device, settled, MAX(low_water, first_number - 1, settled - :limit) AS low FROM device WHERE first_number) AS span
        WHERE device NOT IN (SELECT device FROM log WHERE profile NOT IN ({profiles}))
          AND device NOT IN (SELECT device FROM pruned WHERE profile NOT IN ({profiles}))
    ) WHERE due > 0 AND due != accounted
"""


def differences(connection: sqlite3.Connection) -> Iterator[Difference]:
    """Yield each tally, filed count, device report count, counter and device mark that is not what the log says."""
    compare = [
        ("tally", "SELECT * FROM tally", _TALLIES, 3),
        ("gap", "SELECT key, value FROM counter WHERE kind = 'gap'", _GAPS, 1),
        ("filed", "SELECT device, bucket, reports FROM filed", _FILED, 2),
        ("device_report", "SELECT * FROM device_report", _DEVICE_REPORTS, 2),
        ("counter", _STORED_COUNTERS, _COUNTERS, 1),
        ("withdrawn", "SELECT key, value FROM counter WHERE kind = 'withdrawn'", _WITHDRAWN, 1),
        ("held", "SELECT key, value FROM counter WHERE kind = 'held'",
         "SELECT blamed, COUNT(*) FROM exposure GROUP BY blamed", 1),
        ("held_bytes", "SELECT key, value FROM counter WHERE kind = 'held_bytes'",
         "SELECT blamed, SUM(LENGTH(raw)) FROM exposure GROUP BY blamed", 1),
        ("pardon", "SELECT device, pardoned, forfeited FROM device", _PARDONS, 1),
        ("last_number", "SELECT device, last_number FROM device WHERE last_number > low_water",
         "SELECT device, MAX(number) FROM log GROUP BY device", 1),
    ]  # fmt: skip
    for table, stored, recounted, keys in compare:
        yield from _compare(
            table,
            _by_key(connection.execute(stored), keys),
            _by_key(connection.execute(recounted), keys),
        )


def gap_differences(connection: sqlite3.Connection, assigning: Sequence[int], examined: int) -> Iterator[Difference]:
    """Yield gaps whose number had come in time, and devices with settled numbers that are neither in the log nor gaps.

    The latter is known of the last `examined` numbers settled, for devices that only ever had `assigning` profiles.
    """
    for device, number in connection.execute(_GAPS_THAT_CAME):
        yield Difference("gap", f"{device:08x}/{number}", "missing", "in the log, in time")
    query = _UNSETTLED.format(profiles=", ".join(str(int(profile)) for profile in assigning))
    for device, settled, accounted in connection.execute(query, {"limit": examined}):
        yield Difference("gap", f"{device:08x}", f"{settled} numbers settled", f"{accounted} in the log or missing")


def _by_key(rows: Iterator[tuple[int, ...]] | sqlite3.Cursor, keys: int) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Rows as a mapping; rows of zeros are the same as no row."""
    return {row[:keys]: row[keys:] for row in rows if any(row[keys:])}


def _compare(
    table: str, stored: dict[tuple[int, ...], tuple[int, ...]], recounted: dict[tuple[int, ...], tuple[int, ...]]
) -> Iterator[Difference]:
    for key in sorted(stored.keys() | recounted.keys()):
        if stored.get(key) != recounted.get(key):
            yield Difference(table, "/".join(map(str, key)), stored.get(key), recounted.get(key))
