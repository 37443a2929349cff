# SPDX-License-Identifier: MIT
"""The PEEL paper's own attacks (Shuai et al. 2025): output poisoning by its kernel, rule poisoning with a preserved sum of budgets.

Each once as it is defined, and once as somebody would commit it who knows what exposes it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from peel_core.kinds import CHOICE, HASHED, SIGN
from peel_gateway.model.verdict import Layer
from peel_research.lab.attacks.readings import TALKATIVE
from peel_research.lab.attacks.record import Course, LabAttack, Needs, Place

__all__ = ["PAPER_ATTACKS", "keep_probability", "preserved_budgets"]

Floats = npt.NDArray[np.float64]

_LEAST_BUDGET = 0.05
"""No budget is drawn below this share of the declared one: a device without any would report nothing but noise."""


def keep_probability(epsilon: float, others: int, distance: float = 2.0, sensitivity: float = 2.0) -> float:
    """Return the probability that output poisoning leaves a report unchanged.

    The report z becomes v with probability proportional to exp(-eps |v - z|_1 / f). If the outputs are single entries, signed or
    not, all `others` are at the same distance from z, and the kernel keeps z or draws one of them evenly.
    """
    return float(1 / (1 + others * np.exp(-epsilon * distance / sensitivity)))


def preserved_budgets(devices: int, epsilon: float, rng: np.random.Generator) -> Floats:
    """Budgets of poisoned devices, float64[devices], whose sum is what was declared for all of them."""
    spread = rng.dirichlet(np.full(devices, 1.0)) * devices if devices > 1 else np.ones(1)
    return np.asarray(epsilon * (_LEAST_BUDGET + (1 - _LEAST_BUDGET) * spread))


def _any_output(course: Course) -> Course:
    """The kernel over the whole range of outputs."""
    column, sign = course.aim.outputs
    kept = course.chance(keep_probability(course.profile.epsilon, len(column) - 1))
    other = course.rng.integers(1, len(column), kept.shape)
    minus = course.aim.k + np.searchsorted(column[course.aim.k :], course.index)
    own = np.where(course.sign < 0, minus, course.index)
    drawn = np.where(kept, own, (own + other) % len(column))
    return course.saying(column[drawn], sign[drawn])


def _own_attribute(course: Course) -> Course:
    """The kernel over the two signs of the assigned attribute."""
    kept = course.chance(keep_probability(course.profile.epsilon, 1))
    return course.saying(course.index, np.where(kept, course.sign, -course.sign))


def _hidden_budgets(course: Course) -> Course:
    return course.tossed(_budgets(course))


def _declared_budgets(course: Course) -> Course:
    budgets = _budgets(course)
    return course.tossed(budgets).declaring(budgets)


def _budgets(course: Course) -> Floats:
    """One poisoned device alone has nobody to share with: it halves."""
    budgets = preserved_budgets(len(course.devices), course.profile.epsilon, course.rng)
    return budgets if len(budgets) > 1 else budgets / 2


PAPER_ATTACKS = (
    LabAttack(
        name="output_poisoning_any_attribute",
        help="The paper's output poisoning: another output by its kernel, any attribute and sign.",
        place=Place.COIN,
        needs=Needs.KEYS,
        layer=Layer.SUPPORT,
        why="The number assigns the attribute. Structure sees nothing: every output is a codeword.",
        say=_any_output,
        whole=True,
        least_questions=2,
    ),
    LabAttack(
        name="output_poisoning_own_attribute",
        help="The same kernel by a device that stays with the attribute its number assigns.",
        place=Place.COIN,
        needs=Needs.KEYS,
        layer=None,
        why="It flips an honest coin now and then. That is an honest coin for a reading nearer to the middle: less than a lie.",
        say=_own_attribute,
        forms=frozenset({SIGN}),
        effort=TALKATIVE,
    ),
    LabAttack(
        name="output_poisoning_category",
        help="The paper's output poisoning of categories: another one, or another symbol, by its kernel.",
        place=Place.COIN,
        needs=Needs.KEYS,
        layer=None,
        why="An honest answer replaced evenly is an honest answer about a random reading: a lie. No category comes more often than p.",
        say=_any_output,
        forms=frozenset({CHOICE, HASHED}),
        effort=TALKATIVE,
    ),
    LabAttack(
        name="rule_poisoning_declared",
        help="The paper's rule poisoning: each device has its own epsilon, their sum is the declared one, and the frame carries it.",
        place=Place.COIN,
        needs=Needs.KEYS,
        layer=Layer.RULE,
        why="The frame states the odds that its coin was tossed with, and they are not the profile's.",
        say=_declared_budgets,
    ),
    LabAttack(
        name="rule_poisoning_hidden_DPPA",
        help="The same epsilons behind the right odds (PoisonCatcher: deliberate parameter poisoning).",
        place=Place.COIN,
        needs=Needs.KEYS,
        layer=None,
        why="A smaller epsilon is more noise. A larger one shows only where readings near an end give less noise than any honest coin has.",
        say=_hidden_budgets,
        effort=TALKATIVE,
    ),
)
