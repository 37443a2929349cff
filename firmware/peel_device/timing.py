# SPDX-License-Identifier: MIT
"""Time: a clock that never wraps and never goes back, back-off with jitter, and when to resend unconfirmed reports.

Unconfirmed reports are those that the broker has acknowledged and the gateway has not. A device that stays awake waits 30
to 60 s for a receipt, then twice as long each time, up to an hour. The wait begins when a report becomes the oldest
unconfirmed one, so receipts for newer ones do not delay it.

Deep sleep loses the time. There each wake resends everything with probability 1/n, where n is the number of unconfirmed
reports (at least 4). The longer the gateway is silent, the rarer a resend. On average a wake resends one report, without
a write to flash.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from peel_device.interfaces import Clock

RESEND_FIRST_MS = 60000
RESEND_LAST_MS = 3600000
WAKES_MIN = 4


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


class Resend:
    """The pauses between resends of a device that stays awake."""

    def __init__(self, clock: "Clock", random: "Callable[[int], bytes]") -> None:
        self._clock = clock
        self._backoff = Backoff(random, RESEND_FIRST_MS, RESEND_LAST_MS)
        self._oldest: int | None = None
        self._at = 0

    def due(self, oldest: int | None) -> bool:
        """Whether to resend now. `oldest` is the number of the oldest unconfirmed report, if any."""
        now = self._clock.now()
        known = oldest == self._oldest
        if known and (oldest is None or now < self._at):
            return False
        if not known:
            self._oldest = oldest
            self._backoff.reset()
        self._at = now + self._backoff.next()
        return known


def after_waking(random: "Callable[[int], bytes]", waiting: int) -> bool:
    """Whether a device that woke from deep sleep resends its unconfirmed reports."""
    return waiting > 0 and int.from_bytes(random(4), "little") % max(WAKES_MIN, waiting) == 0
