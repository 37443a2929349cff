# SPDX-License-Identifier: MIT
"""The sentence for each cause of exposure, with its figures."""

from __future__ import annotations

from typing import Any

import pytest
from lab import harmony_profile

from peel_gateway.mechanisms.bets import BETS_BY_NAME
from peel_gateway.model.exposure import Exposure
from peel_gateway.model.verdict import Verdict
from peel_gateway.queries.exposed import sentence

HARMONY = harmony_profile()
CONTENT = {
    "expected": 0,
    "rule": HARMONY.blocks[0].rule,
    "rule_expected": HARMONY.blocks[0].rule,
    "reconstructed": 1,
    "sign": 1,
    "residual": 0.4137,
}


def said(verdict: Verdict, evidence: dict[str, Any], number: int = 17) -> str:
    row = Exposure(verdict, 1, number, HARMONY.id, 0.0, "", b"", evidence)
    return sentence(row, HARMONY, 1e-3)


def bet(name: str, **more: Any) -> dict[str, Any]:
    facts = {
        "name": name,
        "block": None,
        "index": None,
        "among": (),
        "events": 61,
        "trials": 62,
        "bound": 0.7311,
        "since": 3,
    }
    return {"bet": facts | more, "alpha": 1e-6}


@pytest.mark.parametrize(
    ("verdict", "evidence", "words"),
    [
        (
            Verdict.COIN,
            {"message": "audit answer"},
            "It revealed a table that is not the one that it committed to. The table decides how its coin falls.",
        ),
        (
            Verdict.COIN,
            {"message": "opening"},
            "It opened an outcome that it had not committed to. All outcomes of a coin are fixed before the gateway picks one.",
        ),
        (Verdict.COIN, {}, "Its coin is not the one that the device committed to."),
        (Verdict.REUSED, CONTENT, "It used number 17 for two different reports; each number is valid for one report."),
        (
            Verdict.FLOOD,
            CONTENT | {"last_allowed": 1234, "reached": 17},
            "It used number 17; its quota and the elapsed time allow 1,234 at most.",
        ),
        (
            Verdict.RULE,
            CONTENT | {"rule": 22 | 3 << 8},
            "It randomized its report with odds of 22:3 (epsilon 1.99); its profile requires 8:3 (epsilon 0.981).",
        ),
        (
            Verdict.RULE,
            CONTENT | {"rule": 8 | 3 << 8 | 1 << 16},
            "It randomized its report with odds of 0x00010308, which no coin has; its profile requires 8:3 (epsilon 0.981).",
        ),
        (
            Verdict.SUPPORT,
            CONTENT | {"expected": 0},
            f"It reported {HARMONY.label(1)}, but its number assigned {HARMONY.label(0)}; a device must not choose.",
        ),
        (
            Verdict.STRUCTURE,
            CONTENT,
            "Its report is not a valid codeword: its reconstruction is 0.41 away from the nearest one; "
            "an honest report's is less than 0.001 away.",
        ),
        (
            Verdict.STATISTICS,
            bet("own past"),
            "Its signs followed its own past in 61 of 62 reports; an honest device does so at most 73% of the time. "
            "Chance of that: below one in a million.",
        ),
        (
            Verdict.STATISTICS,
            bet("symbols: too many", among=(0, 1, 2, 3), bound=0.02),
            f"It named {HARMONY.label(0)} or {HARMONY.label(1)} or 2 others in 61 of 62 reports; "
            "an honest device does so at most 2% of the time. Chance of that: below one in a million.",
        ),
        (Verdict.SEAL, {"code": "seal"}, Verdict.SEAL.sentence),
    ],
)
def test_sentences(verdict: Verdict, evidence: dict[str, Any], words: str) -> None:
    assert said(verdict, evidence) == words


@pytest.mark.parametrize("name", BETS_BY_NAME)
def test_every_bet_has_a_sentence(name: str) -> None:
    assert "61 of 62" in said(Verdict.STATISTICS, bet(name, index=0, among=(1,)))
