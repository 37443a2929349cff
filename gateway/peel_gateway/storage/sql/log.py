# SPDX-License-Identifier: MIT
"""The log table: each batch appends a segment, many segments are sealed into one, and reads are in order."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from peel_gateway.model.tables import GapTable, LogTable
from peel_gateway.storage.records import (
    FIELDS,
    RECORD,
    Columns,
    Records,
    as_tables,
    join_tables,
    pack,
    records_of,
    seal,
    unpack,
)
from peel_gateway.storage.sql.connection import Connection
from peel_gateway.storage.store import StoreCorrupt

__all__ = ["LogWriter", "append", "cut", "read_columns", "read_tables", "verify_log"]

Ints = npt.NDArray[np.int64]

_SEALED_EVENTS = 32_768
"""Segments of single batches are sealed together once they have this many events. It takes some 20 ms."""
_ROW = ("last", "events", "sealed", "data")
_SEGMENTS = f"SELECT {', '.join(_ROW)} FROM {{log}} AS log"


def append(connection: Connection, log: LogTable, gaps: GapTable, *, last: int, sealed: int) -> int:
    """Append a batch that ends with event `last`. `sealed` is the last sealed event; return its new value."""
    if not len(log) + len(gaps):
        return sealed
    records = records_of(log, gaps)
    connection.insert("log", _ROW, [(last, len(records), 0, pack(records))])
    if last - sealed < _SEALED_EVENTS:
        return sealed
    rows = connection.rows(f"{_SEGMENTS} WHERE last > ? ORDER BY last", (sealed,))
    records = np.concatenate([_records(_opened(*row)) for row in rows])
    connection.delete("log", "last > ?", (sealed,))
    connection.insert("log", _ROW, [(last, len(records), 1, seal(records))])
    return last


class LogWriter:
    """Writes a new log in sealed segments, after the event `last`."""

    def __init__(self, connection: Connection, last: int) -> None:
        self._connection = connection
        self._last = last
        self._waiting: list[Records] = []

    def write(self, columns: Columns) -> Ints:
        """Append events; return their arrivals."""
        records = _records(columns)
        self._waiting.append(records)
        self._last += len(records)
        if sum(map(len, self._waiting)) >= _SEALED_EVENTS:
            self.flush()
        return self._last - len(records) + 1 + np.arange(len(records))

    def flush(self) -> None:
        """Write the remaining events."""
        if self._waiting:
            records = np.concatenate(self._waiting)
            self._connection.insert("log", _ROW, [(self._last, len(records), 1, seal(records))])
            self._waiting = []


def cut(connection: Connection, upto: int) -> None:
    """Delete all events up to one, and rewrite the segment that contains it."""
    row = connection.row(f"{_SEGMENTS} WHERE last > ? ORDER BY last LIMIT 1", (upto,))
    connection.delete("log", "last <= ?", (upto,))
    if row is None or row[0] - row[1] >= upto:
        return
    last, _, sealed, _ = row
    records = _records(_opened(*row))[upto - last :]
    data = seal(records) if sealed else pack(records)
    connection.update("log", "events = ?, data = ?", "last = ?", (len(records), data, last))


def read_columns(
    connection: Connection, names: Sequence[str] = FIELDS, *, after: int = 0
) -> Iterator[tuple[int, Columns]]:
    """Yield pieces of the log after an event, in order: the arrival of the last event, and columns."""
    rows = connection.stream(f"{_SEGMENTS} WHERE last > ? ORDER BY last", (after,))
    waiting: list[Columns] = []
    last = held = 0
    for last, events, sealed, data in rows:
        columns = _opened(last, events, sealed, data, names)
        waiting.append({name: column[max(0, after - last + events) :] for name, column in columns.items()})
        held += events
        if held >= _SEALED_EVENTS:
            yield last, _joined(waiting)
            waiting, held = [], 0
    if waiting:
        yield last, _joined(waiting)


def _opened(last: int, events: int, sealed: int, data: bytes, names: Sequence[str] = FIELDS) -> Columns:
    """Return columns of a segment's row; `StoreCorrupt` if it is damaged."""
    try:
        columns = unpack(data, sealed=bool(sealed), names=names)
    except (ValueError, zlib.error) as error:
        raise _damaged(last, str(error)) from None
    counts = {len(column) for column in columns.values()}
    if counts != {events}:
        raise _damaged(last, f"{sorted(counts)} instead of {events}")
    return columns


def _damaged(last: int, what: str) -> StoreCorrupt:
    return StoreCorrupt(f"the log is damaged: events up to {last}: {what}; restore a copy")


def _joined(parts: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def read_tables(connection: Connection, *, after: int = 0) -> tuple[LogTable, GapTable]:
    """Return all events after one."""
    return join_tables([as_tables(columns, last) for last, columns in read_columns(connection, after=after)])


def verify_log(connection: Connection) -> Iterator[str]:
    """Yield a message for each damaged segment and for each run of missing events."""
    before = None
    for last, events, sealed, data in connection.stream(f"{_SEGMENTS} ORDER BY last"):
        try:
            found = len(unpack(data, sealed=sealed)["device"])
        except (ValueError, zlib.error) as error:
            yield f"events up to {last}: {error}"
            found = events
        if found != events:
            yield f"events up to {last}: {found} instead of {events}"
        if before is not None and last - events != before:
            yield f"events {before + 1} to {last - events} are missing"
        before = last
    arrival = connection.value("SELECT value FROM {meta} AS meta WHERE key = 'arrival'")
    if before not in (None, arrival):
        yield f"events {before + 1} to {arrival} are missing"


def _records(columns: Columns) -> Records:
    records = np.zeros(len(columns["device"]), RECORD)
    for name in FIELDS:
        records[name] = columns[name]
    return records
