# SPDX-License-Identifier: MIT
"""Evidence: what a layer saw when it objected, kept with the raw frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from peel_core import CODE_NAMES, Opened, Profile
from peel_gateway.screening import eprocess
from peel_gateway.screening.screen import Decoded
from peel_gateway.screening.verdict import BLAMED, NETWORK, Verdict
from peel_gateway.storage.store import Exposure

__all__ = ["Case", "device_exposure", "report_exposures"]

Ints = npt.NDArray[np.int64]


class _Letter(Protocol):
    @property
    def topic(self) -> str: ...

    @property
    def payload(self) -> bytes: ...


@dataclass(frozen=True, kw_only=True)
class Case:
    """A screened batch, as evidence is taken from it."""

    messages: Sequence[_Letter]
    opened: Opened
    decoded: Decoded
    verdicts: Ints
    received: Ints
    allowed: Ints
    reached: Ints
    profiles: Sequence[Profile]


_EXHIBITED = [int(verdict) for verdict in (NETWORK | BLAMED) - {Verdict.STATISTICS}]


def report_exposures(case: Case) -> tuple[list[int], list[Exposure]]:
    """Return the rows that a layer objected to, and an exposure for each."""
    rows = np.flatnonzero(np.isin(case.verdicts, _EXHIBITED)).tolist()
    return rows, [_exposure(case, row) for row in rows]


def _exposure(case: Case, row: int) -> Exposure:
    opened = case.opened
    message = case.messages[opened.message[row]]
    start, length = int(opened.offset[row]), int(opened.length[row])
    position = int(opened.profile[row])
    return Exposure(
        verdict=Verdict(int(case.verdicts[row])),
        device=int(opened.device[row]),
        number=int(opened.number[row]),
        profile=case.profiles[position].id if position >= 0 else 0,
        received=int(case.received[row]) / 1000,
        topic=message.topic,
        raw=message.payload[start : start + length],
        evidence=_facts(case, row),
    )


def _facts(case: Case, row: int) -> dict[str, Any]:
    verdict = Verdict(int(case.verdicts[row]))
    code = int(case.opened.code[row])
    if verdict in NETWORK and code:
        return {"code": CODE_NAMES[code]}
    if verdict in (Verdict.REVOKED, Verdict.UNSEALED, Verdict.STALE):
        return {}
    facts: dict[str, Any] = {"code": CODE_NAMES[code]} if code else _content(case, row)
    if verdict == Verdict.FLOOD:
        facts |= {"last_allowed": int(case.allowed[row]), "reached": int(case.reached[row])}
    return facts


def _content(case: Case, row: int) -> dict[str, Any]:
    profile = case.profiles[int(case.opened.profile[row])]
    facts: dict[str, Any] = {
        "rule": int(case.opened.rule[row]),
        "rule_expected": profile.rule,
        "reconstructed": int(case.decoded.index[row]),
        "sign": int(case.decoded.sign[row]),
        "residual": round(float(case.decoded.residual[row]), 9),
    }
    if profile.mechanism == "harmony":
        facts["expected"] = int(case.opened.index[row])
    return facts


def device_exposure(profile: Profile, device: int, counts: Ints, alpha: float, now: int) -> Exposure:
    """Exposure of a device by statistics: the bet that won most, and the wealth; counts int64[k, 6], now in milliseconds."""
    bet = eprocess.strongest(profile, counts)
    wealth = float(eprocess.log_wealth(profile, counts[None])[0])
    return Exposure(
        verdict=Verdict.STATISTICS,
        device=device,
        number=0,
        profile=profile.id,
        received=now / 1000,
        topic="",
        raw=b"",
        evidence={"bet": asdict(bet), "log10_wealth": round(wealth / np.log(10), 3), "alpha": alpha},
    )
