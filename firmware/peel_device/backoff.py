# SPDX-License-Identifier: MIT
"""Exponential back-off with jitter, so that a fleet does not reconnect all at once."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


class Backoff:
    """The pauses between attempts: they double from `first_ms` up to `last_ms`."""

    def __init__(self, random: "Callable[[int], bytes]", first_ms: int, last_ms: int) -> None:
        self._random = random
        self._first = self._ceiling = first_ms
        self._last = last_ms

    def reset(self) -> None:
        """Start again with the first pause, after an attempt that succeeded."""
        self._ceiling = self._first

    def next(self) -> int:
        """Return the milliseconds to wait, between half the ceiling and the ceiling; then double the ceiling."""
        half = self._ceiling // 2
        self._ceiling = min(self._last, 2 * self._ceiling)
        return half + int.from_bytes(self._random(4), "little") % (half + 1)
