# SPDX-License-Identifier: MIT
"""Read and write the tables of verified coins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core.coins import BATCH_NUMBERS, ERA_BYTES, ROOT_BYTES
from peel_gateway.model.coins import COIN_COLUMNS, HELD, CoinTable, DueReports, Ragged, Records
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import add_checksum, drop_checksum
from peel_gateway.storage.sql.connection import Connection, Row
from peel_gateway.storage.sql.rows import CHUNK, add_counts, columns, in_chunks
from peel_gateway.storage.store import StoreCorrupt

__all__ = [
    "append_held",
    "has_due",
    "pack_era",
    "put_coins",
    "put_roots",
    "put_waiting",
    "read_asked",
    "read_coins",
    "read_committed",
    "read_due_devices",
    "read_due_reports",
    "read_era",
    "read_held_records",
    "read_roots",
    "read_waiting",
    "remove_due_reports",
    "remove_roots",
    "void_coins",
]

Ints = npt.NDArray[np.int64]

_PACKED = ("challenge", "batches")
_NUMBERS = tuple(name for name in COIN_COLUMNS if name not in ("device", *_PACKED))
_RECORDS_AT_ONCE = 100_000
"""Held reports that one transaction takes out of their pieces."""


def pack_era(begin: int, salt: int) -> bytes:
    """Return an era (SPEC section 13.5): its begin in Unix seconds in the upper half, a random number in the lower."""
    return (begin << 32 | salt).to_bytes(ERA_BYTES, "little")


def read_era(connection: Connection) -> bytes:
    """Return the era of verified coins."""
    meta: dict[str, int] = dict(
        connection.rows("SELECT key, value FROM {meta} AS meta WHERE key IN ('era', 'era_salt')")
    )
    return pack_era(meta["era"], meta["era_salt"])


# ---- states ----


def _of_devices(connection: Connection, query: str, only: Ints | None) -> list[Row]:
    """Return the rows of a query, by device, for all devices or for some (ascending ids)."""
    if only is None:
        return connection.rows(f"{query} ORDER BY device")
    return [
        row
        for marks, chunk in in_chunks(only.tolist())
        for row in connection.rows(f"{query} WHERE device IN ({marks}) ORDER BY device", chunk)
    ]


def read_coins(connection: Connection, only: Ints | None = None) -> CoinTable:
    """Return the coins of devices, by id: of all that ever committed, or of those among some (ascending ids)."""
    names = ("device", *_NUMBERS)
    rows = _of_devices(connection, f"SELECT {', '.join((*names, *_PACKED))} FROM {{coin}} AS coin", only)
    numbers = dict(zip(names, columns([row[: len(names)] for row in rows], len(names)), strict=True))
    challenge, batches = np.full((2, len(rows)), b"", np.object_)
    challenge[:] = [bytes(row[-2]) for row in rows]
    batches[:] = [_unchecked(row[0], bytes(row[-1])) for row in rows]
    return CoinTable(**numbers, challenge=challenge, batches=batches)


def _unchecked(device: int, data: bytes) -> bytes:
    try:
        return drop_checksum(data)
    except ValueError as error:
        raise StoreCorrupt(f"the store is damaged: batches of device {device:08x}: {error}; restore a copy") from error


def put_coins(connection: Connection, table: CoinTable) -> None:
    """Insert or replace the coins of devices."""
    values = {name: getattr(table, name) for name in _NUMBERS}
    packed = {"challenge": table.challenge, "batches": [add_checksum(data) for data in table.batches]}
    connection.put("coin", {"device": table.device}, values | packed)


def read_asked(connection: Connection, only: Ints | None = None) -> dict[int, int]:
    """Return when unanswered audits and challenges began, Unix milliseconds, by device: of all devices, or of some."""
    query = "SELECT device, asked FROM {coin} AS coin WHERE asked > 0"
    if only is None:
        return dict(connection.rows(query))
    found: dict[int, int] = {}
    for marks, chunk in in_chunks(only.tolist()):
        found.update(connection.rows(f"{query} AND device IN ({marks})", chunk))
    return found


# ---- roots ----


def read_roots(connection: Connection, device: Ints, first: Ints) -> npt.NDArray[np.uint8]:
    """Return the roots of distinct batches, by device and first number, uint8[N, 32, 16]."""
    found: dict[tuple[int, int], bytes] = {}
    wanted = list(zip(device.tolist(), first.tolist(), strict=True))
    for start in range(0, len(wanted), CHUNK):
        chunk = wanted[start : start + CHUNK]
        query = f"""SELECT device, first, roots FROM (VALUES {", ".join(["(?, ?)"] * len(chunk))}) AS wanted
                    CROSS JOIN {{coin_batch}} AS coin_batch WHERE device = wanted.column1 AND first = wanted.column2"""
        rows = connection.rows(query, [value for pair in chunk for value in pair])
        found.update({(row[0], row[1]): bytes(row[2]) for row in rows})
    size = BATCH_NUMBERS * ROOT_BYTES
    try:
        data = b"".join(found[pair] for pair in wanted)
    except KeyError as error:
        raise StoreCorrupt(f"the store is damaged: the roots of batch {error} are missing; restore a copy") from None
    if len(data) != len(wanted) * size:
        raise StoreCorrupt("the store is damaged: roots of a batch are incomplete; restore a copy")
    return np.frombuffer(data, np.uint8).reshape(-1, BATCH_NUMBERS, ROOT_BYTES)


def put_roots(connection: Connection, device: Ints, first: Ints, roots: npt.NDArray[np.uint8]) -> None:
    """Insert the roots of new batches, uint8[N, 512]."""
    rows = zip(device.tolist(), first.tolist(), map(bytes, roots), strict=True)
    connection.insert("coin_batch", ("device", "first", "roots"), rows)


def remove_roots(connection: Connection, device: Ints, first: Ints) -> None:
    """Delete the roots of batches."""
    for pair in zip(device.tolist(), first.tolist(), strict=True):
        connection.delete("coin_batch", "device = ? AND first = ?", pair)


def read_committed(connection: Connection) -> frozenset[tuple[int, int]]:
    """Return device and first number of each batch whose roots are stored."""
    query = "SELECT device, first, LENGTH(roots) FROM {coin_batch} AS coin_batch"
    return frozenset(row[:2] for row in connection.rows(query) if row[2] == BATCH_NUMBERS * ROOT_BYTES)


# ---- reports that wait ----


def append_held(connection: Connection, due: int, arrival: int, records: Records) -> None:
    """Append the held reports of a batch whose time bucket ends at `due` (Unix seconds)."""
    connection.insert("held", ("due", "arrival", "data"), [(due, arrival, add_checksum(records.tobytes()))])


def _opened(due: int, arrival: int, data: bytes) -> Records:
    try:
        return np.frombuffer(drop_checksum(data), HELD)
    except ValueError as error:
        raise StoreCorrupt(f"the store is damaged: held reports {due}/{arrival}: {error}; restore a copy") from error


_PIECES = "SELECT due, arrival, data FROM {held} AS held"
_DUE = "(due <= ? OR due > ?)"


def read_due_reports(connection: Connection, now: int, latest: int) -> DueReports:
    """Return held reports whose time bucket has ended by `now` or ends after `latest` (Unix seconds), `_RECORDS_AT_ONCE` or a few more."""
    parts, pieces, count, complete = [np.zeros(0, HELD)], [], 0, True
    for due, arrival, data in connection.stream(f"{_PIECES} WHERE {_DUE} ORDER BY due, arrival", (now, latest)):
        if count >= _RECORDS_AT_ONCE:
            complete = False
            break
        parts.append(_opened(due, arrival, data))
        pieces.append((due, arrival))
        count += len(parts[-1])
    return DueReports(np.concatenate(parts), pieces, complete)


def remove_due_reports(connection: Connection, reports: DueReports) -> None:
    """Delete the pieces that held reports were read from."""
    for piece in reports.pieces:
        connection.delete("held", "due = ? AND arrival = ?", piece)


def read_held_records(connection: Connection) -> list[tuple[int, Records]]:
    """Return all held reports whose time bucket was not known to have ended, by its end (Unix seconds)."""
    return [(due, _opened(due, arrival, data)) for due, arrival, data in connection.rows(_PIECES)]


def read_waiting(connection: Connection, only: Ints | None = None) -> tuple[Ints, list[bytes]]:
    """Return the devices with waiting reports, and their `WAITING` records as bytes: all, or those among some (ascending ids)."""
    rows = _of_devices(connection, "SELECT device, data FROM {waiting} AS waiting", only)
    return np.array([row[0] for row in rows], np.int64), [_unchecked(row[0], bytes(row[1])) for row in rows]


def put_waiting(connection: Connection, device: Ints, reports: Ragged) -> None:
    """Replace the waiting reports of devices."""
    packed, some = reports.packed(), reports.counts > 0
    kept = [add_checksum(data) for data in packed if data]
    connection.put("waiting", {"device": device[some]}, {"data": kept})
    _delete_devices(connection, "waiting", device[~some])


def _delete_devices(connection: Connection, table: str, device: Ints) -> None:
    for marks, chunk in in_chunks(device.tolist()):
        connection.delete(table, f"device IN ({marks})", chunk)


def has_due(connection: Connection, now: int, latest: int) -> bool:
    """Return whether a group is to be challenged: one of devices whose turn it is, or of reports as in `read_due_reports`."""
    held = connection.row(f"SELECT 1 FROM {{held}} AS held WHERE {_DUE} LIMIT 1", (now, latest))
    return held is not None or len(read_due_devices(connection, 1)) > 0


def read_due_devices(connection: Connection, limit: int) -> Ints:
    """Return devices whose waiting reports can be challenged now, ascending."""
    rows = connection.rows("SELECT device FROM {coin} AS coin WHERE due > 0 ORDER BY device LIMIT ?", (limit,))
    return np.array([row[0] for row in rows], np.int64)


# ---- void ----


def void_coins(connection: Connection, only: Ints | None = None) -> int:
    """Make all batches void, of all devices or of some (ascending ids). Their held reports never count; return how many there were."""
    coins = read_coins(connection, only)
    coins.make_void()
    put_coins(connection, coins)
    for table in ("coin_batch", "waiting"):
        if only is None:
            connection.delete(table, "device > 0", ())
        else:
            _delete_devices(connection, table, only)
    if only is None:
        connection.delete("held", "due > 0", ())
    rows = _of_devices(connection, "SELECT device, held FROM {progress} AS progress", only)
    device, held = columns([row for row in rows if row[1]], 2)
    connection.add("refused", {"device": device, "verdict": np.full(len(device), int(Verdict.VOID))}, {"reports": held})
    for marks, chunk in in_chunks(device.tolist()):
        connection.update("progress", "held = 0", f"device IN ({marks})", chunk)
    count = int(held.sum())
    add_counts(connection, "verdict", {int(Verdict.HELD): -count, int(Verdict.VOID): count})
    return count
