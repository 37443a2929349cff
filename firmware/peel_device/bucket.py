# SPDX-License-Identifier: MIT
"""A token bucket: `rate` tokens per period, saved up to `capacity`.

Integers only: each millisecond adds `rate` units, and one token is as many units as the period has milliseconds.

The clock shows whole milliseconds, so two events may be up to one millisecond closer than it says. The period is
therefore taken as one millisecond longer.
"""

MICRO = 1000000


class Bucket:
    """Tokens that grow with time. Starts empty; `start` restores a saved level."""

    def __init__(self, rate: int, period_s: int, capacity: int) -> None:
        self._rate = rate
        self._token = period_s * 1000 + 1
        self._full = capacity * self._token
        self._level = 0
        self._at = 0

    def start(self, now: int, micro_tokens: int) -> None:
        """Begin at time `now` with this many millionths of a token, limited to the capacity."""
        self._at = now
        self._level = min(self._full, micro_tokens * self._token // MICRO)

    def fill(self, now: int) -> None:
        """Add the tokens of the time since the last call."""
        self.credit(now - self._at)
        self._at = now

    def credit(self, milliseconds: int) -> None:
        """Add the tokens of this much time."""
        self._level = min(self._full, self._level + milliseconds * self._rate)

    def take(self, most: int) -> int:
        """Take as many whole tokens as there are, at most `most`, and return how many."""
        tokens = max(0, min(most, self._level // self._token))
        self._level -= tokens * self._token
        return tokens

    def owe(self, tokens: int) -> None:
        """Take tokens that may not be there. The level may fall below zero until time has paid."""
        self._level -= tokens * self._token

    def give_back(self, tokens: int) -> None:
        """Undo a `take` whose numbers were not handed out."""
        self._level = min(self._full, self._level + tokens * self._token)

    def wait(self) -> int:
        """Return the milliseconds until there is a whole token."""
        missing = self._token - self._level
        return max(0, -(-missing // self._rate))

    def micro_tokens(self) -> int:
        """Return the level in millionths of a token, rounded down; negative while tokens are owed."""
        return self._level * MICRO // self._token
