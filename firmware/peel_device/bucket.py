# SPDX-License-Identifier: MIT
"""The token bucket of SPEC section 10: at most `quota` report numbers per `period`, saved up to at most `quota`.

Integers only: one token is `period` (in ms) units, and each millisecond brings `quota` units.
"""

MICRO = 1000000


class Bucket:
    """Tokens that grow with time. Starts empty; `restore` puts back what was saved."""

    def __init__(self, quota: int, period_s: int, capacity: int) -> None:
        self._rate = quota
        self._token = period_s * 1000
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

    def take(self, tokens: int) -> bool:
        """Take tokens if there are as many."""
        if self._level < tokens * self._token:
            return False
        self._level -= tokens * self._token
        return True

    def owe(self, tokens: int) -> None:
        """Take tokens that may not be there: the level falls below zero, and time pays."""
        self._level -= tokens * self._token

    def give_back(self, tokens: int) -> None:
        """Undo a `take` whose numbers were not handed out."""
        self._level = min(self._full, self._level + tokens * self._token)

    def wait(self, tokens: int) -> int:
        """Milliseconds until `take` would succeed."""
        missing = tokens * self._token - self._level
        return max(0, -(-missing // self._rate))

    def micro_tokens(self) -> int:
        """The level in millionths of a token, rounded down; negative while something is owed."""
        return self._level * MICRO // self._token
