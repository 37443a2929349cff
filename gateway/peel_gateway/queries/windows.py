# SPDX-License-Identifier: MIT
"""Windows: the spans of time up to now that published estimates are over."""

from __future__ import annotations

__all__ = ["LONGER", "window_name", "windows"]

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))

LONGER = (6 * 3600, 24 * 3600, 7 * 86_400, 30 * 86_400)
"""Seconds of the windows to fall back to where a shorter one has too few reports."""


def windows(shortest: int) -> tuple[int, ...]:
    """Return the windows to choose from, in seconds, the shortest first."""
    return (shortest, *(seconds for seconds in LONGER if seconds > shortest))


def window_name(seconds: int) -> str:
    """Return a window in the largest unit that divides it: 3600 is "1h", 86400 is "1d"."""
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return f"{seconds // size}{unit}"
