# SPDX-License-Identifier: MIT
"""A gateway's books, copied for the referee: what its store says, in tables that SQL can be asked about."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from peel_gateway.model.exposure import Exposure
from peel_gateway.model.tables import DeviceTable, LogTable, TallyTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.store import Archive
from peel_tools.simulation.piece import digest_of

__all__ = ["Books", "copy_books", "read_books"]

_ALL = 1 << 40
_TRIES = 3

_TABLES = """
    CREATE TABLE {schema}.log (device INTEGER, number INTEGER, profile INTEGER, verdict INTEGER, idx INTEGER, sign INTEGER,
                               PRIMARY KEY (device, number)) WITHOUT ROWID;
    CREATE TABLE {schema}.device (device INTEGER PRIMARY KEY, cause INTEGER, withdrawn INTEGER);
    CREATE TABLE {schema}.tally (profile INTEGER, idx INTEGER, plus INTEGER, minus INTEGER);
    CREATE TABLE {schema}.refused (digest BLOB PRIMARY KEY, verdict INTEGER NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, kw_only=True)
class Books:
    """What a store holds."""

    log: LogTable
    devices: DeviceTable
    tallies: list[TallyTable]
    """One per profile, over all time."""
    exposures: list[Exposure]
    verdicts: Mapping[Verdict, int]
    dropped: Mapping[Verdict, int]
    """Of these: pieces that have left the exposures, for which there was no room."""
    steady: bool
    """Whether nothing was committed while they were read, so that all of it is of one moment."""


def read_books(store: Archive, profiles: Iterable[int]) -> Books:
    """Read a store that may be in use, with the tallies of these profiles and of those in its log."""
    for _ in range(_TRIES):
        books = _read(store, profiles)
        if books.steady:
            break
    return books


def _read(store: Archive, profiles: Iterable[int]) -> Books:
    before = store.counts().generation
    log = store.log()
    known = {*profiles, *np.unique(log.profile).tolist()}
    tallies = [store.tallies(profile) for profile in sorted(known)]
    devices, exposures, counts = store.devices(), store.exposures(limit=_ALL, after=0), store.counts()
    return Books(
        log=log,
        devices=devices,
        tallies=tallies,
        exposures=exposures,
        verdicts=counts.verdicts,
        dropped=counts.dropped,
        steady=counts.generation == before,
    )


def copy_books(connection: sqlite3.Connection, schema: str, books: Books) -> None:
    """Put books into an attached, empty database: tables log, device, tally (what counts now) and refused (by digest of the bytes)."""
    connection.executescript(_TABLES.format(schema=schema))

    def fill(table: str, rows: Iterable[tuple[object, ...]], columns: int) -> None:
        places = ", ".join("?" * columns)
        connection.executemany(f"INSERT INTO {schema}.{table} VALUES ({places})", rows)

    log, devices = books.log, books.devices
    fill("log", _rows(log.device, log.number, log.profile, log.verdict, log.index, log.sign), 6)
    fill("device", _rows(devices.device, devices.cause, devices.withdrawn), 3)
    for tally in books.tallies:
        counting = (tally.plus - tally.withdrawn_plus, tally.minus - tally.withdrawn_minus)
        fill("tally", _rows(tally.profile, tally.index, *counting), 4)
    refused: dict[bytes, int] = {}
    for piece in books.exposures:
        if piece.verdict != Verdict.STATISTICS:  # that one is about a device, and has no bytes
            refused.setdefault(digest_of(piece.raw), int(piece.verdict))
    fill("refused", refused.items(), 2)


def _rows(*columns: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Iterable[tuple[object, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)
