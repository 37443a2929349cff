# SPDX-License-Identifier: MIT
"""Lies about readings. The coin stays honest, so no private protocol can see them: they are what all other harm is held against."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from peel_core.primitives import READING_ONE
from peel_research.lab.aim import Aim
from peel_research.lab.attacks.record import LabAttack, Needs, Place

__all__ = ["READING_ATTACKS", "TALKATIVE", "TARGET"]

Readings = npt.NDArray[np.int32]

TARGET = 1
"""The category that targeted lies are about."""
TALKATIVE = 20
"""Effort of those whom nothing exposes: what they shift shows above chance only in many reports."""
_NUDGE = READING_ONE // 2

_HONEST_COIN = "The coin is honest for some reading in range. Every private report allows that."


def _extreme(aim: Aim, readings: Readings, _: np.random.Generator) -> Readings:
    return np.full_like(readings, READING_ONE if aim.signed else TARGET)


def _nudged(aim: Aim, readings: Readings, rng: np.random.Generator) -> Readings:
    """Half of the readings of categories and thresholds are those of `_extreme`: they cannot move by less."""
    if _is_a_range(aim):
        return np.minimum(readings + _NUDGE, READING_ONE).astype(np.int32)
    replaced = rng.random((len(readings), 1)) < 0.5
    return np.where(replaced, _extreme(aim, readings, rng), readings).astype(np.int32)


def _random(aim: Aim, readings: Readings, rng: np.random.Generator) -> Readings:
    """A random number is above some of the ascending thresholds, and not above the rest."""
    if aim.signed and not _is_a_range(aim):
        passed = rng.integers(0, readings.shape[1] + 1, (len(readings), 1))
        return np.where(np.arange(readings.shape[1]) < passed, READING_ONE, -READING_ONE).astype(np.int32)
    low, high = (-READING_ONE, READING_ONE) if aim.signed else (0, aim.block.domain - 1)
    return rng.integers(low, high + 1, readings.shape).astype(np.int32)


def _is_a_range(aim: Aim) -> bool:
    """Whether readings may lie anywhere between two ends; not those of categories and thresholds."""
    return aim.signed and all(aim.profile.questions[place].threshold is None for place in aim.questions)


_lie = partial(LabAttack, place=Place.READING, needs=Needs.SENSOR, layer=None, why=_HONEST_COIN, effort=TALKATIVE)

READING_ATTACKS = (
    _lie(
        name="false_reading_DIPA",
        help="Sensors that always claim the upper end of the range, or one category (PoisonCatcher: deliberate input poisoning).",
        lie=_extreme,
    ),
    _lie(
        name="nudged_reading",
        help="Readings moved up by a quarter of the range; half of the categories, or of the answers to thresholds, replaced.",
        lie=_nudged,
    ),
    _lie(
        name="random_reading",
        help="Readings made up at random.",
        lie=_random,
    ),
    _lie(
        name="real_devices_replaced",
        help="The attacker's own boards with the bundles of real devices, which fall silent; their readings are false.",
        place=Place.FLEET,
        needs=Needs.KEYS,
        why="The gateway knows a device by its keys alone. An attacker who is the only one to use them is that device, and lies here.",
        lie=_extreme,
    ),
)
