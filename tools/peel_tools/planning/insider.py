# SPDX-License-Identifier: MIT
"""Insiders against the capital alone: how much harm without being exposed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from peel_core.hashing import hashed
from peel_gateway.planning.task import Subject
from peel_gateway.screening.e_process import FRESH, GAP, Events
from peel_tools.planning.arena import ALPHA, Arena, Generator, Goal, HarmonyArena, HashingArena, KrrArena
from peel_tools.simulation.attackers import ATTACKS

__all__ = [
    "HONEST_LIFE",
    "STRATEGIES",
    "Strategy",
    "Wait",
    "arena_of",
    "exposed_after",
    "harm",
    "in_order",
    "one_attribute",
    "ratios",
    "strategies_for",
    "turned",
    "waits",
]

Ints = npt.NDArray[np.int64]

HONEST_LIFE = 100_000
"""Honest reports of a sleeper before he turns."""
_STYLES = ((1.0, np.inf), (0.2, np.inf), (0.2, 1.2))
"""How close to the limit he lets his capital come, of 1/alpha, and the price at which he says what he wants: how much richer it makes him
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


_TIMES = 5
"""How often each strategy is tried; the slowest counts."""
LENGTHS = (1000, 10_000)


@dataclass(frozen=True)
class Wait:
    """Reports that an attacker sends until it is exposed; None where it was not within what was played."""

    attack: str
    reports: int | None


def arena_of(subject: Subject, epsilon: float) -> Arena:
    """The arena of a subject."""
    kinds: dict[str, type[HarmonyArena | KrrArena | HashingArena]] = {
        "harmony": HarmonyArena,
        "krr": KrrArena,
        "hashing": HashingArena,
    }
    return kinds[subject.mechanism](epsilon, subject.size)


def waits(subject: Subject, epsilon: float) -> Iterator[Wait]:
    """First what one report gives away, then what only many reports together do."""
    yield Wait(", ".join(_at_once(subject)), 1)
    for strategy in strategies_for(arena_of(subject, epsilon)):
        yield Wait(strategy.name, _slowest(strategy))


def _at_once(subject: Subject) -> Iterator[str]:
    """Attackers with a device's keys of whom one bad report is enough."""
    return (
        name for name, kind in ATTACKS.items() if kind.causes and kind.patience is None and kind.fits(subject.mechanism)
    )


def _slowest(strategy: Strategy) -> int | None:
    found = [exposed_after(strategy, np.random.default_rng(seed)) for seed in range(_TIMES)]
    reached = [wait for wait in found if wait is not None]
    return max(reached) if len(reached) == len(found) else None


def harm(subject: Subject, epsilon: float) -> dict[int, float]:
    """What an insider who knows everything does at most without being exposed, over a liar's harm, after so many reports."""
    arena, chance = arena_of(subject, epsilon), np.random.default_rng(2)
    found = ratios(arena, arena.goals(chance), LENGTHS, chance, sleepers=False)
    return {n: found[f"ratio_{n}"] for n in LENGTHS if f"ratio_{n}" in found}
