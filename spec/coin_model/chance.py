# SPDX-License-Identifier: MIT
"""Exact probabilities of a play: run it once for each way in which its random choices can fall out."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from functools import partial
from typing import Protocol, TypeVar

__all__ = ["Chance", "Dice", "Fixed", "distribution", "likelihood_ratio"]

Outcome = TypeVar("Outcome", bound=Hashable)
Answer = TypeVar("Answer")


class Chance(Protocol):
    """A source of random choices."""

    def pick(self, sides: int) -> int:
        """Return a number from 0 to sides - 1, all equally likely."""


class Dice:
    """Pseudorandom choices, for simulations."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pick(self, sides: int) -> int:
        return self._random.randrange(sides)


class Fixed:
    """Always 0, where the outcome of a choice does not matter."""

    def pick(self, sides: int) -> int:
        return 0


class _Replay:
    """Replays a list of choices, and appends 0 when the list ends."""

    def __init__(self, choices: list[int]) -> None:
        self.choices = choices
        self.sides: list[int] = []

    def pick(self, sides: int) -> int:
        if len(self.sides) == len(self.choices):
            self.choices.append(0)
        self.sides.append(sides)
        return self.choices[len(self.sides) - 1]


def distribution(play: Callable[[Chance], Outcome]) -> dict[Outcome, Fraction]:
    """Return the exact distribution of what a play returns."""
    weights: dict[Outcome, Fraction] = {}
    choices: list[int] = []
    while True:
        replay = _Replay(choices)
        outcome = play(replay)
        weight = Fraction(1)
        for sides in replay.sides:
            weight /= sides
        weights[outcome] = weights.get(outcome, Fraction(0)) + weight
        while choices and choices[-1] == replay.sides[len(choices) - 1] - 1:
            choices.pop()
        if not choices:
            return weights
        choices[-1] += 1


def likelihood_ratio(play: Callable[[Chance, Answer], Hashable], answers: Iterable[Answer]) -> Fraction | float:
    """Return the largest ratio of a view's probabilities under two answers; infinity if a view rules an answer out."""
    views = [distribution(partial(_answered, play, answer)) for answer in answers]
    worst: Fraction | float = Fraction(1)
    for one in views:
        for other in views:
            for view, probability in one.items():
                worst = max(worst, probability / other[view] if view in other else float("inf"))
    return worst


def _answered(play: Callable[[Chance, Answer], Hashable], answer: Answer, chance: Chance) -> Hashable:
    return play(chance, answer)
