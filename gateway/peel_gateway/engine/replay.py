# SPDX-License-Identifier: MIT
"""Replay: process quarantined frames and dead letters again, after their cause (such as an unknown device or a bug) is fixed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from peel_gateway.engine.engine import Engine
from peel_gateway.model.exposure import ExposureFilter
from peel_gateway.model.messages import Message
from peel_gateway.model.partition import Partition
from peel_gateway.model.verdict import NETWORK, Verdict
from peel_gateway.storage.dead_letters import DeadLetterError, DeadLetters
from peel_gateway.storage.store import Store, StoreError, StoreRejected

__all__ = ["ReplayReport", "replay", "replay_dead_letters"]

_PIECES = 1000


@dataclass(frozen=True)
class ReplayReport:
    """The outcome of a replay."""

    pieces: int = 0
    """Quarantined pieces, or dead letters, that were processed and removed."""
    counts: Mapping[Verdict, int] = field(default_factory=dict)
    """Reports by their new verdict; the ones that are still refused are back in quarantine."""
    kept: Mapping[Path, str] = field(default_factory=dict)
    """Dead letters that failed again, with the cause."""

    def __add__(self, other: ReplayReport) -> ReplayReport:
        counts = Counter(self.counts) + Counter(other.counts)
        return ReplayReport(self.pieces + other.pieces, counts, {**self.kept, **other.kept})

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


def replay_dead_letters(letters: DeadLetters, engine: Engine, partition: Partition) -> ReplayReport:
    """Process a partition's dead letters again, at their original time of receipt, each in its own transaction.

    A file is deleted after its message is committed. An interrupted replay can be run again: a report that comes twice counts once.

    Raises
    ------
    StoreError
        The store failed; the remaining files are unchanged.
    """
    counts: Counter[Verdict] = Counter()
    kept: dict[Path, str] = {}
    pieces = 0
    for path in letters.files():
        try:
            message = letters.read(path)
            if not partition.receives(message.topic):
                continue
            counts.update(engine.process([message]).counts)
        except (DeadLetterError, StoreRejected) as error:
            kept[path] = str(error)
        except StoreError:
            raise
        except Exception as error:
            kept[path] = repr(error)
        else:
            path.unlink()
            pieces += 1
    return ReplayReport(pieces, dict(counts), kept)
