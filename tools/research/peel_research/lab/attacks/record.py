# SPDX-License-Identifier: MIT
"""The lab's record of an attack: its place, its needs, and what exposes it or why nothing can."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_core.hashing import hashed
from peel_core.kinds import HASHED
from peel_core.odds import Odds
from peel_gateway.model.verdict import Layer
from peel_research.lab.aim import ALL_FORMS, Aim, aims_at_kinds
from peel_research.lab.mechanisms.devices import odds_near
from peel_tools.simulation.tricks import Transform

__all__ = ["Course", "LabAttack", "Lie", "Needs", "Place", "Say"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Place(enum.Enum):
    """The place of an attack, from the sensor to the fleet, in words."""

    READING = "what the sensor is said to have read"
    COIN = "the randomiser: what it answers, and with which budget"
    ENCODER = "the way from the answer to the codeword"
    FRAME = "number, name and seal of a report"
    WIRE = "what is on its way to the gateway"
    FLEET = "who takes part"


class Needs(enum.Enum):
    """The knowledge or keys that an attacker needs, in words."""

    LINE = "sees and alters what is on the line"
    PROFILE = "knows the profile, and with it the projection, but no key"
    SENSOR = "can touch the sensor: no key, no code"
    KEYS = "runs the device: its code and its keys"
    BETS = "runs the device, knows the gateway's code and the state of every bet on itself"


@dataclass(frozen=True)
class Course:
    """All that A devices would have said honestly with M numbers each, in the order of their numbers.

    `unit` and `index` count within the aim. Where a number assigns another question, they and `value` are 0 and `sign` is 1.
    """

    aim: Aim
    rng: np.random.Generator
    devices: Ints
    """int64[A]."""
    assigned: Ints
    """The unit of the profile that each number assigns, int64[A, M]."""
    aimed: Bools
    """Reports whose answers an attack replaces, bool[A, M]. The others stay honest."""
    honest: tuple[Ints, Ints]
    """Column of the profile and sign of each honest report, int64[A, M] each."""
    unit: Ints
    """Question or hash that each number assigns, int64[A, M]."""
    value: Floats
    """The reading behind it, in [-1, 1], or the category. float64[A, M]."""
    index: Ints
    """The column that the report names, int64[A, M]."""
    sign: Ints
    """Its sign, int64[A, M]."""
    leaning: Ints
    """Sign of the true mean of each question of the profile, which a bystander can guess; 0 without signs. int64[questions]."""
    sent: Bools
    """Reports that are sent at all, bool[A, M]."""
    rule: Ints
    """The odds that each frame states, as its four bytes: int64[A, M]."""

    @property
    def profile(self) -> Profile:
        """The devices' profile."""
        return self.aim.profile

    def answers(self) -> tuple[Ints, Ints]:
        """Return column of the profile and sign of each report, int64[A, M] each."""
        column, sign = self.honest
        return np.where(self.aimed, self.aim.columns[self.index], column), np.where(self.aimed, self.sign, sign)

    def saying(self, index: Ints | int, sign: Ints | int) -> Course:
        """The same numbers with other answers."""
        shape = self.unit.shape
        return replace(
            self,
            index=np.broadcast_to(index, shape).astype(np.int64),
            sign=np.broadcast_to(sign, shape).astype(np.int64),
        )

    def everywhere(self) -> Course:
        """The same answers to all questions of the profile, whatever the numbers assign."""
        return replace(self, aimed=np.ones_like(self.aimed))

    def sending(self, chosen: Bools) -> Course:
        """Send only some of the reports about the aim, and all others."""
        return replace(self, sent=chosen | ~self.aimed)

    def symbol(self, category: Ints | int) -> Ints:
        """Return the symbol that supports a category: the category itself, or its hash for each number. int64[A, M]."""
        block = self.aim.block
        if block.form != HASHED:
            return np.broadcast_to(np.asarray(category, np.int64), self.unit.shape)
        return hashed(self.unit, category, block.symbols, block.domain)

    def chance(self, probability: float) -> Bools:
        """A coin for each report, bool[A, M]."""
        return self.rng.random(self.unit.shape) < probability

    def tossed(self, epsilon: Floats) -> Course:
        """Answers that the mechanism gives with another budget for each device, float64[A]; the frames say nothing of it."""
        told = self._per_report([odds.true_share for odds in self._odds(epsilon)])
        if not self.aim.signed:
            other = self.rng.integers(0, self.aim.k, told.shape)
            own = self.symbol(self.value.astype(np.int64))
            return self.saying(np.where(self.rng.random(told.shape) < told, own, other), 1)
        plus = self.rng.random(told.shape) < (1 + self.value * told) / 2
        return self.saying(self.unit, np.where(plus, 1, -1))

    def declaring(self, epsilon: Floats) -> Course:
        """The same answers in frames that state the odds of these budgets, float64[A]."""
        declared = self._per_report([odds.rule for odds in self._odds(epsilon)])
        return replace(self, rule=np.where(self.aimed, declared, self.rule))

    def _odds(self, epsilon: Floats) -> list[Odds]:
        """The odds of each device."""
        return [odds_near(each, self.aim.block.outcomes) for each in epsilon.tolist()]

    def _per_report(self, values: list[Any]) -> npt.NDArray[Any]:
        """Repeat a value of each device for all its reports, [A, M]."""
        return np.broadcast_to(np.array(values)[:, None], self.unit.shape)


Say = Callable[[Course], Course]
"""Returns the symbols that devices report instead of the honest ones."""
Lie = Callable[[Aim, npt.NDArray[np.int32], np.random.Generator], npt.NDArray[np.int32]]
"""Returns the false readings of sensors, as `encode_many` takes them: Q15 or categories, int32[N, questions of the aim]."""


@dataclass(frozen=True, kw_only=True)
class LabAttack:
    """An attack. It lies about readings, says something else, or turns frames into others: one of the three."""

    name: str
    help: str
    place: Place
    needs: Needs
    layer: Layer | None
    """The layer that exposes it; None where none can."""
    why: str
    """The reason why the layer exposes it, or why none can."""
    lie: Lie | None = None
    say: Say | None = None
    turn: Transform | None = None
    forms: frozenset[int] = ALL_FORMS
    """The forms of questions that it can be about."""
    whole: bool = False
    """Whether it is about all questions of a profile at once, not about those of one kind. Attacks on frames always are."""
    least_questions: int = 1
    """Questions that the profile must have."""
    effort: float = 1
    """Reports of such a device per report of an honest one: who has to convince the statistics talks more."""
    effort_each: float = 0
    """The same per question, for an attack that is judged by one question alone. The larger of both counts."""

    @property
    def by_device(self) -> bool:
        """Whether devices commit it; reports of honest ones are the victims otherwise."""
        return self.needs not in (Needs.LINE, Needs.PROFILE)

    def aims(self, profile: Profile) -> list[Aim]:
        """Return the parts of a profile that it can be committed on: each kind of attribute, or all of them at once."""
        if len(profile.questions) < self.least_questions:
            return []
        aims = [Aim.at(profile)] if self.whole or self.turn else aims_at_kinds(profile)
        return [aim for aim in aims if aim.forms <= self.forms]

    def numbers(self, aim: Aim, reports: int) -> int:
        """Numbers that an attacker's device uses while an honest one uses so many.

        For statistics, and for an insider who knows them, the effort is in reports about the aim.
        """
        if not self.by_device:
            return reports
        rarity = aim.rarity if self.layer is Layer.STATISTICS or self.needs is Needs.BETS else 1
        return ceil(reports * max(self.effort * rarity, self.effort_each * aim.first_rarity))
