# SPDX-License-Identifier: MIT
"""Exposed devices with the reason in a sentence, pieces of evidence looked at closely, and what the verdicts mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_gateway.fleet.registry import device_label
from peel_gateway.fleet.roll import Roll
from peel_gateway.fleet.snapshot import Snapshot
from peel_gateway.model.exposure import Exposure, ExposureFilter
from peel_gateway.model.tables import DeviceTable
from peel_gateway.model.verdict import LAYERS, Verdict
from peel_gateway.queries.report import dissection, picture
from peel_gateway.queries.table import QueryError, Table, moment
from peel_gateway.queries.words import sentence
from peel_gateway.storage.store import Archive

__all__ = ["Cases", "ExposedQuestion", "layer_tables"]

_LARGEST_ID = 2**63 - 1
"""Databases have no larger numbers to compare with."""


@dataclass(frozen=True, kw_only=True)
class ExposedQuestion:
    """Which exposed devices to list; unset fields match all."""

    profile: str | None = None
    group: str | None = None
    since: float | None = None
    limit: int = 100


class Cases:
    """What devices are exposed for.

    Parameters
    ----------
    residual_limit : float
        What the structure layer lets pass.
    """

    def __init__(self, store: Archive, snapshot: Callable[[], Snapshot], *, residual_limit: float) -> None:
        self._store = store
        self._snapshot = snapshot
        self._residual_limit = residual_limit

    def devices(self, question: ExposedQuestion) -> Table:
        """The exposed devices, newest first, and how many there are in all."""
        table, roll = self._store.exposed(), self._snapshot().devices
        rows = _exposed_rows(table, question, roll)
        shown = rows[: question.limit]
        reports = self._store.device_reports(np.sort(table.device[shown]))
        items = []
        for row, place in zip(shown.tolist(), roll.rows(table.device[shown]).tolist(), strict=True):
            device, cause = int(table.device[row]), Verdict(int(table.cause[row]))
            items.append(
                {
                    "device": device_label(device),
                    "profile": roll[place].profile,
                    "verdict": cause.label,
                    "layer": cause.layer.label if cause.layer else None,
                    "exposed_at": moment(int(table.cause_time[row]) / 1000),
                    "withdrawn": bool(table.withdrawn[row]),
                    "reports": sum(reports.get(device, {}).values()),
                    **self._reason(device, cause),
                }
            )
        return {"items": items, "total": len(rows)}

    def against(self, device: int, *, limit: int = 20) -> list[Table]:
        """What a device is blamed for, newest first."""
        return [
            {
                "id": row.id,
                "verdict": row.verdict.label,
                "number": row.number or None,
                "received": moment(row.received),
                "sentence": self._sentence(row),
            }
            for row in self._store.exposures(ExposureFilter(device=device, blamed=True), limit=limit)
        ]

    def piece(self, exposure_id: int) -> Table:
        """One piece of evidence: the sentence, its bytes field by field, and what it is reconstructed to; QueryError if it is gone."""
        found = self._store.exposures(limit=1, before=exposure_id + 1) if exposure_id < _LARGEST_ID else []
        if not found or found[0].id != exposure_id:
            raise QueryError(f"exposure {exposure_id}: not here (any more); see /api/exposures and /api/quarantine")
        (row,) = found
        names = {profile.id: profile.name for profile in self._snapshot().profiles}
        return {
            "id": row.id,
            "verdict": row.verdict.label,
            "layer": row.verdict.layer.label if row.verdict.layer else None,
            "blamed": row.blamed,
            "device": device_label(row.device) if row.device else None,
            "number": row.number or None,
            "profile": names.get(row.profile),
            "received": moment(row.received),
            "topic": row.topic,
            "sentence": self._sentence(row),
            "meaning": row.verdict.sentence,
            "evidence": dict(row.evidence),
            "bytes": dissection(row.raw),
            "picture": picture(self._snapshot(), row.raw, self._residual_limit) if row.raw else None,
        }

    def _reason(self, device: int, cause: Verdict) -> Table:
        """The sentence and the piece it is about; the verdict's meaning where that has left the quarantine."""
        found = self._store.exposures(ExposureFilter(device=device, verdicts=frozenset({cause})), limit=1)
        if not found:
            return {"sentence": cause.sentence, "exposure": None}
        return {"sentence": self._sentence(found[0]), "exposure": found[0].id}

    def _sentence(self, row: Exposure) -> str:
        profile = next((each for each in self._snapshot().profiles if each.id == row.profile), None)
        return sentence(row, profile, self._residual_limit)


def _exposed_rows(table: DeviceTable, question: ExposedQuestion, roll: Roll) -> npt.NDArray[np.intp]:
    since = 0 if question.since is None else question.since * 1000
    asked = roll.each(
        lambda about: question.profile in (None, about.profile) and question.group in (None, about.group), np.bool_
    )
    place = roll.rows(table.device)
    rows = np.flatnonzero((table.cause_time >= since) & (place >= 0) & np.append(asked, False)[place])
    return rows[np.argsort(-table.cause_time[rows], kind="stable")]


def layer_tables() -> list[Table]:
    """The layers in their order, each with its verdicts and what they mean."""
    return [
        {
            "layer": layer.label,
            "exposes": layer.value,
            "verdicts": [_verdict_table(verdict) for verdict in Verdict if verdict.layer is layer],
        }
        for layer in LAYERS
    ]


def _verdict_table(verdict: Verdict) -> Table:
    return {"verdict": verdict.label, "blame": verdict.blame.value, "sentence": verdict.sentence}
