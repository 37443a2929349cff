# SPDX-License-Identifier: MIT
"""The figures of ``peel bench promise``."""

from __future__ import annotations

from typing import Any

import numpy as np

from peel_research.promise import verified
from peel_research.promise.engine import burst_share_over_fair, coalition, late_delivery
from peel_research.promise.honest import count_exposed
from peel_research.promise.picking import picking
from peel_tools.planning.arena import Arena, HarmonyArena, HashingArena, KrrArena
from peel_tools.planning.insider import STRATEGIES, Strategy, exposed_after, one_attribute, ratios

__all__ = ["measure"]

LENGTHS = (1000, 10_000, 100_000)
OWN_LENGTHS = (100, 1000)
TIMES = 9
"""The number of times each strategy is played. The figure is the slowest exposure."""
HARMONY = ((0.5, 8), (0.5, 252), (1.0, 1), (1.0, 8), (1.0, 252), (2.0, 252))
KRR = ((1.0, 4), (1.0, 16), (1.0, 252), (2.0, 16))
COALITIONS = (0.05, 0.2)
"""Shares of a fleet whose insiders try to turn the cohort."""
HASHING = ((1.0, 200), (1.0, 5000), (2.0, 200))


def measure() -> dict[str, Any]:
    """Measure the harm of insiders, the reports until their exposure, and the exposures of honest devices."""
    exposed, reports = count_exposed(np.random.default_rng(1))
    alliances = {f"coalition_of_{share:.0%}": coalition(share) for share in COALITIONS}
    return {
        "harmony": {f"eps{epsilon:g}_k{k}": _harmony(HarmonyArena(epsilon, k)) for epsilon, k in HARMONY},
        "krr": {f"eps{epsilon:g}_k{k}": _insider(KrrArena(epsilon, k)) for epsilon, k in KRR},
        "hashing": {
            f"eps{epsilon:g}_d{domain}": _hashing(HashingArena(epsilon, domain)) for epsilon, domain in HASHING
        },
        "reports_until_exposed": {
            **{strategy.name: _slowest(strategy) for strategy in STRATEGIES},
            "late_delivery": late_delivery(),
            **{name: found.slowest for name, found in alliances.items()},
        },
        "bucket_share_over_fair": picking(),
        "burst_share_over_fair": round(burst_share_over_fair(), 3),
        "honest_exposed": exposed + sum(found.honest_exposed for found in alliances.values()),
        "honest_reports": reports + sum(found.honest_reports for found in alliances.values()),
        "verified": verified.figures(),
    }


def _insider(arena: Arena) -> dict[str, float]:
    """Harm over a liar's: the cap before judgement, and after so many reports."""
    rng = np.random.default_rng(2)
    goals = arena.goals(rng)
    figures = {"cap": max(goal.gain for goal in goals), **ratios(arena, goals, LENGTHS, rng)}
    return {name: round(value, 3) for name, value in figures.items()} | {"state_bytes": arena.e_process.state_bytes}


def _harmony(arena: HarmonyArena) -> dict[str, float]:
    alone = one_attribute(arena, OWN_LENGTHS, np.random.default_rng(3))
    return _insider(arena) | {f"one_attribute_{name}": round(value, 3) for name, value in alone.items()}


def _hashing(arena: HashingArena) -> dict[str, float]:
    """Sets of any size are what the ratios are about; beside them those for few categories."""
    rng = np.random.default_rng(4)
    few = ratios(arena, arena.goals(rng)[:3], LENGTHS, rng)
    return _insider(arena) | {f"few_{name}": round(value, 3) for name, value in few.items()}


def _slowest(strategy: Strategy) -> int | None:
    """The slowest of some exposures; None if one of them never came."""
    found = [exposed_after(strategy, np.random.default_rng(seed)) for seed in range(TIMES)]
    waits = [wait for wait in found if wait is not None]
    return max(waits) if len(waits) == TIMES else None
