# SPDX-License-Identifier: MIT
"""A profile's questions, as the layers, the bets and the estimates need them: one object per form of question, joined over blocks.

A report is counted in a *cell* (`Profile.cell`), by its sign. What is estimated are *statistics*: a report speaks for one or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from peel_core import Block, Profile
from peel_core.kinds import CHOICE, HASHED, SIGN
from peel_gateway.mechanisms.base import Form
from peel_gateway.mechanisms.bets import BETS_BY_NAME, Bets, bets_on
from peel_gateway.mechanisms.categorical import CHOICES, HASHED_CHOICES
from peel_gateway.mechanisms.harmony import SIGNS, plain_means
from peel_gateway.model.grouping import rows_where

__all__ = ["Questions", "questions_of"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_FORMS: dict[int, Form] = {SIGN: SIGNS, CHOICE: CHOICES, HASHED: HASHED_CHOICES}


class Questions:
    """The questions of a profile. Arrays are int64 or float64, one entry per report or per statistic."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._blocks = [(block, _FORMS[block.form]) for block in profile.blocks]
        self.count = len(profile.questions)
        """The number of questions."""
        self.assigned = profile.slots > 1
        """Whether a report's number assigns its question, so that a missing number is known to miss one."""
        self.of_statistic: Ints = np.array([each.question for each in profile.statistics], np.int64)
        """The question of each statistic."""
        self.low: Floats = np.array([each.low for each in profile.statistics], np.float64)
        self.high: Floats = np.array([each.high for each in profile.statistics], np.float64)
        """The least and the greatest value that each statistic can have."""
        chances = [form.chances(block) for block, form in self._blocks]
        statistics = [block.statistics for block in profile.blocks]
        self.least: Floats = np.repeat([least for least, _ in chances], statistics)
        self.most: Floats = np.repeat([most for _, most in chances], statistics)
        """The chance with which a report speaks for each statistic at its least and its greatest value; in between it is linear."""

    def supported(self, unit: Ints, column: Ints, sign: Ints) -> Bools:
        """Return True for each codeword, decoded to (column, sign), that an honest device may send if its number assigns `unit`."""
        found = np.zeros(len(unit), np.bool_)
        for block, form, rows in self._parts(self._profile.block_of_unit, unit):
            local = unit[rows] - block.first_unit, column[rows] - block.first_column
            found[rows] = form.supported(block, *local, sign[rows])
        return found

    def toss(self, cell: Ints, sign: Ints) -> tuple[Ints, Ints]:
        """Return the unit that each report is about and the symbol that it reports."""
        symbol = np.zeros(len(cell), np.int64)
        for block, form, rows in self._parts(self._profile.block_of_cell, cell):
            symbol[rows] = form.symbol(block, cell[rows] - block.first_cell, sign[rows])
        return self._profile.unit(cell), symbol

    def bets(self) -> Bets:
        """Return the bets on the devices of the profile and their capital."""
        weights = [question.weight for question in self._profile.questions]
        alphabets = [form.alphabet(block) for block, form in self._blocks]
        return bets_on(alphabets, weights, verified=self._profile.verified)

    def called(self, bet: str, block: int | None, index: int) -> str:
        """Return the name of what a bet is about: a question, a unit of signs, a symbol or a category of a block."""
        if block is None:
            return self.question_name(index)
        of, part = self._profile.blocks[block], BETS_BY_NAME[bet].part
        if part == "UNIT":
            return self._profile.label(of.first_statistic + index - of.first_unit)
        statistic = self._profile.statistics[of.first_statistic + index]
        if of.form == HASHED and part == "SYMBOLS":
            return f"symbol {index} of {statistic.attribute.name}"
        return statistic.name if statistic.attribute.categories else f"category {statistic.category}"

    def question_name(self, question: int) -> str:
        """Return a question's name: that of its statistic if it has one, else that of its attribute."""
        about = np.flatnonzero(self.of_statistic == question).tolist()
        first = self._profile.statistics[about[0]]
        return first.name if len(about) == 1 else first.attribute.name

    def question(self, cell: Ints) -> Ints:
        """Return the question that each report answers."""
        return np.asarray(self._profile.question(self._profile.unit(cell)))

    def signed(self, cell: Ints) -> Bools:
        """Return True for each report that is a sign, which others agree with or not."""
        signed = np.array([form.signed for _, form in self._blocks], np.bool_)
        return np.broadcast_to(signed[self._profile.block_of_cell(cell)], np.shape(cell))

    def speaking(self, cell: Ints, weight: Floats) -> Floats:
        """Return the weight of plus reports that support each statistic; one row per cell with its weight."""
        found = np.zeros(self._profile.size)
        for block, form, rows in self._parts(self._profile.block_of_cell, cell):
            found[_statistics(block)] = form.speaking(block, cell[rows] - block.first_cell, weight[rows])
        return found

    def plain(
        self, cell: Ints, plus: Ints, minus: Ints, total: int
    ) -> Iterator[tuple[slice, tuple[Floats, Floats, Floats]]]:
        """Yield value, low and high of the textbook's estimator where it is another one, with the statistics that they are for.

        `total` is the number of reports about any question.
        """
        for block, form, rows in self._parts(self._profile.block_of_cell, cell):
            if form.signed:
                of = _statistics(block)
                counts = [
                    form.speaking(block, cell[rows] - block.first_cell, each[rows].astype(np.float64))
                    for each in (plus, minus)
                ]
                low, high = self.low[of], self.high[of]
                means = plain_means(block, self._profile.slots, total, *counts)
                value, least, most = (low + (1 + each) / 2 * (high - low) for each in means)
                yield of, (value, least, most)

    def _parts(self, find: Callable[[Ints], Ints], places: Ints) -> Iterator[tuple[Block, Form, Ints | slice]]:
        """Yield each block with the rows whose places are in it."""
        if len(self._blocks) == 1:
            yield *self._blocks[0], slice(None)
            return
        of = find(places)
        for number, (block, form) in enumerate(self._blocks):
            yield block, form, rows_where(of == number)


def _statistics(block: Block) -> slice:
    return slice(block.first_statistic, block.first_statistic + block.statistics)


@lru_cache(maxsize=256)
def questions_of(profile: Profile) -> Questions:
    """Return the questions of a profile."""
    return Questions(profile)
