# SPDX-License-Identifier: MIT
"""The verdict: the gateway's database held against the model, by the referee and by questions in SQL of this module's own."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from peel_gateway.model.verdict import BLAMED, Verdict
from peel_gateway.storage.store import Store
from peel_tools.simulation.books import copy_books, read_books
from peel_tools.simulation.piece import HONEST
from peel_tools.simulation.referee import judge
from peel_tools.soak.model import REVOKED

__all__ = ["Outcome", "decide"]

_STORED = "EXISTS (SELECT 1 FROM gateway.log WHERE log.device = made.device AND log.number = made.number)"
_REFUSED = "EXISTS (SELECT 1 FROM gateway.refused WHERE refused.digest = made.digest AND refused.verdict = ?)"
_MADE = """
    CREATE TEMP VIEW made AS
    SELECT report.*, message.acknowledged AS due FROM report JOIN message ON message.id = report.message WHERE NOT bad
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
    """Not stored, or not counted, though its device has it or was told to forget it."""
    double_counted: int
    altered: int
    """Stored with another content, or a number that a device used for two reports."""
    honest_exposed: int
    """Honest devices that are exposed, and honest reports that the gateway blames somebody for."""

    @property
    def good(self) -> bool:
        """Whether it is as it must be."""
        return self.made > 0 and not (self.lost or self.double_counted or self.altered or self.honest_exposed)


def decide(model: Path, store: Store, conflicts: int) -> Outcome:
    """Compare a completed model with a gateway's store."""
    findings = judge(model, store)
    connection = sqlite3.connect(f"{model.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        profiles = [int(profile) for (profile,) in connection.execute("SELECT DISTINCT profile FROM report")]
        connection.execute("ATTACH ':memory:' AS gateway")
        copy_books(connection, "gateway", read_books(store, profiles))
        connection.execute(_MADE)

        def count(query: str, *values: object) -> int:
            return int(connection.execute(f"SELECT COUNT(*) {query}", values).fetchone()[0])

        revoked = int(Verdict.REVOKED)
        pardoned = count(f"FROM made WHERE due AND kind = ? AND NOT {_STORED} AND {_REFUSED}", REVOKED, revoked)
        return Outcome(
            made=count("FROM made"),
            stored=count(f"FROM made WHERE {_STORED}"),
            excused=count(f"FROM made WHERE NOT due AND NOT {_STORED}") + pardoned,
            lost=findings.lost - pardoned,
            double_counted=findings.double_counted,
            altered=findings.altered + conflicts,
            honest_exposed=findings.honest_devices_exposed
            + count(f"FROM made JOIN gateway.log USING (device, number) WHERE kind = ? AND {_blamed('log')}", HONEST)
            + count(f"FROM made JOIN gateway.refused USING (digest) WHERE kind = ? AND {_blamed('refused')}", HONEST),
        )
    finally:
        connection.close()


def _blamed(table: str) -> str:
    return f"{table}.verdict IN ({', '.join(str(int(verdict)) for verdict in sorted(BLAMED))})"
