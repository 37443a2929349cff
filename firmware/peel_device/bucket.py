# SPDX-License-Identifier: MIT
"""A token bucket: `rate` tokens per period, saved up to `capacity`.

Integers only: each millisecond brings `rate` units, and one token is as many units as the period has milliseconds.

The clock shows whole milliseconds, so two moments may lie up to one millisecond less apart than it says. For that the
period is taken one millisecond longer than it is.
"""

MICRO = 1000000


class Bucket:
    """Tokens that grow with time. Starts empty; `start` puts back what was saved."""

    def __init__(self, rate: int, period_s: int, capacity: int) -> None:
        self._rate = rate
        self._token = period_s * 1000 + 1
        self._full = capacity * self._token
        self._level = 0
        self._at = 0

    def start(self, now: int, micro_tokens: int) -> None:
        """Begin at time `now` with millionths of a token, cut off at the capacity."""
        self._at = now
        self._level = min(self._full, micro_tokens * self._token // MICRO)

    def fill(self, now: int) -> None:
        """Add what the time since the last call has brought."""
        self.credit(now - self._at)
        self._at = now

    def credit(self, milliseconds: int) -> None:
        """Add what this much time brings."""
        self._level = min(self._full, self._level + milliseconds * self._rate)

    def take(self, most: int) -> int:
        """Take as many whole tokens as there are, at most so many; return how many."""
        tokens = max(0, min(most, self._level // self._token))
        self._level -= tokens * self._token
        return tokens

    def owe(self, tokens: int) -> None:
        """Take tokens that may not be there: the level falls below zero, and time pays."""
        self._level -= tokens * self._token

    def give_back(self, tokens: int) -> None:
        """Undo a `take` whose numbers were not handed out."""
        self._level = min(self._full, self._level + tokens * self._token)

    def wait(self) -> int:
        """Milliseconds until there is a whole token."""
        missing = self._token - self._level
        return max(0, -(-missing // self._rate))

    def micro_tokens(self) -> int:
        """The level in millionths of a token, rounded down; negative while something is owed."""
        return self._level * MICRO // self._token
