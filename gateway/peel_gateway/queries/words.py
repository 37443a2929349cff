# SPDX-License-Identifier: MIT
"""Why something was exposed, in one sentence that needs no glossary: what was seen, and what an honest device can do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from peel_core import Profile
from peel_gateway.model.exposure import Exposure
from peel_gateway.model.verdict import Verdict

__all__ = ["sentence"]

_ONE = 2.0**31
_MOST_NAMES = 3

_BETS: Mapping[str, str] = MappingProxyType(
    {
        "plus": "Its coin showed plus in {score} reports",
        "minus": "Its coin showed minus in {score} reports",
        "agree": "It agreed with the other devices in {score} reports",
        "disagree": "It contradicted the other devices in {score} reports",
        "own past": "Its signs followed its own past in {score} reports",
        "against own past": "Its signs went against its own past in {score} reports",
        "own recent past": "Its signs followed its own recent past in {score} reports",
        "one unit": "Of {index} it showed the same sign again in {score} reports",
        "reports: too many": "It spoke of {among} in {score} reports",
        "gaps: too many": "{score} of its missing reports were about {among}",
        "late: too many": "{score} of its late reports were about {among}",
        "symbols: too many": "It named {among} in {score} reports",
        "symbols: too few": "It named others than {among} in {score} reports",
        "candidates": "It spoke for {among} in {score} reports",
        "own shares: too many": "It said what it says most under the same hash in {score} reports",
        "own shares: too few": "It said other things than it says least under the same hash in {score} reports",
    }
)
"""By the name of the bet that won."""


def sentence(exposure: Exposure, profile: Profile | None, residual_limit: float) -> str:
    """What happened, with its figures; the verdict's own sentence where there is nothing to add."""
    evidence = exposure.evidence
    if exposure.verdict is Verdict.REUSED:
        return f"It spent number {exposure.number} on two different reports; a number is good for one."
    if exposure.verdict is Verdict.FLOOD and "last_allowed" in evidence:
        allowed = evidence["last_allowed"]
        return f"It used number {exposure.number:,}, where quota and time allow {allowed:,} at most."
    if profile is not None and exposure.verdict is Verdict.STATISTICS and "bet" in evidence:
        return _of_bet(evidence["bet"], profile, evidence["alpha"])
    if profile is not None and "rule" in evidence:
        return _of_content(exposure.verdict, evidence, profile, residual_limit) or exposure.verdict.sentence
    return exposure.verdict.sentence


def _of_content(verdict: Verdict, evidence: Mapping[str, Any], profile: Profile, residual_limit: float) -> str | None:
    if verdict is Verdict.RULE:
        used, meant = _told_apart(*(_epsilon(evidence[key], profile) for key in ("rule", "rule_expected")))
        return f"It tossed its coin with epsilon {used}, where its profile says {meant}."
    if verdict is Verdict.STRUCTURE:
        return (
            f"Its report is no codeword: reconstructed, it is {evidence['residual']:.2g} away from the nearest one, "
            f"and an honest report less than {residual_limit:.2g}."
        )
    if verdict is Verdict.SUPPORT and "expected" in evidence:
        assigned, told = (_name(profile, evidence[key]) for key in ("expected", "reconstructed"))
        return f"It reported {told}, where its number assigned {assigned}; the choice is not the device's."
    return None


def _of_bet(bet: Mapping[str, Any], profile: Profile, alpha: float) -> str:
    among = [_called(profile, index) for index in bet["among"]]
    if len(among) > _MOST_NAMES:
        among = [*among[: _MOST_NAMES - 1], f"{len(among) - _MOST_NAMES + 1} others"]
    seen = _BETS[bet["name"]].format(
        score=f"{bet['events']:,} of {bet['trials']:,}",
        index="" if bet["index"] is None else _called(profile, bet["index"]),
        among=" or ".join(among),
    )
    return f"{seen}; an honest device does so at most {_percent(bet['bound'])} of the time. {_chance(alpha)}"


def _called(profile: Profile, index: int) -> str:
    """The name of an attribute or category; a bare number says what it counts."""
    return f"category {index}" if profile.domain and not profile.categories else profile.label(index)


def _epsilon(rule: int, profile: Profile) -> float:
    """The budget that a coin of this rule spends: the logarithm of its largest ratio of probabilities."""
    tilt = min(rule / _ONE, 1 - 2.0**-32)
    symbols = 2 if profile.attributes else profile.k
    return math.log((1 + (symbols - 1) * tilt) / (1 - tilt))


def _told_apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with three digits, or with as many as show that they differ."""
    for digits in range(3, 17):
        texts = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts


def _name(profile: Profile, index: int) -> str:
    return profile.label(index) if 0 <= index < profile.size and not profile.hash_domain else f"place {index}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.1 else f"{100 * share:.2g}%"


def _chance(alpha: float) -> str:
    odds = "a million" if math.isclose(alpha, 1e-6) else f"{1 / alpha:,.0f}"
    return f"Chance of that: below one in {odds}."
