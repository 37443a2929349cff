# SPDX-License-Identifier: MIT
"""When to resend reports that the broker has acknowledged and the gateway has not confirmed.

A device that stays awake waits 30 to 60 s for a receipt, then twice as long each time, up to an hour. The wait begins
when a report becomes the oldest unconfirmed one, so receipts for newer ones do not delay it.

Deep sleep loses the time. There each wake resends everything with probability 1/n, where n is the number of unconfirmed
reports (at least 4). The longer the gateway is silent, the rarer a resend. On average a wake resends one report, without
a write to flash.
"""

from peel_device.backoff import Backoff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

    from peel_device.interfaces import Clock

FIRST_MS = 60000
LAST_MS = 3600000
WAKES_MIN = 4


class Resend:
    """The pauses between resends of a device that stays awake."""

    def __init__(self, clock: "Clock", random: "Callable[[int], bytes]") -> None:
        self._clock = clock
        self._backoff = Backoff(random, FIRST_MS, LAST_MS)
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
