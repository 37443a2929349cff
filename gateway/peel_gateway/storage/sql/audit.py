# SPDX-License-Identifier: MIT
"""The audit trail, the effects of a pardon on tallies, test states and device states, and releases of verified coins."""

from __future__ import annotations

from dataclasses import asdict, fields

import numpy as np
import numpy.typing as npt

from peel_gateway.model.exposure import AuditEntry
from peel_gateway.model.tables import PrunedTable
from peel_gateway.storage.sql.coins import read_coins, void_coins
from peel_gateway.storage.sql.connection import Connection, Row
from peel_gateway.storage.sql.rollups import Extent, add_tallies
from peel_gateway.storage.sql.rows import add_counts, add_pruned, columns, in_chunks
from peel_gateway.storage.sql.tallies import counted_reports

__all__ = ["pardon", "read_audit", "read_forfeited", "release"]

_COLUMNS = tuple(each.name for each in fields(AuditEntry) if each.name != "id")


def pardon(
    connection: Connection, extent: Extent, device: int, *, restore: bool, reason: str, who: str, now: int
) -> AuditEntry | None:
    """Clear a device's exposure and write an audit entry; None if it is not exposed. `now` is in Unix milliseconds.

    All events must be in the roll-ups.
    """
    state = connection.row(
        f"""SELECT cause, withdrawn, arrival FROM {{device}} AS device JOIN {{progress}} AS progress {connection.same_device}
            WHERE device = ?""",
        (device,),
    )
    if state is None or not state[0]:
        return None
    cause, withdrawn, arrival = state
    reports = _decide_past(connection, extent, device, arrival, restore=restore) if withdrawn else 0
    connection.update("device", _CLEAR, "device = ?", (arrival, device))
    for table in ("test_state", "test_state_base"):
        connection.delete(table, "device = ?", (device,))
    exposure = connection.value("SELECT COALESCE(MAX(id), 0) FROM {exposure} AS exposure")
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
    _append(connection, entry, now)
    return entry


def release(connection: Connection, device: int, *, reason: str, who: str, now: int) -> AuditEntry | None:
    """Void a device's batches and held reports, and write an audit entry; None if it has neither. `now` is in Unix milliseconds."""
    only = np.array([device], np.int64)
    held = connection.row("SELECT held FROM {progress} AS progress WHERE device = ?", (device,)) or (0,)
    if not any(read_coins(connection, only).batches) and not held[0]:
        return None
    void_coins(connection, only)
    entry = AuditEntry(
        device=device,
        reason=reason,
        who=who,
        time=now / 1000,
        arrival=0,
        cause=0,
        restored=True,
        reports=held[0],
        last_exposure=0,
    )
    _append(connection, entry, now)
    return entry


def _append(connection: Connection, entry: AuditEntry, now: int) -> None:
    stored = asdict(entry) | {"time": now, "restored": int(entry.restored)}
    connection.insert("audit", _COLUMNS, [[stored[name] for name in _COLUMNS]])


_CLEAR = "cause = 0, cause_time = 0, withdrawn = 0, first_number = 0, pardoned = ?"
"""Without a first number the token bucket starts again with the next report, as for a new device."""


def _decide_past(connection: Connection, extent: Extent, device: int, arrival: int, *, restore: bool) -> int:
    """Count a withdrawn device's earlier reports again, or forfeit them; return their number."""
    past = counted_reports(connection, extent, [device])
    reports = int(past.withdrawn_plus.sum() + past.withdrawn_minus.sum())
    if restore:
        past.withdrawn_plus, past.withdrawn_minus = -past.withdrawn_plus, -past.withdrawn_minus
        add_tallies(connection, extent, past)
        add_counts(connection, "withdrawn", {0: -reports})
    else:
        connection.update("device", "forfeited = ?", "device = ?", (arrival, device))
        _forfeit_dropped(connection, device)
    return reports


def _forfeit_dropped(connection: Connection, device: int) -> None:
    """Mark all pruned reports of a device as forfeited: their sums do not know single events."""
    query = "SELECT device, profile, verdict, idx, 1, plus, minus FROM {pruned} AS pruned WHERE device = ? AND forfeited = 0"
    add_pruned(connection, PrunedTable(*columns(connection.rows(query, (device,)), 7)))
    connection.delete("pruned", "device = ? AND forfeited = 0", (device,))


def read_audit(
    connection: Connection, *, device: int | None = None, limit: int | None = None, before: int | None = None
) -> list[AuditEntry]:
    """Return entries, newest first: at most `limit`, with ids below `before`."""
    bounds = {"device = ?": device, "id < ?": before}
    given = {condition: value for condition, value in bounds.items() if value is not None}
    where = f"WHERE {' AND '.join(given)}" if given else ""
    rows = connection.rows(
        f"""SELECT id, {", ".join(_COLUMNS)} FROM {{audit}} AS audit {where}
            ORDER BY id DESC{"" if limit is None else " LIMIT ?"}""",
        [*given.values(), *([] if limit is None else [limit])],
    )
    entries = (dict(zip(("id", *_COLUMNS), row, strict=True)) for row in rows)
    return [
        AuditEntry(**entry | {"time": entry["time"] / 1000, "restored": bool(entry["restored"])}) for entry in entries
    ]


def read_forfeited(connection: Connection, only: npt.NDArray[np.int64]) -> list[Row]:
    """Return rows of device and number of forfeited reports, for devices that have some."""
    query = "SELECT device, CAST(SUM(reports) AS BIGINT) FROM {audit} AS audit"
    found: list[Row] = []
    for marks, chunk in in_chunks(only.tolist()):
        found += connection.rows(f"{query} WHERE device IN ({marks}) AND restored = 0 GROUP BY device", chunk)
    return found
