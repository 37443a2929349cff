# SPDX-License-Identifier: MIT
"""Pauses that double, with jitter so that a fleet does not come back all at once."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable


class Backoff:
    """How long to wait before the next attempt."""

    def __init__(self, random: "Callable[[int], bytes]", first_ms: int, last_ms: int) -> None:
        self._random = random
        self._first = self._ceiling = first_ms
        self._last = last_ms

    def reset(self) -> None:
        """The attempt succeeded."""
        self._ceiling = self._first

    def next(self) -> int:
        """Milliseconds to wait: between half the ceiling and the ceiling, which doubles."""
        half = self._ceiling // 2
        self._ceiling = min(self._last, 2 * self._ceiling)
        return half + int.from_bytes(self._random(4), "little") % (half + 1)
