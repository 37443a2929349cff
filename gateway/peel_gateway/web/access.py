# SPDX-License-Identifier: MIT
"""Access control: requests need the token or a browser's session; without a token they must be addressed to this machine.

A browser's event stream cannot send a bearer token, so a browser logs in once and gets a cookie. The cookie holds its expiry time and
a MAC of that time with the token as key. The gateway therefore stores no sessions, and a new token ends all of them. Scripts cannot
read the cookie (http-only), and browsers do not send it with requests that other sites make (same-site strict).
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Mapping
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from peel_core import Secret
from peel_gateway.queries.responses import Access
from peel_gateway.web.limits import HEALTH, address_group, is_loopback, refusal

__all__ = [
    "COOKIE",
    "SESSION_SECONDS",
    "Attempts",
    "Guard",
    "has_session",
    "login_routes",
    "new_session",
    "read_form",
    "require_same_origin",
]

COOKIE = "peel_session"
SESSION_SECONDS = 7 * 86400
_LABEL = b"peel gateway session 1\0"
_MOST_GUESSES = 20
"""Wrong bearer tokens of an address in a minute."""
_MOST_FORM_BYTES = 4096
_LOGIN = "/login"
_LOGOUT = "/logout"


def _is_token(given: str, token: Secret) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode(), token.reveal())


def new_session(token: Secret, now: float | None = None) -> str:
    """Return the value of a cookie that is valid for `SESSION_SECONDS`."""
    until = str(int((time.time() if now is None else now) + SESSION_SECONDS))
    return f"{until}.{_mac(token, until)}"


def has_session(cookies: Mapping[str, str], token: Secret, now: float | None = None) -> bool:
    """Whether the session cookie was made with this token and has not expired."""
    until, _, mac = cookies.get(COOKIE, "").partition(".")
    genuine = hmac.compare_digest(mac.encode(), _mac(token, until).encode())
    return genuine and int(until) > (time.time() if now is None else now)


def _mac(token: Secret, until: str) -> str:
    return hmac.new(token.reveal(), _LABEL + until.encode(), hashlib.sha256).hexdigest()


class Attempts:
    """Failed logins per address. After `most` of them within `seconds`, the address has to wait."""

    def __init__(self, *, most: int = 5, seconds: float = 60.0, addresses: int = 1024) -> None:
        self._most = most
        self._seconds = seconds
        self._addresses = addresses
        self._failed: OrderedDict[str, list[float]] = OrderedDict()

    def may_try(self, address: str) -> bool:
        """Whether the address has attempts left."""
        begin = time.monotonic() - self._seconds
        recent = [at for at in self._failed.get(address, []) if at > begin]
        return len(recent) < self._most

    def failed(self, address: str) -> None:
        """Record a failure. Beyond `addresses` addresses, the one that failed longest ago is dropped."""
        self._failed[address] = [*self._failed.get(address, [])[-self._most + 1 :], time.monotonic()]
        self._failed.move_to_end(address)
        while len(self._failed) > self._addresses:
            self._failed.popitem(last=False)


class Guard:
    """Middleware that lets a request through when it has the token, or, without one, when it is addressed to this machine.

    Without a token the Host header must name loopback. Otherwise a web page elsewhere could point its own name at 127.0.0.1 and
    read the responses with its visitor's browser. /healthz tells strangers whether the gateway is well, not why.

    An address that has sent too many wrong tokens must wait, even with the right token, so that it cannot go on guessing.
    Browser sessions and other addresses are not affected.

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
            return refusal(421, "use the address 127.0.0.1 or the name localhost")
        if _bearer_token(request) is not None and not self._guesses.may_try(_client_group(request)):
            error = _too_many_attempts()
            return refusal(error.status_code, error.detail, error.headers)
        needed = "log in at /, or send the token as: Authorization: Bearer <token>"
        return refusal(401, needed, {"www-authenticate": "Bearer"})

    def _trusts(self, request: Request) -> bool:
        if self._token is None:
            return is_loopback(_host_name(request.headers.get("host", "")))
        if has_session(request.cookies, self._token):
            return True
        given, group = _bearer_token(request), _client_group(request)
        if given is None or not self._guesses.may_try(group):
            return False
        if _is_token(given, self._token):
            return True
        self._guesses.failed(group)
        return False


def _bearer_token(request: Request) -> str | None:
    """Return the token in the Authorization header; None without one."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def _client_group(request: Request) -> str:
    return address_group(request.client.host if request.client else "")


def _too_many_attempts() -> HTTPException:
    return HTTPException(429, "too many wrong tokens from this address; wait a minute", {"retry-after": "60"})


def _host_name(host: str) -> str:
    """Return a Host header without its port: localhost:8420, [::1]:8420."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def require_same_origin(request: Request) -> None:
    """Refuse a request that another site made the visitor's browser send. Programs send no Origin header and pass."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise HTTPException(403, f"the request comes from another site ({origin}); open the page of this gateway")


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a request's body; the last one where a name occurs twice.

    The server drops the connection of a body that arrives too slowly (`limits`).
    """
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MOST_FORM_BYTES:
                raise HTTPException(
                    413, f"the body has more than {_MOST_FORM_BYTES} bytes; send only the form's fields"
                )
    except ClientDisconnect:
        raise HTTPException(400, "the connection ended before the body did") from None
    return dict(parse_qsl(body.decode("utf-8", "replace")))


def login_routes(token: Secret | None) -> list[Route]:
    """Return the routes for logging in and out. Without a token every login succeeds."""
    attempts = Attempts()

    async def get_login(request: Request) -> Response:
        """Whether this client has access (`open`), and whether it has it through a browser session (`session`)."""
        is_open = bool(request.scope["peel_trusted"])
        access: Access = {"open": is_open, "session": is_open and token is not None and COOKIE in request.cookies}
        return JSONResponse(access)

    async def post_login(request: Request) -> Response:
        """Log in with a browser: takes the token as a form, sets a cookie."""
        require_same_origin(request)
        address = _client_group(request)
        given = (await read_form(request)).get("token", "")
        # No await from here on: many requests at once get no more guesses than the limit allows.
        if not attempts.may_try(address):
            raise _too_many_attempts()
        if token is not None and not _is_token(given.strip(), token):
            attempts.failed(address)
            raise HTTPException(401, "wrong token; it is http.token in the gateway's settings")
        answer = JSONResponse({"status": "ok"})
        if token is not None:
            _set_cookie(answer, request, new_session(token), SESSION_SECONDS)
        return answer

    async def post_logout(request: Request) -> Response:
        """Log out: deletes the cookie."""
        require_same_origin(request)
        answer = JSONResponse({"status": "ok"})
        _set_cookie(answer, request, "", 0)
        return answer

    return [
        Route(_LOGIN, get_login),
        Route(_LOGIN, post_login, methods=["POST"]),
        Route(_LOGOUT, post_logout, methods=["POST"]),
    ]


def _set_cookie(answer: Response, request: Request, value: str, seconds: int) -> None:
    secure = request.url.scheme == "https"  # as the proxy of http.proxy says
    answer.set_cookie(COOKIE, value, max_age=seconds, httponly=True, samesite="strict", secure=secure)
