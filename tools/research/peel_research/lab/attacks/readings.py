# SPDX-License-Identifier: MIT
"""Lies about readings. The coin stays honest, so no private protocol can see them: they are what all other harm is held against."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from peel_core import Profile
from peel_core.primitives import READING_ONE
from peel_research.lab.attacks.record import LabAttack, Needs, Place
from peel_research.lab.single import block_of, is_categorical

__all__ = ["READING_ATTACKS", "TALKATIVE", "TARGET"]

Readings = npt.NDArray[np.int32]

TARGET = 1
"""The category that targeted lies are about."""
TALKATIVE = 20
"""Effort of those whom nothing exposes: what they shift shows above chance only in many reports."""
_NUDGE = READING_ONE // 2

_HONEST_COIN = "The coin is honest for some reading in range. Every private report allows that."


def _extreme(profile: Profile, readings: Readings, _: np.random.Generator) -> Readings:
    return np.full_like(readings, TARGET if is_categorical(profile) else READING_ONE)


def _nudged(profile: Profile, readings: Readings, rng: np.random.Generator) -> Readings:
    if is_categorical(profile):
        return np.where(rng.random(readings.shape) < 0.5, TARGET, readings).astype(np.int32)
    return np.minimum(readings + _NUDGE, READING_ONE).astype(np.int32)


def _random(profile: Profile, readings: Readings, rng: np.random.Generator) -> Readings:
    low, high = (0, block_of(profile).domain - 1) if is_categorical(profile) else (-READING_ONE, READING_ONE)
    return rng.integers(low, high + 1, readings.shape).astype(np.int32)


_lie = partial(LabAttack, place=Place.READING, needs=Needs.SENSOR, layer=None, why=_HONEST_COIN, effort=TALKATIVE)

READING_ATTACKS = (
    _lie(
        name="false_reading_DIPA",
        help="Sensors that always claim the upper end of the range, or one category (PoisonCatcher: deliberate input poisoning).",
        lie=_extreme,
    ),
    _lie(
        name="nudged_reading",
        help="Readings moved up by a quarter of the range, half of the categories replaced.",
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
