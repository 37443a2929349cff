# SPDX-License-Identifier: MIT
"""Readings for a machine without sensors: a trace per attribute of a bundle, the same for the same seed."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

__all__ = ["simulated_sensors"]

_LENGTH = 240


def simulated_sensors(bundle: Mapping[str, Any], seed: int) -> dict[str, dict[str, Any]]:
    """An entry per sensor, as bundles have them: a wave within the attribute's range with a little noise, or categories at random."""
    profile = bundle["profile"]
    count = profile.get("domain") or len(profile.get("categories") or ())
    sensors = {}
    for attribute in profile["attributes"]:
        draw = random.Random(f"{seed}/{bundle['device']}/{attribute['name']}")
        values = [draw.randrange(count) for _ in range(_LENGTH)] if count else _wave(attribute, draw)
        sensors[attribute["name"]] = {"kind": "trace", "values": values}
    return sensors


def _wave(attribute: Mapping[str, Any], draw: random.Random) -> list[float]:
    low, span = attribute["low"], attribute["high"] - attribute["low"]
    level, swing, phase = draw.uniform(0.3, 0.7), draw.uniform(0.0, 0.2), draw.uniform(0.0, math.tau)
    shares = (
        level + swing * math.sin(phase + math.tau * place / _LENGTH) + draw.gauss(0.0, 0.02) for place in range(_LENGTH)
    )
    return [round(low + span * share, 4) for share in shares]
