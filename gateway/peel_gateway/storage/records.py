# SPDX-License-Identifier: MIT
"""The events of the log as bytes, the same in every database.

An event is a logged report or a number that was settled as missing, in 38 bytes. A *segment* is a run of events in the order of arrival.
The store keeps the arrival of a segment's last event, so that no event carries its own. Each batch appends one segment. Many segments are
sealed into one: column by column, compressed to some 11 bytes per report.

Events are found by their order only. Other lookups use tables beside the log (`screening.seen`) or scan it.

Stored bytes end with a CRC-32. It finds accidents, such as a bit that flips on a disk. It does not authenticate: a process that may write
to the store may write anything.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from peel_gateway.model.tables import GapTable, LogTable

if TYPE_CHECKING:
    from peel_gateway.storage.store import Archive

__all__ = [
    "FIELDS",
    "GAP",
    "RECORD",
    "Columns",
    "Records",
    "add_checksum",
    "as_tables",
    "drop_checksum",
    "join_tables",
    "pack",
    "read_gaps",
    "read_log",
    "records_of",
    "seal",
    "signs",
    "unpack",
]

_BYTES = 4


def add_checksum(data: bytes) -> bytes:
    """Append the CRC-32 of some bytes."""
    return data + _checksum(data)


def drop_checksum(checked: bytes) -> bytes:
    """Verify and remove the checksum; `ValueError` if it does not match."""
    data = checked[:-_BYTES]
    if checked[len(data) :] != _checksum(data):
        raise ValueError(f"{len(checked)} bytes and their checksum do not agree")
    return data


def _checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(_BYTES, "little")


Ints = npt.NDArray[np.int64]

Records = npt.NDArray[np.void]

Columns = dict[str, npt.NDArray[Any]]

RECORD = np.dtype(
    [
        ("device", "<u4"),
        ("number", "<u8"),
        ("profile", "<u4"),
        ("received", "<u8"),
        ("bucket", "<u4"),
        ("index", "<i4"),
        ("body", "<i4"),
        ("verdict", "u1"),
        ("marks", "u1"),
    ]
)
"""One event; the fields are those of `LogTable`. `marks`: bit 0 plus, bits 1-2 the cohort's sign + 1, bit 3 late, bit 4 opened."""

FIELDS: tuple[str, ...] = RECORD.names or ()

GAP = 255
"""Stands for the verdict of a missing number, which has only device, number, profile and index."""

_PLUS, _COHORT, _LATE, _OPENED = 1, 1, 3, 4

_LEVEL = 1
"""The zlib level. Higher ones take twice as long and save two per cent."""
_RANDOM = "body"
"""This column is stored as it is: it does not get smaller, and trying takes half of the time."""


def records_of(log: LogTable, gaps: GapTable) -> Records:
    """Return reports and gaps as records in the order of arrival."""
    records = np.zeros(len(log) + len(gaps), RECORD)
    reports, missing = records[: len(log)], records[len(log) :]
    for name in ("device", "number", "profile", "received", "bucket", "index", "body", "verdict"):
        reports[name] = getattr(log, name)
    marks = (log.sign > 0) * _PLUS | (log.cohort + 1) << _COHORT | log.late << _LATE
    reports["marks"] = marks | log.opened << _OPENED
    for name in ("device", "number", "profile", "index"):
        missing[name] = getattr(gaps, name)
    missing["verdict"] = GAP
    return records[np.argsort(np.concatenate([log.arrival, gaps.arrival]))]


def as_tables(columns: Columns, last: int) -> tuple[LogTable, GapTable]:
    """Return columns as tables, the inverse of `records_of`; `last` is the arrival of the last event."""
    gap = columns["verdict"] == GAP
    arrival = last - len(gap) + 1 + np.arange(len(gap))
    marks = columns["marks"][~gap].astype(np.int64)
    log = LogTable(
        **{name: columns[name][~gap].astype(np.int64) for name in FIELDS if name != "marks"},
        sign=signs(marks),
        cohort=(marks >> _COHORT & 3) - 1,
        late=marks >> _LATE & 1,
        opened=marks >> _OPENED,
        arrival=arrival[~gap],
    )
    names = ("device", "number", "profile", "index")
    return log, GapTable(**{name: columns[name][gap].astype(np.int64) for name in names}, arrival=arrival[gap])


def signs(marks: Ints) -> Ints:
    """Return the sign bit of the marks as +1 or -1."""
    return np.where(marks & _PLUS, 1, -1)


def join_tables(parts: Sequence[tuple[LogTable, GapTable]]) -> tuple[LogTable, GapTable]:
    """Concatenate pairs of tables."""
    parts = [as_tables(unpack(pack(np.zeros(0, RECORD)), sealed=False), 0), *parts]
    log, gaps = ([part[place] for part in parts] for place in (0, 1))
    return (
        LogTable(**{name: np.concatenate([getattr(each, name) for each in log]) for name in vars(log[0])}),
        GapTable(**{name: np.concatenate([getattr(each, name) for each in gaps]) for name in vars(gaps[0])}),
    )


def pack(records: Records) -> bytes:
    """Return a segment in the form that a batch appends."""
    return add_checksum(records.tobytes())


def seal(records: Records) -> bytes:
    """Return a sealed segment: each column transposed, so that like bytes are adjacent, and compressed with zlib's checksum."""
    parts = []
    for name in FIELDS:
        column = np.ascontiguousarray(records[name])
        level = 0 if name == _RANDOM else _LEVEL
        part = zlib.compress(column.view(np.uint8).reshape(-1, column.itemsize).T.tobytes(), level)
        parts += [len(part).to_bytes(4, "little"), part]
    return b"".join(parts)


def unpack(data: bytes, *, sealed: bool, names: Sequence[str] = FIELDS) -> Columns:
    """Return some columns of a segment; `ValueError` or `zlib.error` if it is damaged."""
    if not sealed:
        records = np.frombuffer(drop_checksum(data), RECORD)
        return {name: records[name] for name in names}
    columns, start = {}, 0
    for name in FIELDS:
        length = int.from_bytes(data[start : start + 4], "little")
        if name in names:
            dtype = RECORD[name]
            planes = np.frombuffer(zlib.decompress(data[start + 4 : start + 4 + length]), np.uint8)
            columns[name] = np.ascontiguousarray(planes.reshape(dtype.itemsize, -1).T).reshape(-1).view(dtype)
        start += 4 + length
    if start != len(data):
        raise ValueError(f"a segment has {len(data)} bytes, its lengths add up to {start}")
    return columns


def read_log(archive: Archive, device: int | None = None) -> LogTable:
    """Return the logged reports of a device or of all, by device and number. Reads the whole log into memory.

    Each report has one row. If its verified coin is opened, that is the row which counts it.
    """
    with archive.history() as events:
        log, _ = join_tables(list(events))
    mine = np.flatnonzero(log.device == device) if device is not None else np.arange(len(log))
    order = mine[np.lexsort((log.opened[mine], log.number[mine], log.device[mine]))]
    new = (np.diff(log.device[order], prepend=-1) != 0) | (np.diff(log.number[order], prepend=-1) != 0)
    first, last = order[new], order[np.append(new[1:], True)[: len(order)]]
    rows = {name: column[last] for name, column in vars(log).items()}
    return LogTable(**rows | {"body": log.body[first], "late": log.late[first]})


def read_gaps(archive: Archive) -> GapTable:
    """Return the gaps in the log, by device and number."""
    with archive.history() as events:
        _, gaps = join_tables(list(events))
    order = np.lexsort((gaps.number, gaps.device))
    return GapTable(**{name: column[order] for name, column in vars(gaps).items()})
