# SPDX-License-Identifier: MIT
"""Exposed devices with the reason as a sentence, single reports in detail, and the layers with their verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Profile, open_many, projection
from peel_core.coins import AUDIT_ANSWER, COMMITMENT, OPENING
from peel_core.frame import DEVICE, HEADER_BYTES, NUMBER, PROFILE, TAG_BYTES, TRITS_AT
from peel_core.kinds import HASHED, SIGN
from peel_gateway.fleet.directory import DeviceDirectory
from peel_gateway.fleet.folder import device_label
from peel_gateway.fleet.snapshot import FleetSnapshot
from peel_gateway.mechanisms import questions_of
from peel_gateway.mechanisms.bets import BETS_BY_NAME
from peel_gateway.model.exposure import Exposure, ExposureFilter
from peel_gateway.model.tables import DeviceTable
from peel_gateway.model.verdict import LAYERS, Verdict
from peel_gateway.queries import responses
from peel_gateway.queries.devices import having
from peel_gateway.queries.parameters import ExposedQuery, NotFoundError
from peel_gateway.queries.responses import moment
from peel_gateway.settings.reading import pasteable
from peel_gateway.storage.store import Archive

__all__ = ["MANY", "Cases", "accident", "dissection", "layers", "picture", "sentence"]

_LARGEST_ID = 2**63 - 1
"""The largest integer of the databases."""


class Cases:
    """Queries about exposed devices and the evidence against them.

    Parameters
    ----------
    residual_limit : float
        Largest residual that the structure layer accepts.
    """

    def __init__(self, store: Archive, snapshot: Callable[[], FleetSnapshot], *, residual_limit: float) -> None:
        self._store = store
        self._snapshot = snapshot
        self._residual_limit = residual_limit

    def devices(self, query: ExposedQuery) -> responses.ExposedDevices:
        """Return the exposed devices, newest first, and their total number."""
        table, directory = self._store.exposed(), self._snapshot().devices
        rows = _exposed_rows(table, query, directory)
        shown = rows[: query.limit]
        reports = self._store.device_reports(np.sort(table.device[shown]))
        items: list[responses.Exposed] = []
        for row, place in zip(shown.tolist(), directory.rows(table.device[shown]).tolist(), strict=True):
            device, cause = int(table.device[row]), Verdict(int(table.cause[row]))
            sentence, exposure = self._reason(device, cause)
            items.append(
                {
                    "device": device_label(device),
                    "profile": directory[place].profile,
                    "verdict": cause.label,
                    "layer": cause.layer.label if cause.layer else None,
                    "exposed_at": moment(int(table.cause_time[row]) / 1000),
                    "withdrawn": bool(table.withdrawn[row]),
                    "reports": sum(reports.get(device, {}).values()),
                    "sentence": sentence,
                    "exposure": exposure,
                }
            )
        return {"items": items, "total": len(rows)}

    def against(self, device: int, *, limit: int = 20) -> list[responses.Evidence]:
        """Return the reports that blame a device, newest first."""
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

    def report(self, exposure_id: int) -> responses.ReportInDetail:
        """Return one report in detail: the sentence, its bytes field by field, and its reconstructed vector.

        Raises NotFoundError where the quarantine does not hold it, or no longer.
        """
        found = self._store.exposures(limit=1, before=exposure_id + 1) if exposure_id < _LARGEST_ID else []
        if not found or found[0].id != exposure_id:
            raise NotFoundError(
                f"exposure {exposure_id}: unknown, or deleted from the quarantine; see /api/exposures and /api/quarantine"
            )
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

    def _reason(self, device: int, cause: Verdict) -> tuple[str, int | None]:
        """Return the sentence and the id of the report it is about; the verdict's meaning where the quarantine has deleted the report."""
        found = self._store.exposures(ExposureFilter(device=device, verdicts=frozenset({cause})), limit=1)
        if not found:
            return cause.sentence, None
        return self._sentence(found[0]), found[0].id

    def _sentence(self, row: Exposure) -> str:
        profile = next((each for each in self._snapshot().profiles if each.id == row.profile), None)
        return sentence(row, profile, self._residual_limit)


def _exposed_rows(table: DeviceTable, query: ExposedQuery, directory: DeviceDirectory) -> npt.NDArray[np.intp]:
    since = 0 if query.since is None else query.since * 1000
    asked = having(directory, query.profile, query.tag)
    place = directory.rows(table.device)
    rows = np.flatnonzero((table.cause_time >= since) & (place >= 0) & np.append(asked, False)[place])
    return rows[np.argsort(-table.cause_time[rows], kind="stable")]


def layers() -> list[responses.Layer]:
    """Return the layers in their order, each with its verdicts and their meaning."""
    return [
        {
            "layer": layer.label,
            "exposes": layer.value,
            "verdicts": [
                {"verdict": verdict.label, "blame": verdict.blame.value, "sentence": verdict.sentence}
                for verdict in Verdict
                if verdict.layer is layer
            ],
        }
        for layer in LAYERS
    ]


def dissection(raw: bytes) -> list[responses.FrameField]:
    """Return the fields of a frame in order; a single field where there are too few bytes for a frame."""
    if len(raw) <= TRITS_AT + TAG_BYTES:
        return [_field("bytes", raw, 0, len(raw), None)] if raw else []
    kind = _TYPES.get(raw[1])
    content = "sealed: rule and codeword" if kind == "report" else f"sealed: {kind or 'unknown content'}"
    return [
        _field("version, flags", raw, 0, 1, f"{raw[0] >> 4}, {raw[0] & 15}"),
        _field("type", raw, 1, 2, kind or raw[1]),
        _field("profile", raw, PROFILE.start, PROFILE.end, f"{PROFILE.of(raw):08x}"),
        _field("device", raw, DEVICE.start, DEVICE.end, device_label(DEVICE.of(raw))),
        _field("number", raw, NUMBER.start, NUMBER.end, NUMBER.of(raw)),
        _field(content, raw, HEADER_BYTES, len(raw) - TAG_BYTES, None),
        _field("tag", raw, len(raw) - TAG_BYTES, len(raw), None),
    ]


_TYPES = {0: "report", COMMITMENT: "commitment", AUDIT_ANSWER: "audit answer", OPENING: "opening"}
"""The types of frames, by their byte in the header."""


def _field(name: str, raw: bytes, start: int, end: int, value: str | int | None) -> responses.FrameField:
    return {"field": name, "at": start, "hex": raw[start:end].hex(), "value": value}


def picture(snapshot: FleetSnapshot, raw: bytes, residual_limit: float) -> responses.Picture | None:
    """Return the reconstructed vector of a report and the nearest admissible pattern; None for other messages and what does not decrypt.

    `vector` has `width` entries, of which the first `k` are attributes or categories and have `labels`. The admissible patterns are
    sign (e_place - 1/width); `residual` is the distance to the nearest, relative to its norm.
    """
    opened = open_many(snapshot.keyring, [raw], accept_unsealed=True)
    if len(opened) != 1 or opened.code[0] != 0 or opened.type[0] != 0:
        return None
    profile = snapshot.keyring.profiles[int(opened.profile[0])]
    trits = opened.trits[:, : profile.width - 1]
    gamma = _gamma(profile.seed, profile.width)
    place, sign, residual = projection.reconstruct(gamma, trits)
    return {
        "width": profile.width,
        "k": profile.k,
        "labels": _labels(profile),
        "vector": np.round((trits @ gamma.T)[0], 4).tolist(),
        "place": int(place[0]),
        "sign": int(sign[0]),
        "assigned": _assigned(profile, int(opened.unit[0])),
        "residual": float(residual[0]),
        "limit": residual_limit,
    }


def _assigned(profile: Profile, unit: int) -> int | None:
    """Return the only column that a report about this unit may have; None if it may have several."""
    block = profile.blocks[profile.block_of_unit(unit)]
    return block.first_column + unit - block.first_unit if block.form == SIGN else None


def _labels(profile: Profile) -> list[str]:
    """Return a name for each column: that of its statistic, or the number of its symbol where categories are hashed."""
    return [
        f"{profile.attributes[profile.questions[block.first_question].attribute].name} {column}"
        if block.form == HASHED
        else profile.label(block.first_statistic + column)
        for block in profile.blocks
        for column in range(block.columns)
    ]


@lru_cache(maxsize=8)
def _gamma(seed: int, width: int) -> npt.NDArray[np.float32]:
    return projection.reconstruction(seed, width)


_MOST_NAMES = 3

_BROKEN = {
    "audit answer": "It revealed a table that is not the one that it committed to. The table decides how its coin falls.",
    "opening": "It opened an outcome that it had not committed to. All outcomes of a coin are fixed before the gateway picks one.",
}
"""The proof in words, by the message of verified coins that contradicts its commitment."""


def sentence(exposure: Exposure, profile: Profile | None, residual_limit: float) -> str:
    """Return the reason of an exposure with its figures; the verdict's own sentence where there are none."""
    evidence = exposure.evidence
    if exposure.verdict is Verdict.REUSED:
        return f"It used number {exposure.number} for two different reports; each number is valid for one report."
    if exposure.verdict is Verdict.FLOOD and "last_allowed" in evidence:
        allowed = evidence["last_allowed"]
        return f"It used number {exposure.number:,}; its quota and the elapsed time allow {allowed:,} at most."
    if exposure.verdict is Verdict.COIN and evidence.get("message") in _BROKEN:
        return _BROKEN[evidence["message"]]
    if profile is not None and exposure.verdict is Verdict.STATISTICS and "bet" in evidence:
        return _of_bet(evidence["bet"], profile, evidence["alpha"])
    if profile is not None and "rule" in evidence:
        return _of_content(exposure.verdict, evidence, profile, residual_limit) or exposure.verdict.sentence
    return exposure.verdict.sentence


def _of_content(verdict: Verdict, evidence: Mapping[str, Any], profile: Profile, residual_limit: float) -> str | None:
    if verdict is Verdict.RULE:
        used, meant = (_odds(evidence[key]) for key in ("rule", "rule_expected"))
        return f"It randomized its report with odds of {used}; its profile requires {meant}."
    if verdict is Verdict.STRUCTURE:
        return (
            f"Its report is not a valid codeword: its reconstruction is {evidence['residual']:.2g} away from the nearest one; "
            f"an honest report's is less than {residual_limit:.2g} away."
        )
    if verdict is Verdict.SUPPORT and len(profile.questions) > 1:
        assigned = questions_of(profile).question_name(evidence["expected"])
        told = _column(profile, evidence["reconstructed"])
        return f"It reported {told}, but its number assigned {assigned}; a device must not choose."
    return None


def _of_bet(bet: Mapping[str, Any], profile: Profile, alpha: float) -> str:
    called = partial(questions_of(profile).called, bet["name"], bet["block"])
    among = [called(index) for index in bet["among"]]
    if len(among) > _MOST_NAMES:
        among = [*among[: _MOST_NAMES - 1], f"{len(among) - _MOST_NAMES + 1} others"]
    seen = BETS_BY_NAME[bet["name"]].sentence.format(
        score=f"{bet['events']:,} of {bet['trials']:,}",
        index="" if bet["index"] is None else called(bet["index"]),
        among=" or ".join(among),
    )
    return f"{seen}; an honest device does so at most {_percent(bet['bound'])} of the time. {_chance(alpha)}"


def _odds(rule: int) -> str:
    """Return the odds that a frame states, with their epsilon; its four bytes if they are no odds."""
    keep, change = rule & 0xFF, rule >> 8
    if not 1 <= change < keep:
        return f"0x{rule:08x}, which no coin has"
    return f"{keep}:{change} (epsilon {math.log(keep / change):.3g})"


def _column(profile: Profile, column: int) -> str:
    return _labels(profile)[column] if 0 <= column < profile.k else f"place {column}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def _chance(alpha: float) -> str:
    odds = "a million" if math.isclose(alpha, 1e-6) else f"{1 / alpha:,.0f}"
    return f"Chance of that: below one in {odds}."


MANY = 5
"""Fewer devices do not count as an accident."""

_SHARE = 0.2
"""Least share of the devices that were ever heard."""

_WITHIN_MS = 3_600_000
"""Longest time between the first and the last exposure."""


def accident(exposed: DeviceTable, *, revoked: Collection[int], heard: int) -> responses.Accident | None:
    """Return the largest set of devices that one verdict exposed within an hour; None where it is too small for an accident.

    Many devices exposed together point to an operator's mistake, such as a cloned fleet folder, rather than to an attack.
    Pardoned and revoked devices do not count: the operator has decided about them.
    """
    undecided = ~np.isin(exposed.device, list(revoked))
    count, since, until, cause = max(
        (_crowd(exposed.cause_time[undecided & (exposed.cause == cause)], cause) for cause in np.unique(exposed.cause)),
        default=(0, 0, 0, 0),
    )
    if count < max(MANY, _SHARE * heard):
        return None
    label, begin, end = Verdict(cause).label, moment(since / 1000), moment(until / 1000)
    return {
        "devices": count,
        "heard": heard,
        "cause": label,
        "since": begin,
        "command": pasteable(
            f"peel gateway pardon --cause {label} --since {begin} --until {end} --restore --reason accident"
        ),
        "sentence": (
            f"{count} of {heard} devices were exposed for the same cause ({label}) within an hour. This looks like an accident: a "
            "cloned fleet folder, a simulated fleet, or a restored backup. Undo that first, then pardon them. If none of these "
            "has happened, treat it as an attack and do not pardon."
        ),
    }


def _crowd(times: npt.NDArray[np.int64], cause: int) -> tuple[int, int, int, int]:
    """Return the largest number of exposures within an hour, the times of the first and the last of them, and their cause."""
    times = np.sort(times)
    counts = np.searchsorted(times, times + _WITHIN_MS, side="right") - np.arange(len(times))
    if not len(counts):
        return 0, 0, 0, int(cause)
    first = int(np.argmax(counts))
    count = int(counts[first])
    return count, int(times[first]), int(times[first + count - 1]), int(cause)
