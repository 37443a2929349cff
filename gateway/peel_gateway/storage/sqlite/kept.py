# SPDX-License-Identifier: MIT
"""All that is kept beside the log on SQLite, as a recount compares it."""

from __future__ import annotations

import sqlite3

from peel_gateway.model.tables import ExposureFilter, FiledTable, Kept, TallyTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.sqlite.audit import read_audit
from peel_gateway.storage.sqlite.exposures import read_exposures
from peel_gateway.storage.sqlite.rows import columns, read_conduct, read_devices, read_past

__all__ = ["read_kept"]


def read_kept(connection: sqlite3.Connection) -> Kept:
    """Read everything but the log."""
    counters: dict[str, dict[int, int]] = {}
    for kind, key, value in connection.execute("SELECT kind, key, value FROM counter"):
        counters.setdefault(kind, {})[key] = value
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    held = connection.execute("SELECT blamed, COUNT(*), SUM(LENGTH(raw)) FROM exposure GROUP BY blamed")
    return Kept(
        devices=read_devices(connection),
        conduct=read_conduct(connection),
        bases=read_conduct(connection, "conduct_base"),
        past=read_past(connection),
        tallies=TallyTable(*columns(connection.execute("SELECT * FROM tally").fetchall(), 7)),
        filed=FiledTable(*columns(connection.execute("SELECT device, bucket, reports FROM filed").fetchall(), 3)),
        refused={(row[0], row[1]): row[2] for row in connection.execute("SELECT * FROM refused")},
        counters=counters,
        held={blamed: (count, size) for blamed, count, size in held},
        held_verdicts=dict(connection.execute("SELECT verdict, COUNT(*) FROM exposure GROUP BY verdict")),
        pardons=read_audit(connection)[::-1],
        convictions=read_exposures(connection, ExposureFilter(verdicts=frozenset({Verdict.STATISTICS})), after=0),
        arrival=meta["arrival"],
        pruned_bucket=meta["pruned_bucket"],
        filed_from=meta["filed_from"],
    )
