# SPDX-License-Identifier: MIT
"""Logging in and out with a browser."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from peel_core import Secret
from peel_gateway.web.forms import read_form
from peel_gateway.web.guard import client_group, require_same_origin, too_many_attempts
from peel_gateway.web.session import COOKIE, SESSION_SECONDS, Attempts, is_token, new_session

__all__ = ["login_routes"]

_LOGIN = "/login"
_LOGOUT = "/logout"


def login_routes(token: Secret | None) -> list[Route]:
    """The routes; without a token there is nothing to log in to."""
    attempts = Attempts()

    async def get_login(request: Request) -> Response:
        """Whether one is let in as one is: `open`; and whether that is by a browser's session: `session`."""
        is_open = bool(request.scope["peel_trusted"])
        return JSONResponse({"open": is_open, "session": is_open and token is not None and COOKIE in request.cookies})

    async def post_login(request: Request) -> Response:
        """Log in with a browser: takes the token as a form, gives a cookie."""
        require_same_origin(request)
        address = client_group(request)
        given = (await read_form(request)).get("token", "")
        # No await from here on: of many requests at once, no more are judged than the limit allows.
        if not attempts.may_try(address):
            raise too_many_attempts()
        if token is not None and not is_token(given.strip(), token):
            attempts.failed(address)
            raise HTTPException(401, "that is not the token")
        answer = JSONResponse({"status": "ok"})
        if token is not None:
            _set_cookie(answer, request, new_session(token), SESSION_SECONDS)
        return answer

    async def post_logout(request: Request) -> Response:
        """Log out: the cookie is taken back."""
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
