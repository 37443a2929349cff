# SPDX-License-Identifier: MIT
"""The referee: compare a gateway's store with the truth of a simulation, report by report."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from peel_gateway.model.exposure import Exposure
from peel_gateway.model.tables import DeviceTable, LogTable, TallyTable
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import read_log
from peel_gateway.storage.store import Archive
from peel_tools.simulation.attackers import ATTACKS
from peel_tools.simulation.piece import HONEST, digest_of

__all__ = ["Books", "Findings", "KindFindings", "copy_books", "judge", "read_books"]

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
    """The content of a gateway's store."""

    log: LogTable
    devices: DeviceTable
    tallies: list[TallyTable]
    """One table per profile, over all time."""
    exposures: list[Exposure]
    verdicts: Mapping[Verdict, int]
    dropped: Mapping[Verdict, int]
    """The number of pieces per verdict that were dropped from the exposures for lack of space."""
    steady: bool
    """Whether nothing was committed during the read, so that all tables agree."""


def read_books(store: Archive, profiles: Iterable[int]) -> Books:
    """Read a store that may be in use, with the tallies of these profiles and of all profiles in its log."""
    for _ in range(_TRIES):
        books = _read(store, profiles)
        if books.steady:
            break
    return books


def _read(store: Archive, profiles: Iterable[int]) -> Books:
    before = store.counts().generation
    log = read_log(store)
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
    """Copy a store's content into an attached, empty database: log, device, tally (the current counts), refused (by digest)."""
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
        if piece.verdict != Verdict.STATISTICS:  # about a device, without bytes
            refused.setdefault(digest_of(piece.raw), int(piece.verdict))
    fill("refused", refused.items(), 2)


def _rows(*columns: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Iterable[tuple[object, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


@dataclass
class KindFindings:
    """The outcome of one kind of attack."""

    layer: str
    pieces: int = 0
    """Distinct bad pieces that the broker acknowledged."""
    exposed: int = 0
    """The pieces that were refused with a verdict of the layer."""
    dropped: int = 0
    """The exposed pieces whose bytes the gateway has dropped. Its counts of dropped pieces by verdict prove them."""
    unheard: int = 0
    """The pieces that the gateway has no record of."""
    mistaken: int = 0
    """The pieces that were refused with another verdict, or accepted."""
    devices: int = 0
    exposed_devices: int = 0
    """Devices exposed by the layer."""
    mistaken_devices: int = 0
    """Devices exposed by another layer, or by any layer if none should."""
    escaped_devices: int = 0
    """Devices not exposed although they sent enough: one bad piece, or the most reports that the statistics may take."""
    stalled: int = 0
    """Reports that the gateway holds without blame, because their device does not open its coins. They must not count."""

    def faults(self) -> Iterator[str]:
        """Yield each fault in words."""
        for count, text in (
            (self.unheard, "pieces that the gateway has not heard of"),
            (self.mistaken, "pieces accepted, or refused for another reason"),
            (self.mistaken_devices, "devices exposed for another reason"),
            (self.escaped_devices, "devices not exposed although they have sent enough"),
        ):
            if count:
                yield f"{count} {text}"


@dataclass
class Findings:
    """The result of the comparison. Numbers count reports unless a name says otherwise."""

    published: int
    """Reports that the broker acknowledged, including attackers'."""
    unacknowledged: int
    """Reports sent without an acknowledgement."""
    honest: int
    faulty: int
    """Distinct pieces that must be refused, over all kinds. Short pieces of two kinds may be the same bytes."""
    accepted: int
    """Reports in the gateway's tallies now."""
    exposed: dict[str, int]
    """Reports refused by the gateway, by cause."""
    honest_exposed: int
    """Honest reports that were refused for any cause."""
    honest_devices_exposed: int
    lost: int
    """Acknowledged valid reports that are missing in the tallies (for exposed devices, in the log)."""
    double_counted: int
    """Reports in the tallies beyond those published (and opened, if their coins are verified)."""
    altered: int
    """Reports in the log with another outcome than was sent, or opened."""
    held: int = 0
    """Acknowledged reports whose verified coins are not opened yet, of devices that open them."""
    attacks: dict[str, KindFindings] = field(default_factory=dict)
    steady: bool = True
    """Whether the store did not change during the comparison. Otherwise the comparison is not final."""

    @property
    def exact(self) -> bool:
        """Whether the tallies match the published reports, nothing honest was refused, and every attack was exposed as it must be."""
        return not self.faults()

    def faults(self) -> list[str]:
        """Return the faults in words; empty if there are no faults."""
        found = [] if self.published else ["nothing was published, so nothing is shown"]
        for count, text in (
            (self.unacknowledged, "reports not acknowledged by the broker"),
            (self.lost, "reports lost"),
            (self.held, "reports held, because their coins are not opened"),
            (self.double_counted, "reports counted twice"),
            (self.altered, "reports altered"),
            (self.honest_exposed, "honest reports refused"),
            (self.honest_devices_exposed, "honest devices exposed"),
        ):
            if count:
                found.append(f"{count} {text}")
        return found + [f"{name}: {fault}" for name, kind in self.attacks.items() for fault in kind.faults()]

    @property
    def settled(self) -> bool:
        """Whether the gateway has a record of every piece."""
        return self.steady and not self.lost + self.held and not any(kind.unheard for kind in self.attacks.values())

    def table(self) -> dict[str, Any]:
        """Return it as plain values for JSON."""
        return asdict(self)


def judge(truth: Path, store: Archive) -> Findings:
    """Compare a truth file with a gateway's store. Both may be in use."""
    connection = sqlite3.connect(f"{truth.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        profiles = [int(profile) for (profile,) in connection.execute("SELECT DISTINCT profile FROM report")]
        books = read_books(store, profiles)
        connection.execute("ATTACH ':memory:' AS gateway")
        copy_books(connection, "gateway", books)
        return _Referee(connection, books).findings()
    finally:
        connection.close()


_VIEWS = """
    CREATE TEMP VIEW sent AS
    SELECT report.*, message.acknowledged AS acked FROM report JOIN message ON message.id = report.message;
    CREATE TEMP TABLE repeating (name TEXT);
    CREATE TEMP TABLE stalling (name TEXT);
"""


class _Referee:
    def __init__(self, connection: sqlite3.Connection, books: Books) -> None:
        self._connection = connection
        self._books = books
        connection.executescript(_VIEWS)
        harmless = [(name,) for name, attack in ATTACKS.items() if Verdict.REDELIVERED in attack.verdicts]
        connection.executemany("INSERT INTO temp.repeating VALUES (?)", harmless)
        stalling = [(name,) for name, attack in ATTACKS.items() if attack.stalls]
        connection.executemany("INSERT INTO temp.stalling VALUES (?)", stalling)
        connection.execute("BEGIN")  # one consistent view of the truth

    def _one(self, query: str, *values: object) -> int:
        return int(self._connection.execute(query, values).fetchone()[0] or 0)

    def findings(self) -> Findings:
        lost, doubled = self._tallies()
        return Findings(
            published=self._one("SELECT COUNT(*) FROM sent WHERE acked"),
            unacknowledged=self._one("SELECT COUNT(*) FROM sent WHERE NOT acked"),
            honest=self._one("SELECT COUNT(*) FROM sent WHERE acked AND kind = ?", HONEST),
            faulty=self._one(
                "SELECT COUNT(DISTINCT digest) FROM sent WHERE acked AND bad AND kind NOT IN (SELECT name FROM temp.repeating)"
            ),
            accepted=self._one("SELECT SUM(plus + minus) FROM gateway.tally"),
            exposed=self._exposed(),
            honest_exposed=self._honest_exposed(),
            honest_devices_exposed=self._one(
                "SELECT COUNT(*) FROM device JOIN gateway.device AS state USING (device) WHERE role = ? AND cause",
                HONEST,
            ),
            lost=lost + self._unlogged(),
            double_counted=doubled,
            altered=self._one(
                """SELECT COUNT(*) FROM sent JOIN gateway.log USING (device, number)
                   WHERE NOT sent.bad AND (log.idx, log.sign, log.profile) != (sent.idx, sent.sign, sent.profile)
                       AND (log.verdict = ? OR device NOT IN (SELECT device FROM coin))""",
                int(Verdict.ACCEPTED),  # before, a report with a verified coin has no outcome
            ),
            held=self._one(
                """SELECT COUNT(*) FROM sent JOIN device USING (device) LEFT JOIN gateway.device AS state USING (device)
                   WHERE acked AND NOT bad AND NOT opened AND role NOT IN (SELECT name FROM temp.stalling)
                       AND NOT COALESCE(withdrawn, 0)"""
            ),
            attacks=self._attacks(),
            steady=self._books.steady,
        )

    def _exposed(self) -> dict[str, int]:
        counts = self._books.verdicts.items()
        return {verdict.label: count for verdict, count in counts if count and verdict.layer is not None}

    def _tallies(self) -> tuple[int, int]:
        """Return the numbers of reports missing and surplus in the tallies, by outcome, without withdrawn devices."""
        counting = """FROM sent LEFT JOIN gateway.device AS state USING (device)
                      WHERE NOT bad AND opened AND NOT COALESCE(withdrawn, 0) GROUP BY sent.profile, idx, sign"""
        least = self._outcomes(f"SELECT sent.profile, idx, sign, SUM(acked) {counting}")
        most = self._outcomes(f"SELECT sent.profile, idx, sign, COUNT(*) {counting}")
        tallied = self._outcomes(
            """SELECT profile, idx, 1, SUM(plus) FROM gateway.tally GROUP BY profile, idx UNION ALL
               SELECT profile, idx, -1, SUM(minus) FROM gateway.tally GROUP BY profile, idx"""
        )
        return (least - tallied).total(), (tallied - most).total()

    def _outcomes(self, query: str) -> Counter[tuple[int, int, int]]:
        return Counter(
            {(profile, index, sign): count for profile, index, sign, count in self._connection.execute(query)}
        )

    def _unlogged(self) -> int:
        """Return the number of valid reports of withdrawn devices that are missing in the log. They have left the tallies.

        Reports with verified coins may be missing: the gateway ignores the openings of withdrawn devices.
        """
        return self._one(
            """SELECT COUNT(*) FROM sent JOIN gateway.device AS state USING (device)
               LEFT JOIN gateway.log USING (device, number)
               WHERE acked AND NOT sent.bad AND withdrawn AND log.device IS NULL
                   AND device NOT IN (SELECT device FROM coin)"""
        )

    def _honest_exposed(self) -> int:
        logged = self._one(
            """SELECT COUNT(*) FROM sent JOIN gateway.log USING (device, number) JOIN device USING (device)
               WHERE sent.kind = ? AND role = sent.kind AND log.verdict NOT IN (?, ?)""",
            HONEST,
            int(Verdict.ACCEPTED),
            int(Verdict.HELD),
        )
        # Reports that never reached the log: their bytes are among the exposures.
        return logged + self._one(
            """SELECT COUNT(*) FROM sent JOIN gateway.refused USING (digest) JOIN device ON device.device = sent.device
               WHERE kind = ? AND role = kind""",
            HONEST,
        )

    def _attacks(self) -> dict[str, KindFindings]:
        kinds: dict[str, KindFindings] = {}
        self._pieces(kinds)
        self._devices(kinds)
        return kinds

    def _pieces(self, kinds: dict[str, KindFindings]) -> None:
        """Look up each distinct bad piece among the exposures. A replay leaves no exposure; it must only not count twice."""
        dropped = Counter(self._books.dropped)
        rows = self._connection.execute(
            """SELECT kind, verdict, COUNT(*) FROM
                   (SELECT DISTINCT kind, digest, verdict FROM sent LEFT JOIN gateway.refused USING (digest) WHERE bad AND acked)
               GROUP BY kind, verdict"""
        )
        for name, verdict, count in rows:
            attack = ATTACKS[name]
            kind = kinds.setdefault(name, KindFindings(attack.layer_label))
            kind.pieces += count
            if verdict is None and Verdict.REDELIVERED in attack.verdicts:
                kind.exposed += count
            elif verdict is None:
                vouched = _take(dropped, attack.verdicts, count)
                kind.dropped += vouched
                kind.exposed += vouched
                kind.unheard += count - vouched
            elif verdict in attack.verdicts:
                kind.exposed += count
            else:
                kind.mistaken += count

    def _devices(self, kinds: dict[str, KindFindings]) -> None:
        rows = self._connection.execute(
            """SELECT role, COALESCE(cause, 0), said, proofs, patience, unopened FROM
                   (SELECT device, role, patience, COUNT(message) AS said, SUM(bad AND kind = role) AS proofs,
                        SUM(NOT opened) AS unopened
                    FROM device LEFT JOIN (SELECT * FROM sent WHERE acked) USING (device) WHERE role != ? GROUP BY device)
               LEFT JOIN gateway.device AS state USING (device)
               WHERE said OR role IN (SELECT name FROM temp.stalling)""",
            (HONEST,),
        )
        switched = {
            str(key).removeprefix("switched ")
            for (key,) in self._connection.execute("SELECT key FROM meta WHERE key LIKE 'switched %'")
        }
        for role, cause, said, proofs, patience, unopened in rows.fetchall():
            attack = ATTACKS[role]
            kind = kinds.setdefault(role, KindFindings(attack.layer_label))
            kind.devices += 1
            kind.stalled += (unopened or 0) if attack.stalls else 0
            if cause in attack.causes:
                kind.exposed_devices += 1
            elif cause:
                kind.mistaken_devices += 1
            elif proofs or (patience is not None and said >= patience and role not in switched):
                kind.escaped_devices += 1


def _take(dropped: Counter[Verdict], verdicts: Collection[Verdict], count: int) -> int:
    """Take up to `count` from the dropped pieces with these verdicts. Each dropped piece is used once."""
    taken = 0
    for verdict in verdicts:
        some = min(count - taken, dropped[verdict])
        dropped[verdict] -= some
        taken += some
    return taken
