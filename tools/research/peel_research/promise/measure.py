# SPDX-License-Identifier: MIT
"""The figures of ``peel bench promise``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from peel_research.promise import verified, verified_engine
from peel_research.promise.engine import burst_share_over_fair, coalition, late_delivery
from peel_research.promise.honest import count_exposed
from peel_research.promise.mixed import (
    LIGHT_SETTING,
    LIGHT_STRATEGIES,
    PLAYS,
    Mixed,
    harm,
    hidden_minus,
    mixed_profile,
    mixed_setting,
)
from peel_research.promise.mixed import exposed_after as exposed_after_on_mixed
from peel_research.promise.picking import picking, picking_figures
from peel_research.promise.wasting import hysteresis, sacrifice, sacrifice_on_engine, suppression_on_engine
from peel_tools.planning.arena import Arena, HarmonyArena, HashingArena, KrrArena
from peel_tools.planning.insider import STRATEGIES, Strategy, exposed_after, one_attribute, ratios

__all__ = ["measure"]

LENGTHS = (1000, 10_000, 100_000)
OWN_LENGTHS = (100, 1000)
MIXED_LENGTHS = (1000, 10_000)
TIMES = 9
"""The number of times each strategy is played. The figure is the slowest exposure."""
MIXED_TIMES = 3
"""The same on the mixed profile, against a whole engine."""
HARMONY = ((0.5, 8), (0.5, 252), (1.0, 1), (1.0, 8), (1.0, 252), (2.0, 252))
KRR = ((1.0, 4), (1.0, 16), (1.0, 252), (2.0, 16))
COALITIONS = (0.05, 0.2)
"""Shares of a fleet whose insiders try to turn the cohort."""
HASHING = ((1.0, 200), (1.0, 5000), (2.0, 200))
SACRIFICES = ((252, 10_000), (252, 100_000))
"""Attributes and reports."""
SHARES = (0.3, 0.5, 0.61, 0.75, 0.9)
"""Of the attributes, those that are pushed."""
HYSTERESIS = (1, 8)
"""Attributes, of which one is pushed."""
HYSTERESIS_LENGTHS = (1000, 10_000, 40_000, 100_000)
"""Reports about that one."""
WASTES = 3
"""Seeds of each; the worst for us counts."""
SUPPRESSION_MOST = 2000
"""The most reports of a device that suppresses a category, against a whole engine."""
VERIFIED_REPORTS = 1_000_000
"""Of honest devices with verified coins, on the engine."""


def measure() -> dict[str, Any]:
    """Measure the harm of insiders, the reports until their exposure, and the exposures of honest devices.

    All parts are independent, each with its own seeds. They run on all cores, and the figures do not depend on how many there are.
    """
    context = get_context("spawn")  # threads of numpy do not survive a fork
    with ProcessPoolExecutor(mp_context=context) as pool:
        parts = {name: pool.submit(_run, name) for name in sorted(_PARTS, key=_SLOW_FIRST.index)}
        return _together({name: parts[name].result() for name in _PARTS})


def _run(name: str) -> Any:
    return _PARTS[name]()


def _together(found: dict[str, Any]) -> dict[str, Any]:
    """Arrange the results of all parts."""
    exposed, reports = found["honest"]
    alliances = {f"coalition_of_{share:.0%}": found[f"coalition {share}"] for share in COALITIONS}
    return {
        **{mechanism: {name: found[f"{mechanism} {name}"] for name in arenas} for mechanism, arenas in _ARENAS.items()},
        "mixed": {
            **mixed_setting(),
            "harm": found["mixed harm"],
            "no_reading_and_gaps": found["mixed no reading"],
            "light_question_bucket_share_over_fair": found["mixed light question"],
            "reports_until_exposed": found["mixed exposure"],
        },
        "reports_until_exposed": {
            **found["strategies"],
            "late_delivery": found["late delivery"],
            **{name: each.slowest for name, each in alliances.items()},
        },
        "wasting": {
            "sacrifice": found["sacrifice"],
            "sacrifice_on_engine": found["sacrifice on engine"],
            "hysteresis": found["hysteresis"],
            "suppression_on_engine": found["suppression on engine"],
        },
        "bucket_share_over_fair": found["picking"],
        "burst_share_over_fair": round(found["burst"], 3),
        "honest_exposed": exposed + sum(each.honest_exposed for each in alliances.values()),
        "honest_reports": reports + sum(each.honest_reports for each in alliances.values()),
        "verified": {**verified.figures(), **found["verified"]},
    }


def _insider(arena: Arena) -> dict[str, float]:
    """Harm over a liar's: the cap before judgement, and after so many reports."""
    rng = np.random.default_rng(2)
    goals = arena.goals(rng)
    figures = {"cap": max(goal.gain for goal in goals), **ratios(arena, goals, LENGTHS, rng)}
    return {name: round(value, 3) for name, value in figures.items()} | {"state_bytes": arena.e_process.state_bytes}


def _harmony(epsilon: float, k: int) -> dict[str, float]:
    arena = HarmonyArena(epsilon, k)
    alone = one_attribute(arena, OWN_LENGTHS, np.random.default_rng(3))
    return _insider(arena) | {f"one_attribute_{name}": round(value, 3) for name, value in alone.items()}


def _krr(epsilon: float, k: int) -> dict[str, float]:
    return _insider(KrrArena(epsilon, k))


def _hashing(epsilon: float, domain: int) -> dict[str, float]:
    """Sets of any size are what the ratios are about; beside them those for few categories."""
    arena = HashingArena(epsilon, domain)
    rng = np.random.default_rng(4)
    few = ratios(arena, arena.goals(rng)[:3], LENGTHS, rng)
    without = ratios(arena, [arena.suppress(size, rng) for size in (1, 2, 4)], LENGTHS, rng)
    one = ratios(arena, [arena.suppress(1, rng)], LENGTHS, rng)
    figures = {f"few_{name}": value for name, value in few.items()}
    figures |= {f"without_one_{name}": value for name, value in one.items()}
    figures |= {f"without_few_{name}": value for name, value in without.items()}
    return _insider(arena) | {name: round(value, 3) for name, value in figures.items()}


def _sacrifice() -> dict[str, dict[str, dict[str, float]]]:
    """Harm of a sacrifice by number of attributes and reports, and by the attributes that are pushed."""
    return {
        f"eps1_k{k}_n{reports}": {
            f"targets_{round(share * k)}": _worst(k, reports, round(share * k)) for share in SHARES
        }
        for k, reports in SACRIFICES
    }


def _worst(k: int, reports: int, targets: int) -> dict[str, float]:
    arena, worst = HarmonyArena(1.0, k), {}
    for prefix, lives in (("", [None]), ("sleeper_", ["middle", "against"])):
        found = [sacrifice(arena, reports, targets, seed, life=life) for life in lives for seed in range(WASTES)]
        worst[f"{prefix}overall"] = round(max(each.overall for each in found), 3)
        worst[f"{prefix}targets"] = round(max(each.targets for each in found), 3)
    return worst


def _sacrifice_on_engine() -> dict[str, float]:
    """The sacrifice of most harm again, in the reports that an engine counts."""
    k, reports = SACRIFICES[0]
    found = sacrifice_on_engine(k, reports, round(SHARES[-1] * k))
    return {} if found is None else {"overall": round(found.overall, 3), "targets": round(found.targets, 3)}


def _hysteresis() -> dict[str, dict[str, float]]:
    """Harm to the one attribute, by the number of attributes and of reports about it."""
    return {
        f"eps1_k{k}": {
            f"ratio_{n}": round(max(hysteresis(HarmonyArena(1.0, k), n, seed) for seed in range(WASTES)), 3)
            for n in HYSTERESIS_LENGTHS
        }
        for k in HYSTERESIS
    }


def _suppression_on_engine() -> dict[str, int | None]:
    """Reports until an engine exposes a device that suppresses one category, the slowest of some tries."""
    found = {d: [suppression_on_engine(d, SUPPRESSION_MOST, seed) for seed in range(WASTES)] for d in (200, 5000)}
    return {f"eps1_d{domain}": _slowest_of(waits) for domain, waits in found.items()}


def _slowest(strategy: Strategy) -> int | None:
    """The slowest of some exposures; None if one of them never came."""
    return _slowest_of([exposed_after(strategy, np.random.default_rng(seed)) for seed in range(TIMES)])


def _slowest_of(found: Sequence[int | None]) -> int | None:
    waits = [wait for wait in found if wait is not None]
    return max(waits) if len(waits) == len(found) else None


def _mixed() -> Mixed:
    return Mixed(mixed_profile(), np.random.default_rng(1))


def _mixed_harm() -> dict[str, dict[str, float]]:
    """By the blocks that are attacked: each alone, and all of them."""
    setting = _mixed()
    aims = {name: [place] for place, name in enumerate(setting.names)} | {"all": setting.all_blocks}
    return {name: harm(setting, aimed, MIXED_LENGTHS, np.random.default_rng(2)) for name, aimed in aims.items()}


def _mixed_exposure() -> dict[str, int | None]:
    """Reports until an engine exposes a strategy on the mixed profile, the slowest of some tries; None if it never does."""
    return {name: _slowest_of([exposed_after_on_mixed(name, seed) for seed in range(MIXED_TIMES)]) for name in PLAYS}


_ARENAS: dict[str, dict[str, Callable[[], dict[str, float]]]] = {
    "harmony": {f"eps{epsilon:g}_k{k}": partial(_harmony, epsilon, k) for epsilon, k in HARMONY},
    "krr": {f"eps{epsilon:g}_k{k}": partial(_krr, epsilon, k) for epsilon, k in KRR},
    "hashing": {f"eps{epsilon:g}_d{domain}": partial(_hashing, epsilon, domain) for epsilon, domain in HASHING},
}
_PARTS: dict[str, Callable[[], Any]] = {
    **{f"{mechanism} {name}": part for mechanism, arenas in _ARENAS.items() for name, part in arenas.items()},
    "mixed harm": _mixed_harm,
    "mixed no reading": lambda: hidden_minus(_mixed(), MIXED_LENGTHS, np.random.default_rng(3)),
    "mixed light question": lambda: picking_figures(LIGHT_SETTING, LIGHT_STRATEGIES),
    "mixed exposure": _mixed_exposure,
    "strategies": lambda: {strategy.name: _slowest(strategy) for strategy in STRATEGIES},
    "late delivery": late_delivery,
    "picking": picking,
    "sacrifice": _sacrifice,
    "sacrifice on engine": _sacrifice_on_engine,
    "hysteresis": _hysteresis,
    "suppression on engine": _suppression_on_engine,
    "burst": burst_share_over_fair,
    "honest": lambda: count_exposed(np.random.default_rng(1)),
    "verified": lambda: verified_engine.figures(VERIFIED_REPORTS),
    **{f"coalition {share}": partial(coalition, share) for share in COALITIONS},
}
"""The parts of the benchmark. Each takes seconds to a minute."""
_SLOW_FIRST = sorted(
    _PARTS, key=lambda name: not name.startswith(("verified", "hashing", "mixed exposure", "strategies"))
)
"""The order in which the parts begin, so that no long one is left for the end."""
