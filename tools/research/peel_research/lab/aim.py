# SPDX-License-Identifier: MIT
"""The aim of an attack: the questions of a profile that it is about.

Every attack of the lab is played on the same path. In a profile with one kind of attribute the aim is the whole profile. In a mixed
profile it is the questions of one kind, and the attacker is honest about all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from peel_core import Block, Profile
from peel_core.kinds import CHOICE, HASHED, SIGN

__all__ = ["ALL_FORMS", "ANY_KIND", "MIXED", "Aim", "aims_at_kinds"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ALL_FORMS = frozenset({SIGN, CHOICE, HASHED})
ANY_KIND = "any"
"""The kind of an aim at questions of several kinds."""
MIXED = "mixed"
"""The mechanism of an aim at questions of several forms."""
_MECHANISMS = {SIGN: "harmony", CHOICE: "krr", HASHED: "hashing"}


@dataclass(frozen=True)
class Aim:
    """Questions of a profile: those of one kind of attribute, or all of them.

    Units, columns and statistics of the aim are numbered from 0, in the order of the profile.
    """

    profile: Profile
    questions: tuple[int, ...]
    """Places among the profile's questions, ascending."""

    @classmethod
    def at(cls, profile: Profile, kind: str | None = None) -> Aim:
        """Return the aim at all questions of a kind, or at all questions."""
        places = enumerate(profile.questions)
        chosen = (place for place, each in places if kind in (None, profile.attributes[each.attribute].kind))
        return cls(profile, tuple(chosen))

    @cached_property
    def kind(self) -> str:
        """The kind of attribute that the questions are about; `ANY_KIND` for several kinds."""
        places = (self.profile.questions[place].attribute for place in self.questions)
        kinds = {self.profile.attributes[place].kind for place in places}
        return kinds.pop() if len(kinds) == 1 else ANY_KIND

    @cached_property
    def forms(self) -> frozenset[int]:
        """The forms of the questions."""
        return frozenset(self.profile.questions[place].form for place in self.questions)

    @property
    def mechanism(self) -> str:
        """The literature's name of the mechanism; `MIXED` for several."""
        return _MECHANISMS[next(iter(self.forms))] if len(self.forms) == 1 else MIXED

    @property
    def signed(self) -> bool:
        """Whether all answers are signs."""
        return self.forms == {SIGN}

    @cached_property
    def block(self) -> Block:
        """The block of the first question. All questions of a kind have the same rule here."""
        return self._block(self.questions[0])

    def _block(self, question: int) -> Block:
        return next(each for each in reversed(self.profile.blocks) if each.first_question <= question)

    @property
    def rarity(self) -> float:
        """Report numbers per number that a bet on the aim counts.

        Signs of equal weight share a block of bets. If others are in it, only the bets on single questions see the aim alone.
        """
        if any(block.form == SIGN and not self._fills(block) for block in self.profile.blocks):
            return self.first_rarity
        return self.profile.slots / sum(self.profile.questions[place].weight for place in self.questions)

    def _fills(self, block: Block) -> bool:
        """Whether the aim has all questions of a block, or none of them."""
        inside = {*range(block.first_question, block.first_question + block.questions)} & {*self.questions}
        return len(inside) in (0, block.questions)

    @property
    def first_rarity(self) -> float:
        """Report numbers per number that assigns the first question."""
        return self.profile.slots / self.profile.questions[self.questions[0]].weight

    @cached_property
    def columns(self) -> Ints:
        """The columns of the projection that answers to the questions have, int64[k]."""
        return np.concatenate([self._columns(place) for place in self.questions])

    def _columns(self, question: int) -> Ints:
        block = self._block(question)
        first = block.first_column + (question - block.first_question) * block.symbols
        return np.arange(first, first + block.symbols)

    @property
    def k(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @cached_property
    def outputs(self) -> tuple[Ints, Ints]:
        """All admissible answers: columns of the aim, and signs. Those with a plus come first, in the order of the columns."""
        forms = [self.profile.questions[place].form for place in self.questions]
        symbols = [self.profile.questions[place].symbols for place in self.questions]
        minus = np.flatnonzero(np.repeat(forms, symbols) == SIGN)
        return np.concatenate([np.arange(self.k), minus]), np.repeat([1, -1], [self.k, len(minus)])

    @cached_property
    def statistics(self) -> Bools:
        """True for each statistic of the profile that the questions are about."""
        return np.isin([each.question for each in self.profile.statistics], self.questions)

    def assigned(self, unit: Ints) -> Bools:
        """Return True for each unit of the profile that belongs to the questions."""
        return np.isin(self.profile.question(unit), self.questions)

    def local_unit(self, unit: Ints) -> Ints:
        """Return units of the profile as units of the aim: a place among its questions, or the hash. 0 for other units."""
        places, hashes = np.searchsorted(self.questions, self.profile.question(unit)), unit - self.block.first_unit
        return np.where(self.assigned(unit), places if self.signed else hashes, 0)

    def local_column(self, column: Ints) -> Ints:
        """Return columns of the profile as columns of the aim; 0 for other columns."""
        found = np.minimum(np.searchsorted(self.columns, column), self.k - 1)
        return np.where(self.columns[found] == column, found, 0)


def aims_at_kinds(profile: Profile) -> Iterator[Aim]:
    """Yield one aim per kind of attribute, in the order of the profile."""
    for kind in dict.fromkeys(attribute.kind for attribute in profile.attributes):
        yield Aim.at(profile, kind)
