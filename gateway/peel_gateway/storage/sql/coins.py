# SPDX-License-Identifier: MIT
"""Read and write the tables of verified coins."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from peel_core.coins import ERA_BYTES
from peel_gateway.model.coins import CoinBatch, CoinDevice, CoinEffects, CoinWaits, HeldReports
from peel_gateway.storage.records import add_checksum, drop_checksum
from peel_gateway.storage.sql.connection import Connection, Row
from peel_gateway.storage.sql.rows import columns, in_chunks
from peel_gateway.storage.store import StoreCorrupt

__all__ = [
    "drop_coins",
    "pack_era",
    "read_coin_devices",
    "read_due",
    "read_era",
    "read_held",
    "read_roots",
    "read_waits",
    "void_coins",
    "write_coins",
]

Ints = npt.NDArray[np.int64]

_HELD = tuple(each.name for each in fields(HeldReports))
_NUMBERS = ("committed", "approved", "reported", "challenges", "opened", "asked", "due", "void")
_BATCH = struct.Struct("<QIB")


def pack_era(begin: int, salt: int) -> bytes:
    """Return an era (SPEC section 13.5): its begin in Unix seconds in the upper half, a random number in the lower."""
    return (begin << 32 | salt).to_bytes(ERA_BYTES, "little")


def read_era(connection: Connection) -> bytes:
    """Return the era of verified coins."""
    meta: dict[str, int] = dict(
        connection.rows("SELECT key, value FROM {meta} AS meta WHERE key IN ('era', 'era_salt')")
    )
    return pack_era(meta["era"], meta["era_salt"])


def _packed(batches: Sequence[CoinBatch]) -> bytes:
    return add_checksum(b"".join(_BATCH.pack(each.first, each.audit, each.approved) for each in batches))


def _unpacked(device: int, data: bytes) -> list[CoinBatch]:
    try:
        content = drop_checksum(data)
    except ValueError as error:
        raise StoreCorrupt(f"the store is damaged: batches of device {device:08x}: {error}; restore a copy") from error
    return [CoinBatch(first, audit, bool(approved)) for first, audit, approved in _BATCH.iter_unpack(content)]


def read_coin_devices(connection: Connection, only: Ints | None = None) -> dict[int, CoinDevice]:
    """Return the coins of devices, by id."""
    query = f"SELECT device, {', '.join(_NUMBERS)}, seed, batches FROM {{coin}} AS coin"
    if only is None:
        rows = connection.rows(query)
    else:
        rows = [
            row
            for marks, chunk in in_chunks(only.tolist())
            for row in connection.rows(f"{query} WHERE device IN ({marks})", chunk)
        ]
    return {row[0]: _coin_device(row) for row in rows}


def _coin_device(row: Row) -> CoinDevice:
    device, *numbers, seed, batches = row
    values = dict(zip(_NUMBERS, numbers, strict=True))
    return CoinDevice(device, **values, seed=bytes(seed), batches=_unpacked(device, bytes(batches)))


def read_due(connection: Connection, now: int, limit: int) -> Ints:
    """Return devices with a group to challenge by `now` (Unix seconds), those first that have waited longest."""
    query = "SELECT device FROM {coin} AS coin WHERE due > 0 AND due <= ? ORDER BY due, device LIMIT ?"
    return np.array([row[0] for row in connection.rows(query, (now, limit))], np.int64)


def read_held(connection: Connection, only: Ints | None = None) -> HeldReports:
    """Return held reports by device and number, of all devices or of some (ascending ids)."""
    query = f"SELECT {', '.join(_HELD)} FROM {{held}} AS held"
    if only is None:
        rows = connection.rows(f"{query} ORDER BY device, number")
    else:
        rows = [
            row
            for marks, chunk in in_chunks(only.tolist())
            for row in connection.rows(f"{query} WHERE device IN ({marks}) ORDER BY device, number", chunk)
        ]
    return HeldReports(*columns(rows, len(_HELD)))


def read_waits(connection: Connection, only: Ints | None = None) -> CoinWaits:
    """Return the held reports and the unanswered audits and challenges of all devices, or of some (ascending ids)."""
    chunks = (
        [("", [])]
        if only is None
        else [(f"AND device IN ({marks})", chunk) for marks, chunk in in_chunks(only.tolist())]
    )
    found = CoinWaits({}, {}, {})
    for which, chunk in chunks:
        query = f"SELECT device, COUNT(*), MAX(received) FROM {{held}} AS held WHERE number > 0 {which} GROUP BY device"
        for device, count, newest in connection.rows(query, chunk):
            found.held[device], found.newest[device] = count, newest
        query = f"SELECT device, asked FROM {{coin}} AS coin WHERE asked > 0 {which}"
        found.asked.update(connection.rows(query, chunk))
    return found


def read_roots(connection: Connection, batches: Sequence[tuple[int, int]]) -> Mapping[tuple[int, int], bytes]:
    """Return the roots of batches, given by device and first number."""
    wanted, found = set(batches), {}
    for marks, chunk in in_chunks(sorted({device for device, _ in wanted})):
        query = f"SELECT device, first, roots FROM {{coin_batch}} AS coin_batch WHERE device IN ({marks})"
        found.update({(device, first): bytes(roots) for device, first, roots in connection.rows(query, chunk)})
    return {batch: found[batch] for batch in wanted if batch in found}


def write_coins(connection: Connection, effects: CoinEffects) -> None:
    """Write the changes of one transaction."""
    devices = effects.devices
    connection.put(
        "coin",
        {"device": [each.device for each in devices]},
        {name: [getattr(each, name) for each in devices] for name in _NUMBERS}
        | {"seed": [each.seed for each in devices], "batches": [_packed(each.batches) for each in devices]},
    )
    connection.insert("coin_batch", ("device", "first", "roots"), effects.commitments)
    for device, first in effects.closed:
        connection.delete("coin_batch", "device = ? AND first = ?", (device, first))
    _put_held(connection, HeldReports.join([*effects.held, *effects.changed]))
    gone = HeldReports.join(effects.counted)
    for device in np.unique(gone.device).tolist():
        for marks, chunk in in_chunks(gone.number[gone.device == device].tolist()):
            connection.delete("held", f"device = ? AND number IN ({marks})", (device, *chunk))


def _put_held(connection: Connection, rows: HeldReports) -> None:
    keys = ("device", "number")
    connection.put(
        "held",
        {name: getattr(rows, name) for name in keys},
        {name: getattr(rows, name) for name in _HELD if name not in keys},
    )


def drop_coins(connection: Connection, device: int) -> None:
    """Make all batches of a device void and drop its held reports, as a pardon and a release do."""
    _make_void(connection, list(read_coin_devices(connection, np.array([device], np.int64)).values()))


def void_coins(connection: Connection) -> int:
    """Make all batches void and drop all held reports, as a new era does. Return how many reports were held."""
    held = connection.value("SELECT COUNT(*) FROM {held} AS held")
    _make_void(connection, list(read_coin_devices(connection).values()))
    return held


def _make_void(connection: Connection, states: Sequence[CoinDevice]) -> None:
    for state in states:
        state.make_void()
        connection.delete("coin_batch", "device = ?", (state.device,))
        connection.delete("held", "device = ?", (state.device,))
    write_coins(connection, CoinEffects(devices=list(states)))
