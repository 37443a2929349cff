# SPDX-License-Identifier: MIT
"""The throughput of the gateway's engine on this machine, and how soon its statistics expose a biased coin."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from peel_gateway.screening.device_tests import make_e_process
from peel_gateway.screening.e_process import FRESH, Events
from peel_research.bench import engine
from peel_research.bench.engine import Size
from peel_research.bench.workload import bench_profile

__all__ = ["measure"]

ENGINES = {"k16": Size(16, 500), "k252": Size(252, 500)}
COINS = 201
NEVER = 4001
"""Coins are tossed less often than this; one that is not exposed until then gets this number."""
BIASES = {"always_plus": 1.0, "plus_95": 0.95, "plus_88": 0.88, "plus_82": 0.82}


def _reports_until_exposed(plus: float, k: int = 4, alpha: float = 1e-6) -> npt.NDArray[np.int64]:
    """For each of many coins that show plus with this chance: epsilon 1, judged after every report, no cohort to agree with."""
    e_process, chance = make_e_process(bench_profile(k), alpha), np.random.default_rng(1)
    order = np.arange(COINS * (NEVER - 1))  # coin by coin, report by report
    events = Events(
        row=order // (NEVER - 1),
        number=order % (NEVER - 1) + 1,
        unit=chance.integers(k, size=len(order)),
        symbol=chance.random(len(order)) < plus,
        cohort=np.zeros(len(order), np.int8),
        kind=np.full(len(order), FRESH),
    )
    crossed = e_process.update(e_process.new_states(COINS), events)
    return np.where(crossed < 0, NEVER, crossed % (NEVER - 1) + 1)


def measure(rounds: int = engine.ROUNDS) -> dict[str, Any]:
    """The figures of ``peel bench gateway``; how fast the engine is, is what ``peel bench engine`` says."""
    engines = engine.measure(tuple(ENGINES.values()), rounds)
    likeliest = bench_profile(4).blocks[0].likeliest
    return {
        "reports_per_second": {name: engines[str(size)]["reports_per_s"] for name, size in ENGINES.items()},
        "median_reports_until_exposed": {
            name: int(np.median(_reports_until_exposed(plus))) for name, plus in BIASES.items()
        },
        "honest_extreme_coins_exposed": int(np.sum(_reports_until_exposed(likeliest) < NEVER)),
        "honest_extreme_coins": COINS,
    }
