# SPDX-License-Identifier: MIT
"""Exposures: what a layer saw when it objected, kept with the raw frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from peel_gateway.screening.layers import among

__all__ = ["Case", "device_exposure", "report_exposures"]

Ints = npt.NDArray[np.int64]

_EXHIBITED = among((NETWORK | BLAMED) - {Verdict.STATISTICS})


@dataclass(frozen=True, kw_only=True)
class Case:
    """A screened batch, as exposures are taken from it."""

    batch: Batch
    verdicts: Ints
    allowed: Ints
    reached: Ints
    profiles: Sequence[Profile]


def report_exposures(case: Case) -> Iterator[tuple[int, Exposure]]:
    """Yield the rows that a layer objected to, with an exposure for each."""
    for row in np.flatnonzero(_EXHIBITED[case.verdicts]).tolist():
        yield row, _exposure(case, row)


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
