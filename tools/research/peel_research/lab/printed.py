# SPDX-License-Identifier: MIT
"""Figures printed in the PEEL paper (Shuai et al. 2025, its table of estimated attack ratios): 5% poisoned, epsilon 1.

Each entry has the figure for the weather data and that for a smart-building set, which is not public. Defences that the paper marks as not
applicable are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["PRINTED_RATIOS", "Printed"]


class Printed(NamedTuple):
    """Estimated share of poisoned devices in percent."""

    weather: float
    building: float


PRINTED_RATIOS: Mapping[tuple[str, str], Mapping[str, Printed]] = {
    ("Laplace", "rule"): {
        "expert": Printed(8.66, 8.54),
        "PoisonCatcher": Printed(5, 4.94),
        "PEEL": Printed(5, 5),
    },
    ("Laplace", "output"): {
        "expert": Printed(9.35, 8.83),
        "PoisonCatcher": Printed(5, 4.89),
        "PEEL": Printed(5, 5),
    },
    ("kRR", "rule"): {
        "expert": Printed(6.72, 6.31),
        "PoisonCatcher": Printed(4.99, 4.93),
        "PEEL": Printed(5, 5),
    },
    ("kRR", "output"): {
        "expert": Printed(8.62, 8.01),
        "LDPGuard": Printed(38.2, 35.67),
        "PoisonCatcher": Printed(5, 4.96),
        "PEEL": Printed(5, 5),
    },
}
"""(mechanism, attack) -> defence -> what is printed."""
