# SPDX-License-Identifier: MIT
"""Sessions of browsers: the token goes in once, a cookie that was made with it goes on.

A browser's event stream cannot send a bearer token. The cookie is not the token: it says until when it is good, under a MAC with the
token as key, so that nothing has to be kept here and a new token ends all sessions. It is out of reach for scripts (http-only) and for
other sites (same-site strict).
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Mapping

from peel_core import Secret

__all__ = ["COOKIE", "SESSION_SECONDS", "Attempts", "has_session", "is_token", "new_session"]

COOKIE = "peel_session"
SESSION_SECONDS = 7 * 86400
_LABEL = b"peel gateway session 1\0"


def is_token(given: str, token: Secret) -> bool:
    """Whether somebody knows the token; takes as long either way."""
    return hmac.compare_digest(given.encode(), token.reveal())


def new_session(token: Secret, now: float | None = None) -> str:
    """The value of a cookie that is good for `SESSION_SECONDS`."""
    until = str(int((time.time() if now is None else now) + SESSION_SECONDS))
    return f"{until}.{_mac(token, until)}"


def has_session(cookies: Mapping[str, str], token: Secret, now: float | None = None) -> bool:
    """Whether there is a cookie that was made with this token and is still good."""
    until, _, mac = cookies.get(COOKIE, "").partition(".")
    genuine = hmac.compare_digest(mac.encode(), _mac(token, until).encode())
    return genuine and int(until) > (time.time() if now is None else now)


def _mac(token: Secret, until: str) -> str:
    return hmac.new(token.reveal(), _LABEL + until.encode(), hashlib.sha256).hexdigest()


class Attempts:
    """Failed attempts to log in, per address: so many in a while, then the address has to wait."""

    def __init__(self, *, most: int = 5, seconds: float = 60.0, addresses: int = 1024) -> None:
        self._most = most
        self._seconds = seconds
        self._addresses = addresses
        self._failed: OrderedDict[str, list[float]] = OrderedDict()

    def may_try(self, address: str) -> bool:
        """Whether it has attempts left."""
        begin = time.monotonic() - self._seconds
        recent = [at for at in self._failed.get(address, []) if at > begin]
        return len(recent) < self._most

    def failed(self, address: str) -> None:
        """Note that one was in vain; of too many addresses the one that was heard of longest ago is forgotten."""
        self._failed[address] = [*self._failed.get(address, [])[-self._most + 1 :], time.monotonic()]
        self._failed.move_to_end(address)
        while len(self._failed) > self._addresses:
            self._failed.popitem(last=False)
