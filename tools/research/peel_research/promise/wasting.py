# SPDX-License-Identifier: MIT
"""Insiders who waste reports so that the bets on them lose, and insiders who suppress categories.

- *Sacrifice*: an insider pushes some of many attributes. About the others he says what makes the bets lose most.
- *Hysteresis*: he pushes one attribute until the bet on it is rich, makes it lose, and begins again.
- *Suppression*: he never says what a hashed category hashes to.

All of them know the state of every bet on them and look one step ahead. `sacrifice` and `hysteresis` play against the e-process;
`sacrifice_on_engine` and `suppression_on_engine` replay such lives against a whole engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from peel_core import Block, Profile, index_many, make_profile
from peel_core.kinds import SIGN
from peel_core.primitives import codeword
from peel_gateway.mechanisms import questions_of
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.e_process import EProcess
from peel_gateway.storage.records import read_log
from peel_research.promise.engine import Site
from peel_tools.planning.arena import ALPHA, HarmonyArena, HashingArena
from peel_tools.planning.insider import HONEST_LIFE, STYLES, in_order, turned
from peel_tools.simulation.piece import sealed_frame

__all__ = ["Sacrifice", "hysteresis", "sacrifice", "sacrifice_on_engine", "suppression_on_engine"]

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

CEILINGS = (1.0, 0.5, 0.1, 1e-2, 1e-4)
"""Parts of 1/alpha at which an insider begins to waste."""
FLOORS = (1.0, 1e-2, 1e-4, 1e-6)
"""Parts of that ceiling at which he begins again; 1 for never wasting more than he must."""


@dataclass(frozen=True)
class Sacrifice:
    """The outcome of a sacrifice: harm per report over a liar's."""

    overall: float
    targets: float
    """Of the reports about the attributes that are pushed."""


def sacrifice(arena: HarmonyArena, reports: int, targets: int, seed: int, *, life: str | None = None) -> Sacrifice:
    """Return the best of some walks of an insider who pushes so many attributes and sacrifices the others.

    Parameters
    ----------
    life : str, optional
        A sleeper's honest behaviour before; a newcomer if it is not given.
    """
    rng = np.random.default_rng(seed)
    honest = 0 if life is None else HONEST_LIFE
    state = turned(arena, arena.mixed(), life or arena.lives[0], honest, rng)
    unit = arena.assign(rng, reports)
    walks = [_sacrificed(arena, state.copy(), unit, honest + 1, targets, style) for style in STYLES]
    return _best(walks)[0]


def _best(walks: Sequence[tuple[Sacrifice, Ints] | None]) -> tuple[Sacrifice, Ints]:
    return max((each for each in walks if each is not None), key=lambda each: each[0].overall)


def _sacrificed(
    arena: HarmonyArena, state: Bytes, unit: Ints, first: int, targets: int, style: tuple[float, float]
) -> tuple[Sacrifice, Ints] | None:
    """Return the outcome and the symbols of one walk; None if it ends in an exposure."""
    goal, pushed, rng = arena.mixed(), unit < targets, np.random.default_rng(0)
    wanted, other = (in_order(unit, say(rng, unit), first) for say in (goal.wanted, goal.other))
    ceiling, price = style
    took, walked = arena.e_process.walk(
        state, wanted, other, ceiling=ceiling / arena.alpha, price=np.where(pushed, price, 0.0)
    )
    if walked < len(unit):
        return None
    harm = np.where(took, goal.gain, goal.loss)
    outcome = Sacrifice(float(harm.mean()), float(harm[pushed].mean()))
    return outcome, np.where(took, wanted.symbol, other.symbol)


def hysteresis(arena: HarmonyArena, reports: int, seed: int) -> float:
    """Return the most harm per report to one attribute over a liar's, after so many reports about it.

    The insider is honest about the other attributes. He plays with several ceilings and floors, and the best pair counts.
    """
    goal = arena.push("one attribute", np.ones(arena.k, np.int64))
    rng = np.random.default_rng(seed)
    unit = arena.assign(rng, int(reports * arena.k * 1.1) + 100)
    unit = unit[: np.flatnonzero(unit == 0)[reports - 1] + 1]
    mine, truth = unit == 0, arena.toss(rng, np.zeros(len(unit)))
    wanted, other = (in_order(unit, np.where(mine, symbol, truth), 1) for symbol in (1, 0))
    best = 0.0
    for ceiling, part in product(np.array(CEILINGS) / arena.alpha, FLOORS):
        state = arena.e_process.new_states(1)
        took, walked = arena.e_process.walk(state, wanted, other, ceiling=ceiling, floor=ceiling * part)
        if walked == len(unit):
            best = max(best, float(np.where(took[mine], goal.gain, goal.loss).mean()))
    return best


# ---- replays against a whole engine ----

_DEVICE = 1
_BUCKET = 86_400


def _profile(attributes: Sequence[dict[str, object]], quota: int) -> Profile:
    table = {"name": "wasting", "epsilon": 1, "verify": False, "seed": 1, "quota": quota, "period": 86_400}
    return make_profile({**table, "attribute": attributes})


def _frames(site: Site, unit: Ints, symbol: Ints, first: int) -> list[bytes]:
    """Return the device's sealed reports that say these symbols about the units that its numbers assign."""
    profile, (block,), seal = site.profile, site.profile.blocks, site.keys.seal[_DEVICE - 1].tobytes()
    frames = []
    for number, (j, said) in enumerate(zip(unit.tolist(), symbol.tolist(), strict=True), first):
        trits = codeword(profile.seed, profile.width, *_column(block, j, said))
        frames.append(sealed_frame(profile, _DEVICE, number, seal, trits, block.rule))
    return frames


def _column(block: Block, unit: int, symbol: int) -> tuple[int, int]:
    """Return column and sign bit of a symbol."""
    return (unit, 1 - symbol) if block.form == SIGN else (symbol, 0)


def _assigned(site: Site, reports: int) -> Ints:
    """Return the units that the device's numbers from 1 on assign."""
    who, number = np.full(reports, _DEVICE - 1), np.arange(1, reports + 1)
    return np.asarray(index_many(site.profile, site.ids[who], site.keys.of(who), number), np.int64)


def sacrifice_on_engine(k: int, reports: int, targets: int, seed: int = 1) -> Sacrifice | None:
    """Return the harm in the reports that an engine counts of the best sacrifice, in one batch; None if it is exposed."""
    attributes = [{"name": f"a{i}", "kind": "mean", "low": -1, "high": 1} for i in range(k)]
    arena, goal_sign = HarmonyArena(1.0, k), np.arange(k) % 2
    profile = _profile(attributes, quota=2 * reports)
    with Site.opened("wasting", profile, 2, seed=seed, bucket_seconds=_BUCKET, days=2) as site:
        unit = _assigned(site, reports)
        arena.e_process = EProcess(questions_of(profile).bets(), ALPHA)
        _, symbol = _best(
            [_sacrificed(arena, arena.e_process.new_states(1), unit, 1, targets, style) for style in STYLES]
        )
        if site.send(_frames(site, unit, symbol, 1)):
            return None
        log = read_log(site.store)
        counted = log.verdict == Verdict.ACCEPTED
        harm = log.sign[counted] * (2 * goal_sign[log.index[counted]] - 1) / arena.bias
        return Sacrifice(float(harm.mean()), float(harm[log.index[counted] < targets].mean()))


def suppression_on_engine(domain: int, most: int, seed: int = 1, batch: int = 20) -> int | None:
    """Return the reports until an engine exposes a device that never says what one category hashes to; None after so many reports."""
    arena = HashingArena(1.0, domain)
    goal = arena.suppress(1, np.random.default_rng(seed))
    attribute = {"name": "error", "kind": "hashed", "domain": domain}
    profile = _profile([attribute], quota=2 * most)
    with Site.opened("wasting", profile, 2, seed=seed, bucket_seconds=_BUCKET, days=2) as site:
        unit = _assigned(site, most)
        symbol = goal.wanted(site.rng, unit)
        for first in range(0, most, batch):
            some = slice(first, first + batch)
            if site.send(_frames(site, unit[some], symbol[some], first + 1)):
                return min(first + batch, most)
    return None
