# SPDX-License-Identifier: MIT
"""Who may ask: whoever has the token, or, without one, whoever asks from this machine."""

from __future__ import annotations

import hmac
import ipaddress

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from peel_core import Secret
from peel_gateway.web.limits import HEALTH

__all__ = ["Guard", "is_loopback"]


class Guard:
    """Lets a request through when it has the token, or, without one, when it was meant for this machine.

    Without a token the Host header must name loopback: a web page elsewhere could otherwise point a name of its own at
    127.0.0.1 and read the answers with its visitor's browser. /healthz tells strangers whether all is well, not why.
    """

    def __init__(self, app: ASGIApp, token: Secret | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        """Why the request goes no further, if it does not; otherwise notes in it whether it is trusted."""
        trusted = scope["peel_trusted"] = self._trusts(Headers(scope=scope))
        if trusted or scope["path"] == HEALTH:
            return None
        if self._token is None:
            return JSONResponse({"error": "use the address 127.0.0.1 or the name localhost"}, status_code=421)
        return JSONResponse(
            {"error": "send the token as: Authorization: Bearer <token>"},
            status_code=401,
            headers={"www-authenticate": "Bearer"},
        )

    def _trusts(self, headers: Headers) -> bool:
        if self._token is None:
            return is_loopback(_host_name(headers.get("host", "")))
        scheme, _, given = headers.get("authorization", "").partition(" ")
        expected = self._token.reveal()
        return hmac.compare_digest(given.strip().encode(), expected) and scheme.lower() == "bearer"


def _host_name(host: str) -> str:
    """A Host header without its port: localhost:8420, [::1]:8420."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def is_loopback(host: str) -> bool:
    """Whether a host's name or address means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
