# SPDX-License-Identifier: MIT
"""Read and write the tables, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from peel_gateway.model.tables import (
    DEVICE_COLUMNS,
    DeviceTable,
    DeviceTestTable,
    NewestReports,
    PrunedTable,
    TallyTable,
)
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import add_checksum, drop_checksum
from peel_gateway.storage.sql.connection import Connection, Row
from peel_gateway.storage.store import StoreCorrupt

__all__ = [
    "CHUNK",
    "TALLY_COUNTS",
    "TALLY_SUMS",
    "add_counts",
    "add_pruned",
    "as_test_states",
    "columns",
    "in_chunks",
    "put_test_states",
    "read_counters",
    "read_devices",
    "read_newest_reports",
    "read_pruned",
    "read_reports",
    "read_test_states",
    "verify_states",
    "write_tallies",
]

Ints = npt.NDArray[np.int64]
Value = TypeVar("Value")

TALLY_COUNTS = ("plus", "minus", "withdrawn_plus", "withdrawn_minus")
TALLY_SUMS = ", ".join(f"CAST(SUM({name}) AS BIGINT)" for name in TALLY_COUNTS)
"""The sums of a query over tallies."""

CHUNK = 500
"""Values per statement, below SQLite's limit on every system."""


def columns(rows: Sequence[Sequence[int]], count: int) -> list[Ints]:
    """Turn rows of integers into `count` arrays."""
    if not rows:
        return [np.zeros(0, np.int64) for _ in range(count)]
    return [np.ascontiguousarray(column) for column in np.array(rows, dtype=np.int64).T]


def in_chunks(values: Sequence[Value]) -> Iterator[tuple[str, Sequence[Value]]]:
    """Yield chunks that fit into one statement, each with its placeholders."""
    for start in range(0, len(values), CHUNK):
        chunk = values[start : start + CHUNK]
        yield ", ".join("?" * len(chunk)), chunk


def _by_device(connection: Connection, query: str, only: Ints | None, where: str = "") -> list[Row]:
    """Return the rows of a query for all devices or for some (ascending ids)."""
    if only is None:
        return connection.rows(f"{query} {where and 'WHERE'} {where} ORDER BY device")
    found: list[Row] = []
    for marks, chunk in in_chunks(only.tolist()):
        found += connection.rows(f"{query} WHERE device IN ({marks}) {where and 'AND'} {where} ORDER BY device", chunk)
    return found


def read_reports(connection: Connection, only: Ints | None = None) -> list[Row]:
    """Return rows of device, verdict and number of logged reports."""
    accepted = f"SELECT device, {int(Verdict.ACCEPTED)}, accepted FROM {{progress}} AS progress"
    refused = "SELECT device, verdict, reports FROM {refused} AS refused"
    return [*_by_device(connection, accepted, only, "accepted != 0"), *_by_device(connection, refused, only)]


def read_devices(connection: Connection, only: Ints | None = None, where: str = "") -> DeviceTable:
    """Read device states."""
    query = f"""SELECT {", ".join(DEVICE_COLUMNS)}
                FROM {{device}} AS device JOIN {{progress}} AS progress {connection.same_device}"""
    rows = _by_device(connection, query, only, where)
    by_column = list(zip(*rows, strict=True)) if rows else [()] * len(DEVICE_COLUMNS)
    dtypes = {"holes": object}
    return DeviceTable(
        **{
            name: np.array(column, dtypes.get(name, np.int64))
            for name, column in zip(DEVICE_COLUMNS, by_column, strict=True)
        }
    )


def read_newest_reports(connection: Connection) -> NewestReports:
    """Read the newest report and the exposure of each device."""
    query = f"""SELECT device, last_number, last_received, cause, held
                FROM {{device}} AS device JOIN {{progress}} AS progress {connection.same_device}"""
    return NewestReports(*columns(_by_device(connection, query, None), 5))


def read_test_states(connection: Connection, table: str = "test_state", only: Ints | None = None) -> DeviceTestTable:
    """Read devices' test states: the checkpoints, or those at the beginning of the log."""
    query = f"SELECT device, profile, arrival, state FROM {{{table}}} AS test_state"
    return as_test_states(_by_device(connection, query, only))


def as_test_states(rows: Sequence[Row]) -> DeviceTestTable:
    """Return rows of device, profile, arrival and state as a table."""
    device, profile, arrival = columns([row[:3] for row in rows], 3)
    try:
        return DeviceTestTable(device, profile, arrival, [_state(row[0], row[3]) for row in rows])
    except ValueError as error:
        raise StoreCorrupt(f"the store is damaged: {error}; restore a copy") from None


def _state(device: int, stored: bytes) -> bytes:
    """Return a test state without its checksum; `ValueError` names the device if it does not match."""
    try:
        return drop_checksum(stored)
    except ValueError as error:
        raise ValueError(f"test state of device {device:08x}: {error}") from None


def put_test_states(connection: Connection, device_tests: DeviceTestTable, table: str = "test_state") -> None:
    """Replace the test states of some devices."""
    connection.put(
        table,
        {"device": device_tests.device, "profile": device_tests.profile},
        {"arrival": device_tests.arrival, "state": [add_checksum(state) for state in device_tests.state]},
    )


def verify_states(connection: Connection) -> Iterator[str]:
    """Yield a message for each damaged test state."""
    for table in ("test_state", "test_state_base"):
        for device, stored in connection.stream(f"SELECT device, state FROM {{{table}}} AS test_state ORDER BY device"):
            try:
                _state(device, stored)
            except ValueError as error:
                yield str(error)


def read_pruned(connection: Connection) -> PrunedTable:
    """Read the sums of pruned reports."""
    query = "SELECT device, profile, verdict, idx, forfeited, plus, minus FROM {pruned} AS pruned"
    return PrunedTable(*columns(connection.rows(query), 7))


def add_pruned(connection: Connection, pruned: PrunedTable) -> None:
    """Add to the sums of pruned reports."""
    keys = {name: getattr(pruned, name) for name in ("device", "profile", "verdict", "forfeited")}
    connection.add("pruned", keys | {"idx": pruned.index}, {"plus": pruned.plus, "minus": pruned.minus})


def write_tallies(connection: Connection, level: int, tallies: TallyTable) -> None:
    """Add to the tallies of a level, whose units are the buckets."""
    keys = {"profile": tallies.profile, "bucket": tallies.bucket, "idx": tallies.index}
    sums = {name: getattr(tallies, name) for name in TALLY_COUNTS}
    connection.add("tally", {"level": np.full(len(tallies), level)} | keys, sums)


def add_counts(connection: Connection, kind: str, counts: Mapping[int, int]) -> None:
    """Add to the counters of a kind."""
    added = {int(key): value for key, value in counts.items() if value}
    connection.add("counter", {"kind": [kind] * len(added), "key": list(added)}, {"value": list(added.values())})


def read_counters(connection: Connection) -> dict[str, dict[int, int]]:
    """Read all counters, by kind and key."""
    counters: dict[str, dict[int, int]] = {}
    query = "SELECT kind, key, CAST(SUM(value) AS BIGINT) FROM {counter} AS counter GROUP BY kind, key"
    for kind, key, value in connection.rows(query):
        counters.setdefault(kind, {})[key] = value
    return counters
