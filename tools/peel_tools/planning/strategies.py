# SPDX-License-Identifier: MIT
"""Insiders who do not look at their wealth, and how many reports it takes to expose them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from peel_core.hashing import hashed
from peel_gateway.screening.e_process import FRESH, GAP, Events
from peel_tools.planning.arena import Arena, Generator, Goal, HarmonyArena, HashingArena, KrrArena
from peel_tools.planning.insider import HONEST_LIFE, in_order, turned

__all__ = ["STRATEGIES", "Strategy", "exposed_after", "strategies_for"]

Ints = npt.NDArray[np.int64]
Play = Callable[[Arena, Goal, Generator, int], Events]
"""What is sent from a number on."""

_MOST = 30_000
"""Reports that are sent at most."""


@dataclass(frozen=True)
class Strategy:
    """Who does what, and from when on."""

    name: str
    arena: Callable[[], Arena]
    goal: Callable[[Arena, Generator], Goal]
    play: Play
    life: str | None = None
    """How a sleeper lived before; None for a newcomer."""
    counts: Callable[[Events], npt.NDArray[np.bool_]] = lambda played: np.asarray(played.kind != GAP)
    """Which events are counted: his reports, unless only some of them matter."""


def exposed_after(strategy: Strategy, rng: Generator) -> int | None:
    """How many reports it takes; None if all that are sent do not."""
    arena = strategy.arena()
    goal = strategy.goal(arena, rng)
    honest = 0 if strategy.life is None else HONEST_LIFE + int(rng.integers(0, 64))
    state = turned(arena, goal, strategy.life or arena.lives[0], honest, rng)
    played = strategy.play(arena, goal, rng, honest + 1)
    at = int(arena.e_process.update(state, played)[0])
    return int(np.count_nonzero(strategy.counts(played)[: at + 1])) if at >= 0 else None


def _always(arena: Arena, goal: Goal, rng: Generator, first: int) -> Events:
    unit = arena.assign(rng, _MOST)
    return in_order(unit, goal.wanted(rng, unit), first)


def _above_bound(arena: Arena, goal: Goal, rng: Generator, first: int) -> Events:
    """A coin that shows the wanted face a twentieth more often than an honest one may."""
    assert isinstance(arena, HarmonyArena)
    unit = arena.assign(rng, _MOST)
    often = rng.random(_MOST) < (1 + arena.bias) / 2 + 0.05
    return in_order(unit, np.where(often, goal.wanted(rng, unit), goal.other(rng, unit)), first)


def _one_attribute(arena: Arena, goal: Goal, rng: Generator, first: int) -> Events:
    assert isinstance(arena, HarmonyArena)
    unit = arena.assign(rng, 8 * _MOST)
    truth = arena.toss(rng, np.zeros(len(unit)))
    return in_order(unit, np.where(unit == 0, goal.wanted(rng, unit), truth), first)


def _held_back(arena: Arena, goal: Goal, rng: Generator, first: int) -> Events:
    """Honest coins, but only reports of the first attribute are sent."""
    assert isinstance(arena, HarmonyArena)
    unit = arena.assign(rng, _MOST)
    return in_order(unit, arena.toss(rng, np.zeros(_MOST)), first, np.where(unit == 0, FRESH, GAP))


def _drawn(size: int) -> Play:
    """One of so many categories for each report, evenly, and what it hashes to, without noise."""

    def play(arena: Arena, goal: Goal, rng: Generator, first: int) -> Events:
        assert isinstance(arena, HashingArena)
        unit, chosen = arena.assign(rng, _MOST), rng.choice(arena.domain, size, replace=False)
        return in_order(unit, hashed(unit, rng.choice(chosen, _MOST), arena.symbols, arena.domain), first)

    return play


def _about_first(played: Events) -> npt.NDArray[np.bool_]:
    return np.asarray(played.unit == 0)


def _numbers(played: Events) -> npt.NDArray[np.bool_]:
    return np.ones(len(played), np.bool_)


def _plus(arena: Arena, rng: Generator) -> Goal:
    return arena.goals(rng)[0]


def _mixed(arena: Arena, rng: Generator) -> Goal:
    assert isinstance(arena, HarmonyArena)
    return arena.mixed()


def _set_of(size: int) -> Callable[[Arena, Generator], Goal]:
    def support(arena: Arena, rng: Generator) -> Goal:
        assert isinstance(arena, (KrrArena, HashingArena))
        return arena.support(size, rng)

    return support


def _strategies() -> Iterator[Strategy]:
    wide = partial(HarmonyArena, 1.0, 252)
    for life in (None, "middle"):
        sleeper = "sleeper_" if life else ""
        yield Strategy(f"{sleeper}always_plus", wide, _plus, _always, life)
        yield Strategy(f"{sleeper}mixed", wide, _mixed, _always, life)
        yield Strategy(f"{sleeper}one_attribute", wide, _plus, _one_attribute, life, _about_first)
        yield Strategy(f"{sleeper}above_bound_by_0.05", wide, _plus, _above_bound, life)
    yield Strategy("sleeper_against_own_past", wide, _mixed, _always, "against")
    yield Strategy("numbers_of_one_attribute_only", partial(HarmonyArena, 1.0, 16), _plus, _held_back, None, _numbers)
    for life in (None, "any"):
        sleeper = "sleeper_" if life else ""
        for k, size in ((16, 1), (16, 8), (252, 10), (252, 50)):
            yield Strategy(f"{sleeper}krr_{size}_of_{k}", partial(KrrArena, 1.0, k), _set_of(size), _always, life)
        for domain, size in ((200, 1), (200, 20), (5000, 1), (5000, 2)):
            yield Strategy(
                f"{sleeper}hashing_{size}_of_{domain}",
                partial(HashingArena, 1.0, domain),
                _set_of(size),
                _always,
                life,
            )
        for domain in (16, 200):
            arena = partial(HashingArena, 1.0, domain)
            yield Strategy(f"{sleeper}hashing_any_of_6_of_{domain}", arena, _set_of(6), _drawn(6), life)


STRATEGIES = tuple(_strategies())


def strategies_for(arena: Arena) -> Iterator[Strategy]:
    """What newcomers, and one sleeper, may try in an arena; all their reports are counted."""
    if isinstance(arena, HarmonyArena):
        yield Strategy("always plus", lambda: arena, _plus, _always)
        yield Strategy("always plus after 100,000 honest reports", lambda: arena, _plus, _always, "middle")
        if arena.k > 1:
            yield Strategy("a direction of its own for each attribute", lambda: arena, _mixed, _always)
        yield Strategy("plus a twentieth too often", lambda: arena, _plus, _above_bound)
        return
    assert isinstance(arena, (KrrArena, HashingArena))
    size = arena.k if isinstance(arena, KrrArena) else arena.domain
    yield Strategy("always the same category", lambda: arena, _set_of(1), _always)
    yield Strategy("the same after 100,000 honest reports", lambda: arena, _set_of(1), _always, "any")
    if size > 2:
        yield Strategy("any of half of the categories", lambda: arena, _set_of(size // 2), _always)
