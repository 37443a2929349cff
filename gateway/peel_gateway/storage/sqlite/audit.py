# SPDX-License-Identifier: MIT
"""The audit trail on SQLite, and what a pardon does to tallies, bets and device states."""

from __future__ import annotations

import sqlite3
from dataclasses import fields

from peel_gateway.model.audit import AuditEntry
from peel_gateway.storage.sqlite.rows import add_counts, add_tallies
from peel_gateway.storage.sqlite.tallies import counted_reports

__all__ = ["pardon", "read_audit"]

_COLUMNS = tuple(each.name for each in fields(AuditEntry) if each.name != "id")


def pardon(
    connection: sqlite3.Connection, device: int, *, restore: bool, reason: str, who: str, now: int
) -> AuditEntry | None:
    """Take back what exposed a device, and write it down; None where nothing has. Now in Unix milliseconds."""
    query = "SELECT cause, withdrawn, arrival FROM device JOIN progress USING (device) WHERE device = ?"
    state = connection.execute(query, (device,)).fetchone()
    if state is None or not state[0]:
        return None
    cause, withdrawn, arrival = state
    reports = _decide_past(connection, device, arrival, restore=restore) if withdrawn else 0
    connection.execute(_CLEAR, (arrival, device))
    for table in ("conduct", "conduct_base"):
        connection.execute(f"DELETE FROM {table} WHERE device = ?", (device,))  # noqa: S608
    (exposure,) = connection.execute("SELECT COALESCE(MAX(id), 0) FROM exposure").fetchone()
    entry = AuditEntry(
        device=device,
        reason=reason,
        who=who,
        time=now / 1000,
        arrival=arrival,
        cause=cause,
        restored=restore or not withdrawn,
        reports=reports,
        last_exposure=exposure,
    )
    marks = ", ".join("?" * len(_COLUMNS))
    connection.execute(
        f"INSERT INTO audit ({', '.join(_COLUMNS)}) VALUES ({marks})",  # noqa: S608
        tuple(now if name == "time" else getattr(entry, name) for name in _COLUMNS),
    )
    return entry


_CLEAR = "UPDATE device SET cause = 0, cause_time = 0, withdrawn = 0, first_number = 0, pardoned = ? WHERE device = ?"
"""Without a first number its token bucket begins anew with the next report, as that of a new device."""


def _decide_past(connection: sqlite3.Connection, device: int, arrival: int, *, restore: bool) -> int:
    """Let what a withdrawn device had counted come back, or stay away for ever; return how many reports that is."""
    past = counted_reports(connection, [device])
    reports = int(past.withdrawn_plus.sum() + past.withdrawn_minus.sum())
    if restore:
        past.withdrawn_plus, past.withdrawn_minus = -past.withdrawn_plus, -past.withdrawn_minus
        add_tallies(connection, past)
        add_counts(connection, "withdrawn", {0: -reports})
    else:
        connection.execute("UPDATE device SET forfeited = ? WHERE device = ?", (arrival, device))
        for statement in _FORFEIT_DROPPED:
            connection.execute(statement, (device,))
    return reports


_FORFEIT_DROPPED = (
    """INSERT INTO past SELECT device, profile, verdict, idx, 1, plus, minus FROM past WHERE device = ? AND NOT forfeited
       ON CONFLICT DO UPDATE SET plus = plus + excluded.plus, minus = minus + excluded.minus""",
    "DELETE FROM past WHERE device = ? AND NOT forfeited",
)
"""What retention has dropped knows no events."""


def read_audit(
    connection: sqlite3.Connection, *, device: int | None = None, limit: int = -1, before: int | None = None
) -> list[AuditEntry]:
    """Read entries, newest first: all of them, or so many below an id."""
    rows = connection.execute(
        f"""SELECT id, {", ".join(_COLUMNS)} FROM audit
            WHERE (:device IS NULL OR device = :device) AND (:before IS NULL OR id < :before)
            ORDER BY id DESC LIMIT :limit""",  # noqa: S608
        {"device": device, "before": before, "limit": limit},
    )
    entries = (dict(zip(("id", *_COLUMNS), row, strict=True)) for row in rows)
    return [
        AuditEntry(**entry | {"time": entry["time"] / 1000, "restored": bool(entry["restored"])}) for entry in entries
    ]
