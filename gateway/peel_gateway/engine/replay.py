# SPDX-License-Identifier: MIT
"""Replay: quarantined frames once more, after what was wrong has been put right (a forgotten device, a wrong profile)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from peel_gateway.engine.engine import Engine
from peel_gateway.model.exposure import ExposureFilter
from peel_gateway.model.message import Message
from peel_gateway.model.verdict import NETWORK, Verdict
from peel_gateway.storage.store import Store

__all__ = ["ReplayReport", "replay"]

_PIECES = 1000


@dataclass(frozen=True)
class ReplayReport:
    """What became of the quarantined pieces."""

    pieces: int
    """Taken from the quarantine."""
    counts: Mapping[Verdict, int]
    """Reports by their new verdict; the ones that are still refused are back in quarantine."""

    def __add__(self, other: ReplayReport) -> ReplayReport:
        return ReplayReport(self.pieces + other.pieces, Counter(self.counts) + Counter(other.counts))

    @property
    def accepted(self) -> int:
        """Reports that now count."""
        return self.counts.get(Verdict.ACCEPTED, 0)


def replay(store: Store, engine: Engine, which: ExposureFilter | None = None) -> ReplayReport:
    """Screen quarantined pieces again, each once, oldest first, at their original time of receipt.

    Only pieces that no device is blamed for are replayed: reports that expose a device have been judged by its own seal, and stay.
    A batch of pieces leaves the quarantine in the transaction that screens it, so an interrupted replay can simply be run again.
    """
    which = which or ExposureFilter()
    verdicts = (which.verdicts or NETWORK) & NETWORK
    if not verdicts:
        known = ", ".join(sorted(verdict.label for verdict in NETWORK))
        raise ValueError(f"only quarantined reports can be replayed, that is: {known}")
    which = replace(which, verdicts=verdicts)
    newest = store.exposures(which, limit=1)
    last = newest[0].id if newest else 0
    counts: Counter[Verdict] = Counter()
    pieces = after = 0
    while chunk := store.exposures(which, limit=_PIECES, after=after, upto=last):
        messages = [Message(piece.topic, piece.raw, piece.received) for piece in chunk]
        counts.update(engine.process(messages, taken=[piece.id for piece in chunk]).counts)
        pieces, after = pieces + len(chunk), chunk[-1].id
    return ReplayReport(pieces, dict(counts))
