# SPDX-License-Identifier: MIT
"""All that is kept beside the log, as a recount compares it."""

from __future__ import annotations

from peel_gateway.model.exposure import ExposureFilter
from peel_gateway.model.tables import FiledTable, Kept
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.sql.audit import read_audit
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.sql.exposures import read_exposures
from peel_gateway.storage.sql.rows import (
    columns,
    read_counters,
    read_devices,
    read_past,
    read_tallies_kept,
)

__all__ = ["read_kept"]


def read_kept(connection: Connection) -> Kept:
    """Read everything but the log and the states of bets."""
    meta: dict[str, int] = dict(connection.rows("SELECT key, value FROM {meta} AS meta"))
    held = connection.rows(
        "SELECT blamed, COUNT(*), CAST(SUM(LENGTH(raw)) AS BIGINT) FROM {exposure} AS exposure GROUP BY blamed"
    )
    verdicts = connection.rows("SELECT verdict, COUNT(*) FROM {exposure} AS exposure GROUP BY verdict")
    refused = connection.rows("SELECT device, verdict, reports FROM {refused} AS refused")
    return Kept(
        devices=read_devices(connection),
        played=columns(connection.rows("SELECT DISTINCT device FROM {conduct} AS conduct ORDER BY device"), 1)[0],
        past=read_past(connection),
        tallies=read_tallies_kept(connection),
        filed=FiledTable(*columns(connection.rows("SELECT device, bucket, lowest, highest FROM {filed} AS filed"), 4)),
        refused={(device, verdict): reports for device, verdict, reports in refused},
        counters=read_counters(connection),
        held={blamed: (count, size) for blamed, count, size in held},
        held_verdicts=dict(verdicts),
        pardons=read_audit(connection)[::-1],
        convictions=read_exposures(connection, ExposureFilter(verdicts=frozenset({Verdict.STATISTICS})), after=0),
        arrival=meta["arrival"],
        pruned_bucket=meta["pruned_bucket"],
        filed_from=meta["filed_from"],
    )
