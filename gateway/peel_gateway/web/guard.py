# SPDX-License-Identifier: MIT
"""Access control: requests need the token, or, where none is set, must be addressed to this machine."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from peel_core import Secret
from peel_gateway.web.addresses import address_group, is_loopback
from peel_gateway.web.limits import HEALTH
from peel_gateway.web.session import Attempts, has_session, is_token

__all__ = ["Guard", "client_group", "require_same_origin", "too_many_attempts"]

_MOST_GUESSES = 20
"""Wrong bearer tokens of an address in a minute."""


class Guard:
    """Lets a request through when it has the token, or, without one, when it was meant for this machine.

    Without a token the Host header must name loopback: a web page elsewhere could otherwise point a name of its own at
    127.0.0.1 and read the answers with its visitor's browser. /healthz tells strangers whether all is well, not why.

    An address that has sent too many wrong tokens has to wait, even with the right one: a guess must not be judged. Browsers'
    sessions and other addresses go on meanwhile.

    Parameters
    ----------
    public : set of str
        Paths that say nothing about the fleet. They are open without the token, so that browsers can log in.
    """

    def __init__(self, app: ASGIApp, token: Secret | None, public: frozenset[str]) -> None:
        self._app = app
        self._token = token
        self._public = public
        self._guesses = Attempts(most=_MOST_GUESSES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        trusted = scope["peel_trusted"] = self._trusts(request)
        if trusted or scope["path"] == HEALTH or (self._token is not None and scope["path"] in self._public):
            await self._app(scope, receive, send)
        else:
            await self._refusal(request)(scope, receive, send)

    def _refusal(self, request: Request) -> JSONResponse:
        if self._token is None:
            return JSONResponse({"error": "use the address 127.0.0.1 or the name localhost"}, status_code=421)
        if _bearer_token(request) is not None and not self._guesses.may_try(client_group(request)):
            error = too_many_attempts()
            return JSONResponse({"error": error.detail}, error.status_code, error.headers)
        return JSONResponse(
            {"error": "log in at /, or send the token as: Authorization: Bearer <token>"},
            status_code=401,
            headers={"www-authenticate": "Bearer"},
        )

    def _trusts(self, request: Request) -> bool:
        if self._token is None:
            return is_loopback(_host_name(request.headers.get("host", "")))
        if has_session(request.cookies, self._token):
            return True
        given, group = _bearer_token(request), client_group(request)
        if given is None or not self._guesses.may_try(group):
            return False
        if is_token(given, self._token):
            return True
        self._guesses.failed(group)
        return False


def _bearer_token(request: Request) -> str | None:
    """Return the token in the Authorization header; None without one."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def client_group(request: Request) -> str:
    """Return what limits per address count this client by."""
    return address_group(request.client.host if request.client else "")


def too_many_attempts() -> HTTPException:
    """Make the refusal of an address that has sent too many wrong tokens."""
    return HTTPException(429, "too many wrong tokens from this address; wait a minute", {"retry-after": "60"})


def require_same_origin(request: Request) -> None:
    """Refuse what another site makes a visitor's browser send; programs, which name no origin, are not browsers."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise HTTPException(403, "comes from another site")


def _host_name(host: str) -> str:
    """A Host header without its port: localhost:8420, [::1]:8420."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
