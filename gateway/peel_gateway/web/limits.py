# SPDX-License-Identifier: MIT
"""Limits of requests: their length, and how many are answered at a time. /healthz is always answered."""

from __future__ import annotations

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["HEALTH", "MOST_HEAD_BYTES", "MOST_QUERY_BYTES", "Limits"]

HEALTH = "/healthz"
MOST_QUERY_BYTES = 4096
"""Path and query of a request together. All parameters of a path fit, each at its longest and percent-encoded."""
MOST_HEAD_BYTES = 8192
_MOST_AT_ONCE = 64
"""Requests that are being answered at a time. A few have a thread, the others wait for one."""


class Limits:
    """Refuses a request that is too long, and one too many at a time, before any work is done for it.

    It comes after the guard, so that strangers take no place from those who have the token.

    Parameters
    ----------
    unlimited : tuple of str
        Paths that take no place, because they need no thread: each connection has at most one request at a time.
    """

    def __init__(self, app: ASGIApp, unlimited: tuple[str, ...] = ()) -> None:
        self._app = app
        self._unlimited = (HEALTH, *unlimited)
        self._answering = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif len(scope["raw_path"]) + len(scope["query_string"]) > MOST_QUERY_BYTES:
            await _refuse(414, f"path and query have at most {MOST_QUERY_BYTES} bytes")(scope, receive, send)
        elif sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEAD_BYTES:
            await _refuse(431, f"headers have at most {MOST_HEAD_BYTES} bytes")(scope, receive, send)
        elif scope["path"] in self._unlimited:
            await self._app(scope, receive, send)
        elif self._answering >= _MOST_AT_ONCE:
            await _refuse(503, f"{_MOST_AT_ONCE} requests are being answered; ask again later")(scope, receive, send)
        else:
            self._answering += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._answering -= 1


def _refuse(code: int, error: str) -> JSONResponse:
    return JSONResponse({"error": error}, status_code=code, headers={"retry-after": "1"} if code == 503 else None)
