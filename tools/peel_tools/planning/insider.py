# SPDX-License-Identifier: MIT
"""Insiders against the wealth alone: how much harm without being exposed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from peel_gateway.screening.e_process import FRESH, Events
from peel_tools.planning.arena import ALPHA, Arena, Generator, Goal, HarmonyArena

__all__ = ["HONEST_LIFE", "in_order", "one_attribute", "ratios", "turned"]

Ints = npt.NDArray[np.int64]

HONEST_LIFE = 100_000
"""Honest reports of a sleeper before he turns."""
_STYLES = ((1.0, np.inf), (0.2, np.inf), (0.2, 1.2))
"""How close to the limit he lets his wealth come, of 1/alpha, and the price at which he says what he wants: how much richer it makes him
than the contrary. To the brink; at a distance, where no report is his last; and thrifty, where the bets hardly notice."""


def in_order(unit: Ints, symbol: Ints, first: int, kind: Ints | int = FRESH) -> Events:
    """Events of one device, which counts its numbers up from the first."""
    zero = np.zeros(len(unit), np.int64)
    number = np.arange(first, first + len(unit))
    return Events(row=zero, number=number, unit=unit, symbol=symbol, cohort=zero, kind=zero + kind)


def turned(arena: Arena, goal: Goal, life: str, honest: int, rng: Generator) -> npt.NDArray[np.uint8]:
    """The state of a device after an honest life, uint8[1, state_bytes]."""
    states = arena.e_process.new_states(1)
    unit = arena.assign(rng, honest)
    if arena.e_process.update(states, in_order(unit, arena.live(rng, life, unit, goal), 1))[0] >= 0:
        raise RuntimeError(f"an honest device was exposed: life {life}, goal {goal.name}")
    return states


def ratios(
    arena: Arena, goals: Sequence[Goal], lengths: Sequence[int], rng: Generator, *, sleepers: bool = True
) -> dict[str, float]:
    """The most harm that an insider does without being exposed, over a liar's, after so many reports: as a newcomer, and as a sleeper.

    He looks one step ahead, and says what he wants unless it would expose him or be too dear; then he says the contrary.
    """
    best: dict[str, float] = {}
    for prefix, state, goal, first in _beginnings(arena, goals, rng, arena.lives if sleepers else ()):
        for style in _STYLES:
            for n, ratio in _walk(arena, goal, state.copy(), first, style, lengths, rng).items():
                key = f"{prefix}ratio_{n}"
                best[key] = max(best.get(key, 0.0), ratio)
    return best


def _beginnings(
    arena: Arena, goals: Sequence[Goal], rng: Generator, lives: Sequence[str]
) -> Iterator[tuple[str, npt.NDArray[np.uint8], Goal, int]]:
    for goal in goals:
        yield "", arena.e_process.new_states(1), goal, 1
        for life in lives:
            honest = HONEST_LIFE + int(rng.integers(0, 64))
            yield "sleeper_", turned(arena, goal, life, honest, rng), goal, honest + 1


def _walk(
    arena: Arena,
    goal: Goal,
    state: npt.NDArray[np.uint8],
    first: int,
    style: tuple[float, float],
    lengths: Sequence[int],
    rng: Generator,
) -> dict[int, float]:
    """Harm per report after so many of them, as far as he has come without being exposed."""
    unit = arena.assign(rng, max(lengths))
    wanted, other = (in_order(unit, say(rng, unit), first) for say in (goal.wanted, goal.other))
    took, walked = arena.e_process.walk(state, wanted, other, ceiling=style[0] / ALPHA, price=style[1])
    harm = np.cumsum(np.where(took, goal.gain, goal.loss))
    return {n: float(harm[n - 1] / n) for n in lengths if n < walked or walked == len(unit)}


def one_attribute(arena: HarmonyArena, lengths: Sequence[int], rng: Generator) -> dict[str, float]:
    """The same for whoever attacks the first attribute alone and is honest about the others; lengths count reports of that attribute."""
    goal = arena.push("one attribute", np.ones(arena.k, np.int64))
    result: dict[str, float] = {}
    for prefix, honest in (("", 0), ("sleeper_", HONEST_LIFE)):
        state = turned(arena, goal, "middle", honest, rng)
        unit = arena.assign(rng, int(max(lengths) * arena.k * 1.5) + 100)
        unit = unit[: np.flatnonzero(unit == 0)[max(lengths) - 1] + 1]
        mine = unit == 0
        truth = arena.toss(rng, np.zeros(len(unit)))
        wanted = in_order(unit, np.where(mine, 1, truth), honest + 1)
        other = in_order(unit, np.where(mine, 0, truth), honest + 1)
        took, walked = arena.e_process.walk(state, wanted, other, ceiling=0.5 / ALPHA)
        harm = np.cumsum(np.where(took[mine], goal.gain, goal.loss))
        if walked == len(unit):
            result |= {f"{prefix}ratio_{n}": float(harm[n - 1] / n) for n in lengths}
    return result
