# SPDX-License-Identifier: MIT
"""Insiders, played against the gateway's own e-processes.

One kind watches its capital, the e-process's evidence against it, and does as much harm as it can without being exposed. The other
follows a fixed strategy, and is timed until it is exposed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil

import numpy as np
import numpy.typing as npt

from peel_core.hashing import hashed
from peel_core.kinds import CHOICE, SIGN, Question
from peel_gateway.planning.task import Subject
from peel_gateway.screening.e_process import FRESH, GAP, Events
from peel_tools.planning.arena import ALPHA, Arena, Generator, Goal, HarmonyArena, HashingArena, KrrArena
from peel_tools.simulation.attackers import ATTACKS, Target

__all__ = [
    "HONEST_LIFE",
    "STRATEGIES",
    "STYLES",
    "Strategy",
    "Wait",
    "arenas_of",
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
"""The honest reports of a sleeper before it turns."""
STYLES = ((1.0, np.inf), (0.2, np.inf), (0.2, 1.2))
"""Pairs of (ceiling, price). The ceiling is how close to 1/alpha the insider lets the capital come. The price is how much more capital
the wanted symbol may give than the other one. The styles: up to the limit, at a distance from it, and cautious at every report."""


def in_order(unit: Ints, symbol: Ints, first: int, kind: Ints | int = FRESH) -> Events:
    """Return the events of one device with consecutive numbers."""
    zero = np.zeros(len(unit), np.int64)
    number = np.arange(first, first + len(unit))
    return Events(row=zero, number=number, unit=unit, symbol=symbol, cohort=zero, kind=zero + kind)


def turned(arena: Arena, goal: Goal, life: str, honest: int, rng: Generator) -> npt.NDArray[np.uint8]:
    """Return the state of a device after honest reports, uint8[1, state_bytes]."""
    states = arena.e_process.new_states(1)
    unit = arena.assign(rng, honest)
    if arena.e_process.update(states, in_order(unit, arena.live(rng, life, unit, goal), 1))[0] >= 0:
        raise RuntimeError(f"an honest device was exposed: life {life}, goal {goal.name}")
    return states


def ratios(
    arena: Arena, goals: Sequence[Goal], lengths: Sequence[int], rng: Generator, *, sleepers: bool = True
) -> dict[str, float]:
    """Return the most harm of an insider who is not exposed, in units of a liar's, by number of reports, as newcomer and as sleeper.

    The insider looks one step ahead. It reports the wanted symbol unless that would expose it or cost too much, and the other one then.
    """
    best: dict[str, float] = {}
    for prefix, state, goal, first in _beginnings(arena, goals, rng, arena.lives if sleepers else ()):
        for style in STYLES:
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
    """Return the harm per report by number of reports, as far as the insider came without being exposed."""
    unit = arena.assign(rng, max(lengths))
    wanted, other = (in_order(unit, say(rng, unit), first) for say in (goal.wanted, goal.other))
    took, walked = arena.e_process.walk(state, wanted, other, ceiling=style[0] / arena.alpha, price=style[1])
    harm = np.cumsum(np.where(took, goal.gain, goal.loss))
    return {n: float(harm[n - 1] / n) for n in lengths if n < walked or walked == len(unit)}


def one_attribute(arena: HarmonyArena, lengths: Sequence[int], rng: Generator) -> dict[str, float]:
    """Return the same for an insider who attacks only the first attribute and is honest about the others.

    The lengths count reports of that attribute.
    """
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
        took, walked = arena.e_process.walk(state, wanted, other, ceiling=0.5 / arena.alpha)
        harm = np.cumsum(np.where(took[mine], goal.gain, goal.loss))
        if walked == len(unit):
            result |= {f"{prefix}ratio_{n}": float(harm[n - 1] / n) for n in lengths}
    return result


Play = Callable[[Arena, Goal, Generator, int], Events]
"""Returns the events that an insider sends from a number on."""

_MOST = 30_000
"""The most reports that are sent."""


@dataclass(frozen=True)
class Strategy:
    """A fixed strategy of an insider."""

    name: str
    arena: Callable[[], Arena]
    goal: Callable[[Arena, Generator], Goal]
    play: Play
    life: str | None = None
    """A sleeper's honest behaviour before; None for a newcomer."""
    counts: Callable[[Events], npt.NDArray[np.bool_]] = lambda played: np.asarray(played.kind != GAP)
    """Selects the events that count: all reports, unless only some matter."""


def exposed_after(strategy: Strategy, rng: Generator) -> int | None:
    """Return the number of reports until exposure, or None if it was not exposed."""
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
    """Toss a coin that shows the wanted face 0.05 more often than an honest one can."""
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
    """Toss honestly, but send only the reports of the first attribute."""
    assert isinstance(arena, HarmonyArena)
    unit = arena.assign(rng, _MOST)
    return in_order(unit, arena.toss(rng, np.zeros(_MOST)), first, np.where(unit == 0, FRESH, GAP))


def _drawn(size: int) -> Play:
    """Return a play that reports the hash of one of `size` categories, drawn evenly, without noise."""

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


def _without(size: int) -> Callable[[Arena, Generator], Goal]:
    def suppress(arena: Arena, rng: Generator) -> Goal:
        assert isinstance(arena, HashingArena)
        return arena.suppress(size, rng)

    return suppress


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
        for domain, size in ((200, 1), (5000, 1), (5000, 2), (5000, 4)):
            yield Strategy(
                f"{sleeper}hashing_without_{size}_of_{domain}",
                partial(HashingArena, 1.0, domain),
                _without(size),
                _always,
                life,
            )
        for domain in (16, 200):
            arena = partial(HashingArena, 1.0, domain)
            yield Strategy(f"{sleeper}hashing_any_of_6_of_{domain}", arena, _set_of(6), _drawn(6), life)


STRATEGIES = tuple(_strategies())


def strategies_for(arena: Arena) -> Iterator[Strategy]:
    """Yield the strategies for an arena: newcomers and one sleeper. All their reports count."""
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
"""The number of times each strategy is played. The slowest exposure counts."""
LENGTHS = (1000, 10_000)


@dataclass(frozen=True)
class Wait:
    """The reports that an attacker sends until it is exposed; None if it was not exposed in the game."""

    attack: str
    reports: int | None


def arenas_of(subject: Subject, epsilon: float) -> Iterator[tuple[str, Arena, float]]:
    """Yield the arenas of a subject, each with its label and the share of reports that are played in it: one per block of questions.

    The bets of a profile share their capital equally among its blocks, so each part of it takes longer to win.
    """
    blocks = _blocks(subject.questions(epsilon))
    alpha = ALPHA / len(blocks)
    signed = sum(block[0].form == SIGN for block in blocks)
    for block in blocks:
        names = ", ".join(dict.fromkeys(subject.attributes[question.attribute].name for question in block))
        label = "numbers" if block[0].form == SIGN and signed == 1 else names
        arena = HarmonyArena(epsilon, len(block), alpha) if block[0].form == SIGN else None
        yield (
            "" if len(blocks) == 1 else f"{label}: ",
            arena or _arena_of_choice(block[0], epsilon, alpha),
            sum(map(subject.share, block)),
        )


def _arena_of_choice(question: Question, epsilon: float, alpha: float) -> Arena:
    if question.form == CHOICE:
        return KrrArena(epsilon, question.symbols, alpha)
    return HashingArena(epsilon, question.domain, alpha)


def _blocks(questions: Sequence[Question]) -> list[list[Question]]:
    """Return the questions in blocks as profiles have them: neighbouring signs of equal weight are one, any other question is one."""
    blocks: list[list[Question]] = []
    for question in questions:
        last = blocks[-1][-1] if blocks else None
        if last and question.form == last.form == SIGN and question.weight == last.weight:
            blocks[-1].append(question)
        else:
            blocks.append([question])
    return blocks


def waits(subject: Subject, epsilon: float) -> Iterator[Wait]:
    """Yield the attacks that one report exposes, then those that only many reports expose. Those about other questions count, too."""
    yield Wait(", ".join(_at_once(subject, epsilon)), 1)
    for label, arena, share in arenas_of(subject, epsilon):
        for strategy in strategies_for(arena):
            reports = _slowest(strategy)
            yield Wait(label + strategy.name, None if reports is None else ceil(reports / share))


def _at_once(subject: Subject, epsilon: float) -> Iterator[str]:
    """Return the attacks with a device's keys that one bad report exposes."""
    target = Target(frozenset(question.form for question in subject.questions(epsilon)))
    return (name for name, kind in ATTACKS.items() if kind.causes and kind.patience is None and kind.fits(target))


def _slowest(strategy: Strategy) -> int | None:
    found = [exposed_after(strategy, np.random.default_rng(seed)) for seed in range(_TIMES)]
    reached = [wait for wait in found if wait is not None]
    return max(reached) if len(reached) == len(found) else None


def harm(subject: Subject, epsilon: float) -> dict[int, float]:
    """Return the most harm of an omniscient insider who is not exposed, in units of a liar's, by number of reports in one arena."""
    most: dict[int, float] = {}
    for _, arena, _ in arenas_of(subject, epsilon):
        chance = np.random.default_rng(2)
        found = ratios(arena, arena.goals(chance), LENGTHS, chance, sleepers=False)
        most |= {n: max(most.get(n, 0.0), found[f"ratio_{n}"]) for n in LENGTHS if f"ratio_{n}" in found}
    return most
