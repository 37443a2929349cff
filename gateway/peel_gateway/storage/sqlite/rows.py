# SPDX-License-Identifier: MIT
"""Rows and columns: what all SQL of this store is made of."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from peel_gateway.model.tables import DEVICE_COLUMNS, ConductTable, DeviceTable, PastTable, TallyTable

__all__ = [
    "CHUNK",
    "add_counts",
    "add_tallies",
    "as_rows",
    "columns",
    "in_chunks",
    "put_conduct",
    "read_conduct",
    "read_devices",
    "read_past",
]

Ints = npt.NDArray[np.int64]
Value = TypeVar("Value")

CHUNK = 500
"""Values per statement: below SQLite's own limit on every system."""


def columns(rows: Sequence[Sequence[int]], count: int) -> list[Ints]:
    """Turn rows of integers into `count` arrays."""
    if not rows:
        return [np.zeros(0, np.int64) for _ in range(count)]
    return [np.ascontiguousarray(column) for column in np.array(rows, dtype=np.int64).T]


def as_rows(*arrays: Ints) -> Iterable[tuple[int, ...]]:
    """Turn equally long arrays into rows of integers."""
    return zip(*(array.tolist() for array in arrays), strict=True)


def in_chunks(values: Sequence[Value]) -> Iterator[tuple[str, Sequence[Value]]]:
    """Cut values into lists that one statement can take, each with its question marks."""
    for start in range(0, len(values), CHUNK):
        chunk = values[start : start + CHUNK]
        yield ", ".join("?" * len(chunk)), chunk


def read_devices(connection: sqlite3.Connection) -> DeviceTable:
    """Read all device states."""
    query = f"SELECT {', '.join(DEVICE_COLUMNS)} FROM device JOIN progress USING (device) ORDER BY device"  # noqa: S608
    rows = connection.execute(query).fetchall()
    by_column = list(zip(*rows, strict=True)) if rows else [()] * len(DEVICE_COLUMNS)
    dtypes = {"holes": object}
    return DeviceTable(
        **{
            name: np.array(column, dtypes.get(name, np.int64))
            for name, column in zip(DEVICE_COLUMNS, by_column, strict=True)
        }
    )


def read_conduct(connection: sqlite3.Connection, table: str = "conduct") -> ConductTable:
    """Read the states of all devices' bets: the checkpoints, or the bases."""
    rows = connection.execute(f"SELECT device, profile, arrival, state FROM {table} ORDER BY device").fetchall()  # noqa: S608
    device, profile, arrival = columns([row[:3] for row in rows], 3)
    return ConductTable(device, profile, arrival, [row[3] for row in rows])


def put_conduct(connection: sqlite3.Connection, conduct: ConductTable, table: str = "conduct") -> None:
    """Replace the states of some devices' bets."""
    keys = as_rows(conduct.device, conduct.profile, conduct.arrival)
    connection.executemany(
        f"INSERT OR REPLACE INTO {table} (device, profile, arrival, state) VALUES (?, ?, ?, ?)",  # noqa: S608
        [(*key, state) for key, state in zip(keys, conduct.state, strict=True)],
    )


def read_past(connection: sqlite3.Connection) -> PastTable:
    """Read the sums of what retention has dropped."""
    rows = connection.execute("SELECT device, profile, verdict, idx, forfeited, plus, minus FROM past").fetchall()
    return PastTable(*columns(rows, 7))


def add_tallies(connection: sqlite3.Connection, tallies: TallyTable) -> None:
    """Add to the tallies."""
    connection.executemany(
        """INSERT INTO tally VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
           plus = plus + excluded.plus, minus = minus + excluded.minus,
           withdrawn_plus = withdrawn_plus + excluded.withdrawn_plus,
           withdrawn_minus = withdrawn_minus + excluded.withdrawn_minus""",
        as_rows(
            tallies.profile, tallies.bucket, tallies.index,
            tallies.plus, tallies.minus, tallies.withdrawn_plus, tallies.withdrawn_minus,
        ),
    )  # fmt: skip


def add_counts(connection: sqlite3.Connection, kind: str, counts: Mapping[int, int]) -> None:
    """Add to the counters of a kind."""
    connection.executemany(
        "INSERT INTO counter VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value",
        [(kind, int(key), value) for key, value in counts.items() if value],
    )
