# SPDX-License-Identifier: MIT
"""The truth of a simulation in one SQLite file: published reports, their senders, acknowledgements and confirmations.

The file is also the simulated devices' flash. Numbers are reserved in it before they are used. A message is stored before it is sent,
and keeps its bytes until a gateway has confirmed it (or the broker has acknowledged it, if that is enough). So after a crash the next run
resends all other messages byte by byte, like a device's outbox. A message that had arrived is then a harmless redelivery.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from peel_gateway.files import make_private
from peel_tools.simulation.piece import HONEST, Piece

__all__ = ["MOMENT_SECONDS", "Outgoing", "Truth", "TruthError"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOMENT_SECONDS = 5
"""Seconds over which readings are summed; charts over time cannot be finer."""
_APPLICATION_ID = 0x5045544D
_SCHEMA = f"""
BEGIN IMMEDIATE;  -- two processes may open a new file at once
PRAGMA application_id = {_APPLICATION_ID};
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS device (
    device   INTEGER PRIMARY KEY,
    profile  INTEGER NOT NULL,
    role     TEXT NOT NULL,
    reserved INTEGER NOT NULL,     -- numbers up to this one are spent
    patience INTEGER               -- the reports by which the statistics must have exposed it; NULL without a limit
);
CREATE TABLE IF NOT EXISTS message (
    id           INTEGER PRIMARY KEY,
    device       INTEGER NOT NULL,
    topic        TEXT NOT NULL,
    payload      BLOB,             -- until it is done
    acknowledged INTEGER NOT NULL, -- by the broker
    confirmed    INTEGER NOT NULL, -- by a gateway
    profile      INTEGER NOT NULL,
    honest       INTEGER NOT NULL, -- honest reports in it,
    sums         BLOB              -- and what their readings add up to, (place, amount) int64[P, 2], until it is acknowledged
);
CREATE TABLE IF NOT EXISTS honest (              -- honest reports in those that are, by when they were,
    profile INTEGER NOT NULL,
    moment  INTEGER NOT NULL,      -- Unix seconds
    reports INTEGER NOT NULL,
    PRIMARY KEY (profile, moment)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reading (             -- and their sums per statistic: Q15, or reports with the category
    profile INTEGER NOT NULL,
    moment  INTEGER NOT NULL,
    place   INTEGER NOT NULL,
    amount  INTEGER NOT NULL,
    PRIMARY KEY (profile, moment, place)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS message_waiting ON message (id) WHERE payload IS NOT NULL;
CREATE TABLE IF NOT EXISTS report (
    message INTEGER NOT NULL,
    device  INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    bad     INTEGER NOT NULL,      -- whether the gateway must object to it as such
    profile INTEGER NOT NULL,
    idx     INTEGER NOT NULL,
    sign    INTEGER NOT NULL,
    value   INTEGER NOT NULL,
    digest  BLOB NOT NULL,
    opened  INTEGER NOT NULL       -- whether idx and sign are those that count: 0 until its verified coin is opened
);
CREATE INDEX IF NOT EXISTS report_message ON report (message);
CREATE INDEX IF NOT EXISTS report_unopened ON report (device, number) WHERE NOT opened;
CREATE TABLE IF NOT EXISTS coin (device INTEGER PRIMARY KEY, state TEXT NOT NULL);  -- verified coins, as the device keeps them
COMMIT;
"""


class TruthError(Exception):
    """A truth file cannot be used. The message says why."""


@dataclass(frozen=True)
class Outgoing:
    """A message that is to be sent."""

    id: int
    device: int
    topic: str
    payload: bytes
    pieces: int
    """The number of its frames, real or fake."""
    numbers: tuple[int, ...]
    """The numbers of its valid reports, which a receipt must settle."""


@dataclass(frozen=True)
class _Readings:
    """The readings behind honest reports."""

    profile: int
    honest: int
    sums: Ints
    """(place, amount), int64[P, 2]; a place may be repeated."""


_REMEDY = "It has the report numbers that the simulated devices used: restore it, or make another simulated fleet"


class Truth:
    """One truth file, created or continued."""

    def __init__(self, path: Path) -> None:
        self.path = path
        make_private(path)  # it holds every reading
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
        except sqlite3.OperationalError as error:
            raise TruthError(f"{path}: {error}. {_REMEDY}") from None
        try:
            self._prepare()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise TruthError(f"{path}: cannot be used: {error}. {_REMEDY}") from None
        except TruthError:
            self._connection.close()
            raise
        (last,) = self._connection.execute("SELECT COALESCE(MAX(id), 0) FROM message").fetchone()
        self._last_id = int(last)
        self._pending: dict[int, _Readings] = {}

    def _prepare(self) -> None:
        (application,) = self._connection.execute("PRAGMA application_id").fetchone()
        (tables,) = self._connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if tables and application != _APPLICATION_ID:
            raise TruthError(f"{self.path}: a database, but not the truth of a simulation. {_REMEDY}")
        self._connection.execute("PRAGMA journal_mode = WAL")
        # This survives a crash of the process. A crash of the machine may lose the last reports.
        self._connection.execute("PRAGMA synchronous = NORMAL")
        if not tables:
            self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

    def settle(self, key: str, value: str) -> str:
        """Store a value under a key unless it has one. Return the stored value."""
        with self._transaction() as connection:
            connection.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT DO NOTHING", (key, value))
            (kept,) = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return str(kept)

    def count_run(self) -> int:
        """Return the number of runs with this file, including this one."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO meta VALUES ('runs', '1') ON CONFLICT DO UPDATE SET value = CAST(value AS INTEGER) + 1"
            )
            (runs,) = connection.execute("SELECT value FROM meta WHERE key = 'runs'").fetchone()
        return int(runs)

    def devices(self) -> dict[int, tuple[str, int]]:
        """Return role and last reserved number of each device."""
        rows = self._connection.execute("SELECT device, role, reserved FROM device")
        return {device: (role, reserved) for device, role, reserved in rows}

    def enrol(self, devices: Iterable[tuple[int, int, str, int | None]]) -> None:
        """Add devices as (device, profile, role, patience)."""
        with self._transaction() as connection:
            connection.executemany("INSERT INTO device VALUES (?, ?, ?, 0, ?)", devices)

    def turn(self, device: int, role: str, patience: int | None) -> None:
        """Give a device another role."""
        with self._transaction() as connection:
            connection.execute("UPDATE device SET role = ?, patience = ? WHERE device = ?", (role, patience, device))

    def note_switched(self, kind: str) -> None:
        """Note that an attack was not on all the time, so that no deadline for its exposure applies."""
        self.settle(f"switched {kind}", "yes")

    def reserve(self, devices: npt.NDArray[np.int64], reserved: npt.NDArray[np.int64]) -> None:
        """Spend numbers. They are on disk before the coins are tossed."""
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE device SET reserved = ? WHERE device = ?", zip(reserved.tolist(), devices.tolist(), strict=True)
            )

    def intend(self, messages: Sequence[tuple[str, int, Sequence[Piece]]], sums: Mapping[int, Ints]) -> list[Outgoing]:
        """Store messages, as (topic, profile, pieces), before they are sent.

        `sums` has the summed readings of each message's honest reports, (place, amount) int64[P, 2], by the message's position.
        """
        outgoing, rows, reports = [], [], []
        for place, (topic, profile, pieces) in enumerate(messages):
            self._last_id += 1
            payload = b"".join(piece.frame for piece in pieces)
            honest = sum(piece.kind == HONEST for piece in pieces)
            numbers = tuple(piece.number for piece in pieces if not piece.bad)
            outgoing.append(Outgoing(self._last_id, pieces[0].device, topic, payload, len(pieces), numbers))
            added = sums[place].tobytes() if honest else None
            rows.append((self._last_id, pieces[0].device, topic, payload, 0, 0, profile, honest, added))
            if honest:
                self._pending[self._last_id] = _Readings(profile, honest, sums[place])
            reports += [
                (
                    self._last_id, piece.device, piece.number, piece.kind, int(piece.bad), profile,
                    piece.cell, piece.sign, piece.value, piece.digest, int(piece.opened),
                )
                for piece in pieces
            ]  # fmt: skip
        with self._transaction() as connection:
            connection.executemany("INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
            connection.executemany("INSERT INTO report VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", reports)
        return outgoing

    def open(self, reports: Sequence[tuple[int, int, int, int]]) -> None:
        """Store the outcomes of reports whose verified coins are opened, as (cell, sign, device, number)."""
        if not reports:
            return
        with self._transaction() as connection:
            connection.executemany(
                """UPDATE report SET idx = ?, sign = ?, opened = 1
                   WHERE device = ? AND number = ? AND NOT opened AND NOT bad""",
                reports,
            )

    def unopened(self) -> dict[int, dict[int, tuple[int, int]]]:
        """Return the valid reports whose verified coins are not opened: cell and sign, by device and number."""
        found: dict[int, dict[int, tuple[int, int]]] = {}
        query = "SELECT device, number, idx, sign FROM report WHERE NOT opened AND NOT bad"
        for device, number, cell, sign in self._connection.execute(query):
            found.setdefault(device, {})[number] = (cell, sign)
        return found

    def keep_coins(self, states: Mapping[int, str]) -> None:
        """Store the verified coins of devices."""
        if not states:
            return
        with self._transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO coin VALUES (?, ?)", states.items())

    def coins(self) -> dict[int, str]:
        """Return the verified coins of devices."""
        return dict(self._connection.execute("SELECT device, state FROM coin"))

    def acknowledge(self, ids: Sequence[int]) -> None:
        """Note that the broker has acknowledged these messages."""
        if not ids:
            return
        news = _added([self._pending[id_] for id_ in ids if id_ in self._pending])
        moment = int(time.time()) // MOMENT_SECONDS * MOMENT_SECONDS
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE message SET acknowledged = 1, sums = NULL WHERE id = ?", [(id_,) for id_ in ids]
            )
            connection.executemany(
                "INSERT INTO honest VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET reports = reports + excluded.reports",
                [(each.profile, moment, each.honest) for each in news],
            )
            connection.executemany(
                "INSERT INTO reading VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET amount = amount + excluded.amount",
                [(each.profile, moment, place, amount) for each in news for place, amount in each.sums.tolist()],
            )
        for id_ in ids:
            self._pending.pop(id_, None)

    def finish(self, ids: Sequence[int], *, confirmed: bool) -> None:
        """Delete the bytes of messages that need not be resent. `confirmed` is whether a gateway has confirmed them."""
        if not ids:
            return
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE message SET payload = NULL, confirmed = ? WHERE id = ?", [(int(confirmed), id_) for id_ in ids]
            )

    def waiting(self) -> list[Outgoing]:
        """Return the messages that must be resent, oldest first."""
        query = """SELECT id, message.device, topic, payload, COUNT(*), GROUP_CONCAT(CASE WHEN NOT bad THEN number END),
                       message.profile, honest, sums
                   FROM message JOIN report ON report.message = message.id
                   WHERE payload IS NOT NULL GROUP BY id ORDER BY id"""
        found = []
        for id_, device, topic, payload, pieces, listed, profile, honest, sums in self._connection.execute(query):
            numbers = tuple(map(int, listed.split(","))) if listed else ()
            found.append(Outgoing(id_, device, topic, payload, pieces, numbers))
            if sums is not None:
                self._pending[id_] = _Readings(profile, honest, np.frombuffer(sums, np.int64).reshape(-1, 2))
        return found

    def published(self) -> dict[str, int]:
        """Return the number of acknowledged reports by kind. An attacker's valid reports have its kind, too."""
        query = """SELECT kind, COUNT(*) FROM report JOIN message ON message.id = report.message
                   WHERE acknowledged GROUP BY kind"""
        return dict(self._connection.execute(query).fetchall())

    def confirmed(self) -> int:
        """Return how many reports a gateway has confirmed."""
        query = "SELECT COUNT(*) FROM report JOIN message ON message.id = report.message WHERE confirmed"
        return int(self._connection.execute(query).fetchone()[0])

    def means(self, profile: int, size: int, since: float = 0) -> tuple[int, Floats]:
        """Return how many honest reports were acknowledged, and the mean of all readings behind them, float64[size]: Q15, or shares."""
        query = "SELECT COALESCE(SUM(reports), 0) FROM honest WHERE profile = ? AND moment >= ?"
        (reports,) = self._connection.execute(query, (profile, since)).fetchone()
        if not reports:
            return 0, np.full(size, np.nan)
        sums = np.zeros(size)
        query = "SELECT place, SUM(amount) FROM reading WHERE profile = ? AND moment >= ? GROUP BY place"
        for place, amount in self._connection.execute(query, (profile, since)):
            sums[place] = amount
        return int(reports), sums / reports

    def history(self, profile: int, place: int, seconds: int, since: float = 0) -> tuple[Ints, Floats]:
        """Return the starts of spans of `seconds`, and the mean of one statistic's readings in each."""
        query = """SELECT honest.moment / ? * ?, CAST(COALESCE(SUM(amount), 0) AS REAL) / SUM(reports)
                   FROM honest LEFT JOIN reading
                       ON reading.profile = honest.profile AND reading.moment = honest.moment AND place = ?
                   WHERE honest.profile = ? AND honest.moment >= ? GROUP BY 1 ORDER BY 1"""
        rows = self._connection.execute(query, (seconds, seconds, place, profile, since)).fetchall()
        return np.array([start for start, _ in rows], np.int64), np.array([mean for _, mean in rows], np.float64)


def _added(news: Sequence[_Readings]) -> list[_Readings]:
    """Sum the readings of many messages per profile and place."""
    added = []
    for profile in sorted({each.profile for each in news}):
        mine = [each for each in news if each.profile == profile]
        stacked = np.concatenate([each.sums for each in mine])
        places, row = np.unique(stacked[:, 0], return_inverse=True)
        amounts = np.zeros(len(places), np.int64)
        np.add.at(amounts, row, stacked[:, 1])
        added.append(_Readings(profile, sum(each.honest for each in mine), np.stack([places, amounts], axis=1)))
    return added
