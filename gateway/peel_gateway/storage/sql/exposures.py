# SPDX-License-Identifier: MIT
"""Listing exposures."""

from __future__ import annotations

import json

from peel_gateway.model.exposure import Exposure, ExposureFilter
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.sql.connection import Connection

__all__ = ["read_exposures"]


def read_exposures(
    connection: Connection,
    which: ExposureFilter | None = None,
    *,
    limit: int | None = None,
    before: int | None = None,
    after: int | None = None,
    upto: int | None = None,
) -> list[Exposure]:
    """List exposures, newest first, or oldest first with `after`; at most `limit`."""
    conditions, values = _conditions(which or ExposureFilter())
    for condition, bound in (("id < ?", before), ("id > ?", after), ("id <= ?", upto)):
        if bound is not None:
            conditions.append(condition)
            values.append(bound)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    order = "DESC" if after is None else "ASC"
    query = f"""SELECT id, verdict, device, number, profile, received, topic, raw, evidence
                FROM {{exposure}} AS exposure {where} ORDER BY id {order}{"" if limit is None else " LIMIT ?"}"""
    return [
        Exposure(
            id=row[0], verdict=Verdict(row[1]), device=row[2], number=row[3], profile=row[4],
            received=row[5] / 1000, topic=row[6], raw=row[7], evidence=json.loads(row[8]),
        )
        for row in connection.rows(query, values if limit is None else [*values, limit])
    ]  # fmt: skip


def _conditions(which: ExposureFilter) -> tuple[list[str], list[int]]:
    conditions: list[str] = []
    values: list[int] = []
    if which.verdicts:
        conditions.append(f"verdict IN ({', '.join(str(int(verdict)) for verdict in sorted(which.verdicts))})")
    for column, value in (
        ("device = ?", which.device),
        ("received >= ?", None if which.since is None else round(which.since * 1000)),
        ("received < ?", None if which.until is None else round(which.until * 1000)),
        ("blamed = ?", None if which.blamed is None else int(which.blamed)),
    ):
        if value is not None:
            conditions.append(column)
            values.append(value)
    return conditions, values
