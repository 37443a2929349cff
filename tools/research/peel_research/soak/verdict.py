# SPDX-License-Identifier: MIT
"""The verdict: the gateway's database held against the model, with SQL of its own."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from peel_gateway.fleet.folder import device_label
from peel_gateway.model.verdict import BLAMED, Verdict
from peel_gateway.storage.store import Archive
from peel_research.soak.model import REVOKED
from peel_tools.simulation.piece import HONEST
from peel_tools.simulation.referee import copy_books, read_books

__all__ = ["Outcome", "decide"]

_MISSING_SHOWN = 20
_BLAMED = f"verdict IN ({', '.join(str(int(verdict)) for verdict in sorted(BLAMED))})"
_MADE = """
    CREATE TEMP TABLE made AS
    SELECT *, held AND (excused OR kind != :honest) AS void FROM (
        SELECT report.device, report.number, report.profile, report.idx, report.sign, report.kind, report.digest, report.opened,
            log.device IS NOT NULL AS stored,
            COALESCE(log.verdict = :held OR log.verdict = :withdrawn AND NOT report.opened, 0) AS held,
            NOT message.acknowledged
                OR report.kind = :revoked AND EXISTS (
                    SELECT 1 FROM gateway.refused WHERE refused.digest = report.digest AND refused.verdict = :refused)
                OR report.kind != :honest AND report.device IN (SELECT device FROM coin)
                    AND report.device IN (SELECT device FROM gateway.device WHERE withdrawn) AS excused
        FROM report JOIN message ON message.id = report.message
        LEFT JOIN gateway.log ON log.device = report.device AND log.number = report.number
        WHERE NOT bad)
"""
_LOST = "(held OR NOT stored) AND NOT excused AND NOT void"
_COUNTING = """
    SELECT made.profile, idx, sign, COUNT(*) FROM made LEFT JOIN gateway.device AS state USING (device)
    WHERE stored AND NOT held AND NOT COALESCE(withdrawn, 0) GROUP BY made.profile, idx, sign
"""
_TALLIED = """
    SELECT profile, idx, 1, SUM(plus) FROM gateway.tally GROUP BY profile, idx UNION ALL
    SELECT profile, idx, -1, SUM(minus) FROM gateway.tally GROUP BY profile, idx
"""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Counts of reports, but for `honest_exposed`, which has devices in it too."""

    made: int
    """Reports that a gateway must accept, including attackers' valid ones."""
    stored: int
    """Of these, what is in the gateway's log."""
    excused: int
    """Not stored, and nobody's fault: gone with a flash, or refused because its device was revoked or an exposed attacker."""
    void: int
    """Stored, but never to count: with verified coins those of attackers and revoked devices, and of bundles that were replaced."""
    lost: int
    """Not stored, though its device still has it or was told to forget it; or stored, and not in the tallies or still held."""
    double_counted: int
    """In the tallies beyond what was made and stored."""
    altered: int
    """Stored with another content, or a number that a device used for two reports."""
    honest_exposed: int
    """Honest devices that are exposed, and honest reports that the gateway blames their device for."""
    missing: tuple[str, ...]
    """Some of what is lost, by device and number, with the verdict by which it was refused if it was."""

    @property
    def good(self) -> bool:
        """Whether it is as it must be."""
        return self.made > 0 and not (self.lost or self.double_counted or self.altered or self.honest_exposed)


def decide(model: Path, store: Archive, conflicts: int) -> Outcome:
    """Compare a completed model, and the conflicts it has seen, with a gateway's store."""
    connection = sqlite3.connect(f"{model.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        profiles = [int(profile) for (profile,) in connection.execute("SELECT DISTINCT profile FROM report")]
        connection.execute("ATTACH ':memory:' AS gateway")
        copy_books(connection, "gateway", read_books(store, profiles))
        verdicts = {"held": int(Verdict.HELD), "withdrawn": int(Verdict.WITHDRAWN), "refused": int(Verdict.REVOKED)}
        connection.execute(_MADE, {**verdicts, "revoked": REVOKED, "honest": HONEST})
        return _Judge(connection).outcome(conflicts)
    finally:
        connection.close()


class _Judge:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def outcome(self, conflicts: int) -> Outcome:
        counting, tallied = self._outcomes(_COUNTING), self._outcomes(_TALLIED)
        return Outcome(
            made=self._count("FROM made"),
            stored=self._count("FROM made WHERE stored"),
            excused=self._count("FROM made WHERE excused AND NOT stored"),
            void=self._count("FROM made WHERE void"),
            lost=self._count(f"FROM made WHERE {_LOST}") + (counting - tallied).total(),
            double_counted=(tallied - counting).total(),
            altered=conflicts
            + self._count(
                """FROM made JOIN gateway.log USING (device, number)
                   WHERE NOT held AND NOT (opened AND (log.idx, log.sign, log.profile) = (made.idx, made.sign, made.profile))"""
            ),
            honest_exposed=self._honest_exposed(),
            missing=self._missing(),
        )

    def _missing(self) -> tuple[str, ...]:
        rows = self._connection.execute(
            f"""SELECT made.device, made.number, made.kind, held, refused.verdict FROM made
                LEFT JOIN gateway.refused USING (digest) WHERE {_LOST} LIMIT ?""",
            (_MISSING_SHOWN,),
        )
        return tuple(
            f"{device_label(device)} number {number} ({kind}): {_fate(held, verdict)}"
            for device, number, kind, held, verdict in rows
        )

    def _honest_exposed(self) -> int:
        devices = "FROM device JOIN gateway.device AS state USING (device) WHERE role = ? AND cause"
        logged = f"FROM made JOIN gateway.log USING (device, number) WHERE kind = ? AND log.{_BLAMED}"
        refused = f"FROM made JOIN gateway.refused USING (digest) WHERE kind = ? AND refused.{_BLAMED}"
        return sum(self._count(question, HONEST) for question in (devices, logged, refused))

    def _count(self, question: str, *values: object) -> int:
        return int(self._connection.execute(f"SELECT COUNT(*) {question}", values).fetchone()[0])

    def _outcomes(self, query: str) -> Counter[tuple[int, int, int]]:
        """Reports by profile, cell and sign."""
        rows = self._connection.execute(query)
        return Counter({(profile, index, sign): count for profile, index, sign, count in rows})


def _fate(held: int, verdict: int | None) -> str:
    """Say what became of a lost report."""
    if held:
        return "its coin was never opened"
    return "the gateway never had it" if verdict is None else f"refused as {Verdict(verdict).label}"
