# SPDX-License-Identifier: MIT
"""Exposures: what a layer saw when it objected, kept with the raw frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import CODE_NAMES, Profile
from peel_gateway.mechanisms import mechanism_of
from peel_gateway.model.exposure import Exposure
from peel_gateway.model.verdict import BLAMED, NETWORK, Verdict
from peel_gateway.screening.batch import Batch
from peel_gateway.screening.bets import Bets, in_words
from peel_gateway.screening.layers import among, by_verdict

__all__ = ["MOST_PIECES", "Case", "Exhibits", "beyond", "device_exposure", "exhibit"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MOST_PIECES = 100
"""Refused pieces of one source that a batch puts into quarantine; the rest is counted alone.

A row costs 15 times as much as a good report. The source is the topic, or the device where a seal proves it.
"""
_BLAMED, _EXHIBITED = among(BLAMED), among((NETWORK | BLAMED) - {Verdict.STATISTICS})


@dataclass(frozen=True, kw_only=True)
class Case:
    """A screened batch, as exposures are taken from it."""

    batch: Batch
    verdicts: Ints
    allowed: Ints
    reached: Ints
    surplus: Ints
    """Rows of pieces that no device is blamed for, beyond what their topic may put into quarantine."""
    most_pieces: int
    """Pieces that a device may put into quarantine."""
    profiles: Sequence[Profile]


@dataclass(frozen=True)
class Exhibits:
    """The pieces of a batch that a layer objected to."""

    held: Sequence[Exposure]
    dropped: Mapping[Verdict, int]
    """Those beyond the bounds of their source, which are counted and not held."""


def exhibit(case: Case) -> Exhibits:
    """Make exposures of the reports that a layer objected to, first come first served within each source's bound."""
    objected = _EXHIBITED[case.verdicts]
    held = objected.copy()
    held[case.surplus] = False
    blamed = np.flatnonzero(held & _BLAMED[case.verdicts])
    held[blamed[beyond(case.batch.at[blamed], case.most_pieces)]] = False
    dropped = by_verdict(case.verdicts[objected & ~held])
    return Exhibits([_exposure(case, row) for row in np.flatnonzero(held).tolist()], dropped)


def beyond(source: npt.NDArray[np.integer], most: int) -> Bools:
    """Tell for each entry whether at least so many equal ones are before it."""
    result = np.zeros(len(source), np.bool_)
    if len(source) > most:
        order = np.argsort(source, kind="stable")
        first = np.flatnonzero(np.concatenate([[True], np.diff(source[order]) != 0]))
        sizes = np.diff(first, append=len(source))
        result[order] = np.arange(len(source)) - np.repeat(first, sizes) >= most
    return result


def _exposure(case: Case, row: int) -> Exposure:
    opened = case.batch.opened
    position = int(opened.profile[row])
    return Exposure(
        verdict=Verdict(int(case.verdicts[row])),
        device=int(opened.device[row]),
        number=int(opened.number[row]),
        profile=case.profiles[position].id if position >= 0 else 0,
        received=int(case.batch.received[row]) / 1000,
        topic=case.batch.mail.topic(int(opened.message[row])),
        raw=case.batch.raw(row),
        evidence=_facts(case, row),
    )


def _facts(case: Case, row: int) -> dict[str, Any]:
    verdict = Verdict(int(case.verdicts[row]))
    code = int(case.batch.opened.code[row])
    if verdict in NETWORK and code:
        return {"code": CODE_NAMES[code]}
    if verdict in (Verdict.REVOKED, Verdict.UNSEALED, Verdict.STALE):
        return {}
    facts: dict[str, Any] = {"code": CODE_NAMES[code]} if code else _content(case, row)
    if verdict == Verdict.FLOOD:
        facts |= {"last_allowed": int(case.allowed[row]), "reached": int(case.reached[row])}
    return facts


def _content(case: Case, row: int) -> dict[str, Any]:
    opened, decoded = case.batch.opened, case.batch.decoded
    profile = case.profiles[int(opened.profile[row])]
    facts: dict[str, Any] = {
        "rule": int(opened.rule[row]),
        "rule_expected": profile.rule,
        "reconstructed": int(decoded.index[row]),
        "sign": int(decoded.sign[row]),
        "residual": round(float(decoded.residual[row]), 9),
    }
    if mechanism_of(profile).assigns:
        facts["expected"] = int(opened.index[row])
    return facts


def device_exposure(profile: Profile, device: int, bets: Bets, state: npt.NDArray[np.uint8], now: int) -> Exposure:
    """Exposure of a device by statistics: the bet that won most, in words too, and the wealth; now in milliseconds."""
    bet = bets.explain(state)
    wealth = float(bets.log_wealth(state[None])[0])
    names = [profile.label(i) for i in range(profile.size)]
    return Exposure(
        verdict=Verdict.STATISTICS,
        device=device,
        number=0,
        profile=profile.id,
        received=now / 1000,
        topic="",
        raw=b"",
        evidence={
            "bet": asdict(bet),
            "words": in_words(bet, "attribute", names),
            "since": bet.since,
            "log10_wealth": round(wealth / np.log(10), 3),
            "alpha": bets.alpha,
        },
    )
