# SPDX-License-Identifier: MIT
"""How soon attackers of a planned fleet would be exposed, and what they can do until then: played against the gateway's own bets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from peel_gateway.planning.task import Subject
from peel_tools.planning.arena import Arena, HarmonyArena, HashingArena, KrrArena
from peel_tools.planning.insider import ratios
from peel_tools.planning.strategies import Strategy, exposed_after, strategies_for
from peel_tools.simulation.attackers import ATTACKS

__all__ = ["Wait", "arena_of", "harm", "waits"]

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
