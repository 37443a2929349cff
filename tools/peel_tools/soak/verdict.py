# SPDX-License-Identifier: MIT
"""The verdict: the gateway's database held against the model, with SQL of its own."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from peel_gateway.model.verdict import BLAMED, Verdict
from peel_gateway.storage.store import Store
from peel_tools.simulation.books import copy_books, read_books
from peel_tools.simulation.piece import HONEST
from peel_tools.soak.model import REVOKED

__all__ = ["Outcome", "decide"]

_STORED = "EXISTS (SELECT 1 FROM gateway.log WHERE log.device = made.device AND log.number = made.number)"
_REFUSED = "EXISTS (SELECT 1 FROM gateway.refused WHERE refused.digest = made.digest AND refused.verdict = ?)"
_BLAMED = f"verdict IN ({', '.join(str(int(verdict)) for verdict in sorted(BLAMED))})"
_MADE = """
    CREATE TEMP VIEW made AS
    SELECT report.*, message.acknowledged AS due FROM report JOIN message ON message.id = report.message WHERE NOT bad
"""
_COUNTING = f"""
    SELECT made.profile, idx, sign, COUNT(*) FROM made LEFT JOIN gateway.device AS state USING (device)
    WHERE NOT COALESCE(withdrawn, 0) AND {_STORED} GROUP BY made.profile, idx, sign
"""  # noqa: S608 - our own words
_TALLIED = """
    SELECT profile, idx, 1, SUM(plus) FROM gateway.tally GROUP BY profile, idx UNION ALL
    SELECT profile, idx, -1, SUM(minus) FROM gateway.tally GROUP BY profile, idx
"""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Counts of reports, but for `honest_exposed`, which has devices in it too."""

    made: int
    """What devices made and a gateway must accept; what attackers made presentably is among it."""
    stored: int
    """Of these, what is in the gateway's log."""
    excused: int
    """Not stored, and nobody's fault: gone with a flash, or refused because its device was revoked."""
    lost: int
    """Not stored, though its device still has it or was told to forget it; or stored, and not in the tallies."""
    double_counted: int
    """In the tallies beyond what was made and stored."""
    altered: int
    """Stored with another content, or a number that a device used for two reports."""
    honest_exposed: int
    """Honest devices that are exposed, and honest reports that the gateway blames their device for."""

    @property
    def good(self) -> bool:
        """Whether it is as it must be."""
        return self.made > 0 and not (self.lost or self.double_counted or self.altered or self.honest_exposed)


def decide(model: Path, store: Store, conflicts: int) -> Outcome:
    """Compare a completed model, and the conflicts it has seen, with a gateway's store."""
    connection = sqlite3.connect(f"{model.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        profiles = [int(profile) for (profile,) in connection.execute("SELECT DISTINCT profile FROM report")]
        connection.execute("ATTACH ':memory:' AS gateway")
        copy_books(connection, "gateway", read_books(store, profiles))
        connection.execute(_MADE)
        return _Judge(connection).outcome(conflicts)
    finally:
        connection.close()


class _Judge:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def outcome(self, conflicts: int) -> Outcome:
        missing = self._count(f"FROM made WHERE due AND NOT {_STORED}")
        refused = self._count(
            f"FROM made WHERE due AND kind = ? AND NOT {_STORED} AND {_REFUSED}", REVOKED, int(Verdict.REVOKED)
        )
        counting, tallied = self._outcomes(_COUNTING), self._outcomes(_TALLIED)
        return Outcome(
            made=self._count("FROM made"),
            stored=self._count(f"FROM made WHERE {_STORED}"),
            excused=self._count(f"FROM made WHERE NOT due AND NOT {_STORED}") + refused,
            lost=missing - refused + (counting - tallied).total(),
            double_counted=(tallied - counting).total(),
            altered=conflicts
            + self._count(
                """FROM made JOIN gateway.log USING (device, number)
                   WHERE (log.idx, log.sign, log.profile) != (made.idx, made.sign, made.profile)"""
            ),
            honest_exposed=self._honest_exposed(),
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
