# SPDX-License-Identifier: MIT
"""When to send again what the broker has taken and the gateway has not confirmed.

A device that stays awake waits half a minute to a minute for a receipt, then twice as long each time, up to an hour:
counted from when the oldest report that waits became the oldest, so that receipts for newer ones do not put it off.

Deep sleep forgets the time. There each wake sends everything again with a chance of one in as many as there are reports
waiting (at least 4): the longer the gateway stays silent the more there are, so pauses grow, and on average a wake
sends one report twice, without a note on flash.
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
    """The pauses of a device that stays awake."""

    def __init__(self, clock: "Clock", random: "Callable[[int], bytes]") -> None:
        self._clock = clock
        self._backoff = Backoff(random, FIRST_MS, LAST_MS)
        self._oldest: int | None = None
        self._at = 0

    def due(self, oldest: int | None) -> bool:
        """Whether to send again now; `oldest` is the number of the oldest report that waits for its receipt, if any."""
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
    """Whether a device that woke from deep sleep sends again what waits for receipts."""
    return waiting > 0 and int.from_bytes(random(4), "little") % max(WAKES_MIN, waiting) == 0
