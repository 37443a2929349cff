# SPDX-License-Identifier: MIT
"""Table (e): the harm of an insider who knows everything, over the number of his reports, and the most that he can possibly do.

**The bound.** Whoever wants plus of every attribute is bet on with a fixed face, so the bound is simple and holds for every strategy.
One fraction c of one bet, begun with a stake s, alone holds ``s (1 + c (1 - b)/b)^m (1 - c)^(n - m)`` after m plus reports of n. A
device that is not exposed has less than 1/alpha, so m is bounded, by the least bound over all fractions. His harm per report is
(2 m/n - 1)/(2 b - 1) times a liar's. A sleeper who turns after H reports meets what is put in at toss H + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from peel_gateway.mechanisms.game import Face
from peel_tools.promise.arena import ALPHA, Arena, HarmonyArena, KrrArena
from peel_tools.promise.insider import HONEST_LIFE, ratios

__all__ = ["FRACTIONS", "InsiderRow", "bound", "insider_table"]

FRACTIONS = (0.95, 0.5, 0.27, 0.14, 0.06, 0.025, 0.01, 0.003)
"""As in the kernel (`gateway/kernels/purse.h`)."""
_FLOAT = 2.0**-22
"""What rounding takes of a bet at each toss, at most."""
_QUICK_LENGTHS = (100, 300, 1000, 3000, 10_000)
_LENGTHS = (*_QUICK_LENGTHS, 30_000, 100_000)


@dataclass(frozen=True)
class InsiderRow:
    """Harm per report over a liar's, on average over n reports without ever being exposed."""

    mechanism: str
    epsilon: float
    k: int
    n: int
    cap: float
    """What the first report alone can do: no LDP protocol can avoid it."""
    plus: float | None
    """Plus of every attribute; None for categories."""
    bound: float | None
    """The most that any strategy for plus can do."""
    newcomer: float
    """The most that any goal we know does."""
    sleeper: float | None
    """The same after 100,000 honest reports; None in a quick run."""
    sleeper_bound: float | None


def bound(arena: HarmonyArena, n: int, honest: int = 0) -> float:
    """The most harm per report over a liar's that n reports for plus can do without exposing their device."""
    faces = arena.bets.game.faces
    assert faces is not None
    stake = _put_in(honest + 1) * faces.capital[Face.PLUS] / len(FRACTIONS)
    room = log(1 / ALPHA) - log(stake) + n * _FLOAT
    odds = (1 - faces.most) / faces.most
    most = min((room - n * log(1 - c)) / (log(1 + c * odds) - log(1 - c)) for c in FRACTIONS)
    return (2 * min(most / n, 1.0) - 1) / arena.bias


def _put_in(toss: int) -> float:
    """What the kernel puts in at a toss, of a capital of 1."""
    b = toss.bit_length() - 1
    return 1 / ((1 << b) * (b + 1) * (b + 2))


def insider_table(epsilon: float, k: int, categories: int, *, quick: bool) -> list[InsiderRow]:
    """Rows for k attributes and for so many categories, by number of reports."""
    lengths = _QUICK_LENGTHS if quick else _LENGTHS
    return _rows(HarmonyArena(epsilon, k), "harmony", epsilon, k, lengths, quick) + _rows(
        KrrArena(epsilon, categories), "krr", epsilon, categories, lengths, quick
    )


def _rows(
    arena: Arena, mechanism: str, epsilon: float, k: int, lengths: Sequence[int], quick: bool
) -> list[InsiderRow]:
    rng = np.random.default_rng(2)
    goals = arena.goals(rng)
    best = ratios(arena, goals, lengths, rng, sleepers=not quick)
    signs = arena if isinstance(arena, HarmonyArena) else None
    plus = ratios(arena, goals[:1], lengths, rng, sleepers=False) if signs else {}
    return [
        InsiderRow(
            mechanism=mechanism,
            epsilon=epsilon,
            k=k,
            n=n,
            cap=max(goal.gain for goal in goals),
            plus=plus.get(f"ratio_{n}"),
            bound=bound(signs, n) if signs else None,
            newcomer=best[f"ratio_{n}"],
            sleeper=best.get(f"sleeper_ratio_{n}"),
            sleeper_bound=bound(signs, n, HONEST_LIFE) if signs and not quick else None,
        )
        for n in lengths
        if f"ratio_{n}" in best
    ]
