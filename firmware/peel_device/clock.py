# SPDX-License-Identifier: MIT
"""Milliseconds since boot that never wrap and never go back."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


class TickClock:
    """A board's tick counter, extended so that it does not wrap. Call `now` at least once per half period of the counter."""

    def __init__(self, ticks: "Callable[[], Any]", difference: "Callable[[Any, Any], int]", ticks_per_ms: int) -> None:
        self._ticks = ticks
        self._difference = difference
        self._per_ms = ticks_per_ms
        self._last = ticks()
        self._elapsed = 0

    def now(self) -> int:
        """Return the milliseconds since this clock was made."""
        ticks = self._ticks()
        step = self._difference(ticks, self._last)
        if step > 0:
            self._elapsed += step
            self._last = ticks
        return self._elapsed // self._per_ms
