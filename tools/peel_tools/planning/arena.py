# SPDX-License-Identifier: MIT
"""Arenas: per mechanism, the reports of honest devices, the goals of insiders, and the harm that they do.

An insider controls a device and its keys. A liar is a device with an honest coin and the most harmful false reading. Harm is counted
in units of a liar's harm per report.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from peel_core import hash_family
from peel_core.hashing import hashed
from peel_core.odds import EPSILON_ONE, odds_of
from peel_gateway.mechanisms.categorical import hashing_bets, krr_bets
from peel_gateway.mechanisms.harmony import harmony_bets
from peel_gateway.screening.e_process import EProcess

__all__ = ["ALPHA", "Arena", "Goal", "HarmonyArena", "HashingArena", "KrrArena"]

Ints = npt.NDArray[np.int64]
Generator = np.random.Generator

ALPHA = 1e-6


@dataclass(frozen=True)
class Goal:
    """An insider's goal: the symbol that it wants to report for each unit, and the one that it reports instead when it must hide."""

    name: str
    wanted: Callable[[Generator, Ints], Ints]
    other: Callable[[Generator, Ints], Ints]
    gain: float
    """Harm of a report with the wanted symbol. Before any judgement this is the cap."""
    loss: float
    """Harm of a report with the other symbol."""


class Arena(abc.ABC):
    """A mechanism with its parameters, and the e-process on its devices."""

    e_process: EProcess
    alpha: float
    """A device is exposed when its capital reaches the inverse. It is smaller where the arena is a part of a profile."""
    lives: Sequence[str]
    """The kinds of honest behaviour before a device turns, for `live`."""

    @abc.abstractmethod
    def assign(self, rng: Generator, n: int) -> Ints:
        """Return the units (attributes or hashes) that n report numbers assign."""

    @abc.abstractmethod
    def live(self, rng: Generator, life: str, unit: Ints, goal: Goal) -> Ints:
        """Return an honest device's symbols. `life` is its reading: neutral, as close to the later goal as possible, or the opposite."""

    @abc.abstractmethod
    def goals(self, rng: Generator) -> list[Goal]:
        """Return the goals of insiders, each more harmful than a liar."""


class HarmonyArena(Arena):
    """k numeric attributes."""

    lives = ("middle", "same", "against", "halves")

    def __init__(self, epsilon: float, k: int, alpha: float = ALPHA) -> None:
        self.alpha = alpha
        self.k = k
        odds = odds_of(round(epsilon * EPSILON_ONE), 2)
        self.bias = odds.true_share
        self.e_process = EProcess(harmony_bets(k, odds), alpha)

    def assign(self, rng: Generator, n: int) -> Ints:
        return rng.integers(0, self.k, n)

    def toss(self, rng: Generator, reading: npt.NDArray[np.float64]) -> Ints:
        """Return honest signs of readings, 1 for plus."""
        return (rng.random(len(reading)) < (1 + self.bias * reading) / 2).astype(np.int64)

    def live(self, rng: Generator, life: str, unit: Ints, goal: Goal) -> Ints:
        side = (2 * goal.wanted(rng, unit) - 1).astype(np.float64)
        if life == "halves":
            return self.toss(rng, np.where(unit // 2 % 2, side, -side))
        return self.toss(rng, side * {"middle": 0, "same": 1, "against": -1}[life])

    def goals(self, rng: Generator) -> list[Goal]:
        return [self.push("plus", np.ones(self.k, np.int64))] + ([self.mixed()] if self.k > 1 else [])

    def mixed(self) -> Goal:
        """Return the goal to push half of the attributes up and half of them down."""
        return self.push("mixed", np.arange(self.k) % 2)

    def push(self, name: str, sign: Ints) -> Goal:
        """Return the goal to push each attribute in a direction, 1 for up."""
        return Goal(name, lambda _, unit: sign[unit], lambda _, unit: 1 - sign[unit], 1 / self.bias, -1 / self.bias)


class KrrArena(Arena):
    """k categories."""

    lives = ("any", "one of them", "another one")

    def __init__(self, epsilon: float, k: int, alpha: float = ALPHA) -> None:
        self.alpha = alpha
        self.k = k
        odds = odds_of(round(epsilon * EPSILON_ONE), k)
        self.truth = odds.true_share
        self.e_process = EProcess(krr_bets(odds), alpha)

    def assign(self, rng: Generator, n: int) -> Ints:
        return np.zeros(n, np.int64)

    def answer(self, rng: Generator, value: Ints) -> Ints:
        """Return honest answers."""
        return np.where(rng.random(len(value)) < self.truth, value, rng.integers(0, self.k, len(value)))

    def live(self, rng: Generator, life: str, unit: Ints, goal: Goal) -> Ints:
        one = np.zeros(1, np.int64)
        fixed = {"one of them": goal.wanted(rng, one), "another one": goal.other(rng, one)}.get(life)
        return self.answer(rng, rng.integers(0, self.k, len(unit)) if fixed is None else np.repeat(fixed, len(unit)))

    def goals(self, rng: Generator) -> list[Goal]:
        sizes = {1, 2, self.k // 4, self.k // 2} & set(range(1, self.k))
        return [self.support(size, rng) for size in sorted(sizes)]

    def support(self, size: int, rng: Generator) -> Goal:
        """Return the goal to raise the share of a set of categories."""
        order = rng.permutation(self.k)
        inside, outside = order[:size], order[size:]
        noise = (1 - self.truth) / self.k
        return Goal(
            f"{size} of {self.k}",
            lambda rng, unit: rng.choice(inside, len(unit)),
            lambda rng, unit: rng.choice(outside, len(unit)),
            (1 - size * noise) / self.truth,
            -size * noise / self.truth,
        )


class HashingArena(Arena):
    """Many categories, hashed."""

    lives = ("any", "one of them")

    def __init__(self, epsilon: float, domain: int, alpha: float = ALPHA) -> None:
        self.alpha = alpha
        self.domain = domain
        self.symbols = hash_family.symbols(round(epsilon * EPSILON_ONE))
        self.hashes = hash_family.hash_count(self.symbols, domain)
        digits = hash_family.digits(self.symbols, domain)
        odds = odds_of(round(epsilon * EPSILON_ONE), self.symbols)
        self.truth = odds.true_share
        self.e_process = EProcess(hashing_bets(domain, digits, odds), alpha)

    def assign(self, rng: Generator, n: int) -> Ints:
        return rng.integers(0, self.hashes, n)

    def answer(self, rng: Generator, unit: Ints, category: Ints) -> Ints:
        """Return honest answers."""
        told = rng.random(len(unit)) < self.truth
        return np.where(
            told, hashed(unit, category, self.symbols, self.domain), rng.integers(0, self.symbols, len(unit))
        )

    def live(self, rng: Generator, life: str, unit: Ints, goal: Goal) -> Ints:
        if life == "any":
            return self.answer(rng, unit, rng.integers(0, self.domain, len(unit)))
        told = rng.random(len(unit)) < self.truth
        return np.where(told, goal.wanted(rng, unit), rng.integers(0, self.symbols, len(unit)))

    def goals(self, rng: Generator) -> list[Goal]:
        return [self.support(size, rng) for size in (1, 2, 4, self.domain // 2) if size < self.domain]

    def support(self, size: int, rng: Generator) -> Goal:
        """Return the goal to raise the share of a set of categories, by the symbol that most of them hash to.

        A liar that knows the hash chooses its lie in the same way.
        """
        chosen = rng.choice(self.domain, size, replace=False)
        best = np.concatenate([self._best(unit, chosen) for unit in np.array_split(np.arange(self.hashes), 64)])

        def wanted(_: Generator, unit: Ints) -> Ints:
            return np.asarray(best[unit])

        def other(rng: Generator, unit: Ints) -> Ints:
            return np.asarray(best[unit] + rng.integers(1, self.symbols, len(unit))) % self.symbols

        chance = 1 / self.symbols
        return Goal(f"{size} of {self.domain}", wanted, other, (1 - chance) / self._edge, -chance / self._edge)

    def suppress(self, size: int, rng: Generator) -> Goal:
        """Return the goal to lower the shares of a set of categories: to say one of the symbols that fewest of them hash to.

        A liar that knows the hash chooses its lie in the same way.
        """
        chosen = rng.choice(self.domain, size, replace=False)
        votes = np.concatenate(
            [self._votes(unit, chosen) for unit in np.array_split(np.arange(self.hashes), 64)], axis=1
        )
        fewest, most = votes.min(axis=0), votes.max(axis=0)

        def wanted(rng: Generator, unit: Ints) -> Ints:
            order = np.where(votes[:, unit] == fewest[unit], rng.random((self.symbols, len(unit))), 2)
            return np.asarray(order.argmin(axis=0))

        def other(_: Generator, unit: Ints) -> Ints:
            return np.asarray(votes[:, unit].argmax(axis=0))

        by_chance = size / self.symbols
        lie = self.truth * (by_chance - fewest.mean())
        gain, loss = ((by_chance - each.mean()) / lie for each in (fewest, most))
        return Goal(f"without {size} of {self.domain}", wanted, other, float(gain), float(loss))

    @property
    def _edge(self) -> float:
        """The rate above chance at which a liar reports its false category."""
        return self.truth * (1 - 1 / self.symbols)

    def _best(self, unit: Ints, chosen: Ints) -> Ints:
        return np.asarray(self._votes(unit, chosen).argmax(axis=0))

    def _votes(self, unit: Ints, chosen: Ints) -> Ints:
        """Return how many of the categories hash to each symbol, int64[symbols, U]."""
        told = hashed(unit[:, None], chosen, self.symbols, self.domain)
        return np.stack([(told == symbol).sum(axis=1) for symbol in range(self.symbols)])
