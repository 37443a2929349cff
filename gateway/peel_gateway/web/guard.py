# SPDX-License-Identifier: MIT
"""Who may ask: whoever has the token, or, without one, whoever asks from this machine."""

from __future__ import annotations

import ipaddress

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from peel_core import Secret
from peel_gateway.web.limits import HEALTH
from peel_gateway.web.session import has_session, is_token

__all__ = ["Guard", "is_loopback", "require_same_origin"]


class Guard:
    """Lets a request through when it has the token, or, without one, when it was meant for this machine.

    Without a token the Host header must name loopback: a web page elsewhere could otherwise point a name of its own at
    127.0.0.1 and read the answers with its visitor's browser. /healthz tells strangers whether all is well, not why.

    Parameters
    ----------
    public : set of str
        Paths that say nothing of the fleet: with a token they are open to whoever wants to log in.
    """

    def __init__(self, app: ASGIApp, token: Secret | None, public: frozenset[str]) -> None:
        self._app = app
        self._token = token
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        trusted = scope["peel_trusted"] = self._trusts(Request(scope))
        if trusted or scope["path"] == HEALTH or (self._token is not None and scope["path"] in self._public):
            await self._app(scope, receive, send)
        else:
            await self._refusal()(scope, receive, send)

    def _refusal(self) -> JSONResponse:
        if self._token is None:
            return JSONResponse({"error": "use the address 127.0.0.1 or the name localhost"}, status_code=421)
        return JSONResponse(
            {"error": "log in at /, or send the token as: Authorization: Bearer <token>"},
            status_code=401,
            headers={"www-authenticate": "Bearer"},
        )

    def _trusts(self, request: Request) -> bool:
        if self._token is None:
            return is_loopback(_host_name(request.headers.get("host", "")))
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        bears = is_token(given.strip(), self._token) and scheme.lower() == "bearer"
        return bears or has_session(request.cookies, self._token)


def require_same_origin(request: Request) -> None:
    """Refuse what another site makes a visitor's browser send; programs, which name no origin, are not browsers."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise HTTPException(403, "comes from another site")


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
