# SPDX-License-Identifier: MIT
"""Attacks after one attribute (MGA: the maximal gain attack of Cao, Jia and Gong 2021), and those who know what exposes it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from peel_core.kinds import CHOICE, HASHED, SIGN
from peel_gateway.model.verdict import Layer
from peel_research.lab.attacks.readings import TALKATIVE, TARGET
from peel_research.lab.attacks.record import Course, LabAttack, Needs, Place

__all__ = ["TARGET_ATTACKS"]

_QUESTION = 0
_WASTEFUL = [1] * 60 + [-1] * 5 + [1, -1] * 14
"""Pushes, gives a little back, and says plus and minus in turn: what a bet on the last few reports alone loses by, and a push does not."""


def _whatever_is_assigned(course: Course) -> Course:
    return course.saying(_QUESTION, 1).everywhere()


def _when_assigned(course: Course) -> Course:
    """Honest about all other questions."""
    if not course.aim.signed:
        return course.saying(course.symbol(TARGET), 1)
    return course.saying(course.unit, np.where(course.unit == _QUESTION, 1, course.sign))


def _waiting_for_it(course: Course) -> Course:
    """Numbers that assign another question are thrown away."""
    mine = course.unit == _QUESTION if course.aim.signed else True
    return replace(_when_assigned(course), sent=course.aimed & mine)


def _wasting_reports(course: Course) -> Course:
    """Honest about all other questions."""
    mine = course.aimed & (course.unit == _QUESTION)
    pattern = np.array(_WASTEFUL)[(np.cumsum(mine, axis=1) - 1) % len(_WASTEFUL)]
    return course.saying(course.unit, np.where(mine, pattern, course.sign))


def _random_output(course: Course) -> Course:
    """Any codeword, evenly: the random perturbed value of Cao, Jia and Gong."""
    shape = course.unit.shape
    sign = np.where(course.chance(0.5), 1, -1) if course.aim.signed else 1
    return course.saying(course.rng.integers(0, course.aim.k, shape), sign)


def _any_column(course: Course) -> Course:
    """Any column of the profile, evenly; of a sign, plus or minus."""
    column, sign = course.aim.outputs
    drawn = course.rng.integers(0, course.aim.k, course.unit.shape)
    has_minus = np.isin(drawn, column[sign < 0])
    return course.saying(drawn, np.where(has_minus & course.chance(0.5), -1, 1))


_coin = partial(LabAttack, place=Place.COIN, needs=Needs.KEYS, least_questions=2)

TARGET_ATTACKS = (
    _coin(
        name="always_target_MGA",
        help="Plus for one attribute, or one category, whatever the number assigns.",
        layer=Layer.SUPPORT,
        why="The number assigns the attribute, through a key that the device cannot choose.",
        say=_whatever_is_assigned,
    ),
    _coin(
        name="always_target_when_assigned",
        help="MGA within the assignment: plus whenever the attribute is assigned, honest otherwise.",
        layer=Layer.STATISTICS,
        why="Each attribute has its own bet. It takes about a hundred reports of that attribute.",
        say=_when_assigned,
        forms=frozenset({SIGN}),
        effort_each=2,
    ),
    _coin(
        name="one_attribute_wasting_reports",
        help="One attribute is pushed by 1.3 times a lie. Then plus and minus alternate, so that the bet on the last sign loses.",
        layer=Layer.STATISTICS,
        why="The bet on an attribute remembers a lead of 32, so wasted reports must first undo most of the push.",
        say=_wasting_reports,
        forms=frozenset({SIGN}),
        effort_each=26,
    ),
    _coin(
        name="always_target_skipping_numbers",
        help="MGA that throws away the numbers of all other attributes.",
        layer=Layer.STATISTICS,
        why="Every number assigns an attribute, sent or not. The gaps contain the other attributes too often.",
        say=_waiting_for_it,
        effort_each=0.6,
    ),
    _coin(
        name="random_report_ROPA",
        help="Any attribute and sign, evenly (PoisonCatcher: randomised output poisoning; Cao, Jia, Gong 2021: RPA).",
        layer=Layer.SUPPORT,
        why="The number assigns the attribute.",
        say=_any_column,
        whole=True,
    ),
    _coin(
        name="random_report_category_ROPA",
        help="Any category or symbol, evenly (PoisonCatcher: randomised output poisoning; Cao, Jia, Gong 2021: RPA).",
        layer=None,
        why="A device that reads every category equally often sends the same: a lie.",
        say=_random_output,
        forms=frozenset({CHOICE, HASHED}),
        least_questions=1,
        effort=TALKATIVE,
    ),
)
