# SPDX-License-Identifier: MIT
"""The application: all routes behind the guard and the limits, and the page's files. Nothing here changes the store."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from peel_core import Secret
from peel_gateway.metrics import CONTENT_TYPE, Metrics
from peel_gateway.queries.exposed import Cases
from peel_gateway.queries.parameters import NotFoundError, ParameterError, QueryError
from peel_gateway.queries.responses import Alert, Endpoint, Health, Items, Summary
from peel_gateway.queries.views import Views
from peel_gateway.storage.store import StoreError
from peel_gateway.web.access import Guard, login_routes
from peel_gateway.web.api import Api, json_route
from peel_gateway.web.limits import HEALTH, Limits, refusal
from peel_gateway.web.openapi import description, route_text
from peel_gateway.web.streams import Streams

__all__ = ["PAGE_FOLDER", "build_app"]

_EVENTS = "/api/events"


def build_app(
    views: Views,
    cases: Cases,
    metrics: Metrics,
    *,
    summary: Callable[[], Summary],
    alerts: Callable[[], list[Alert]],
    health: Callable[[], Health],
    generation: Callable[[], int],
    stopping: threading.Event,
    token: Secret | None,
    streams: int,
    more_routes: Sequence[Route] = (),
) -> Starlette:
    """Return the application. The docstrings of the routes are their entries in docs/reference.md.

    Parameters
    ----------
    summary : callable
        Returns the content of /api/summary and of each event.
    alerts : callable
        Returns the alerts with their states.
    health : callable
        Returns the content of /healthz for trusted clients, without reading the store; no `causes` when all is well.
    generation : callable
        Returns a number that grows with every batch. An event is sent when it has grown.
    stopping : Event
        Set to end all streams.
    streams : int
        Largest number of open event streams.
    more_routes : sequence of Route
        Routes of a program that embeds the gateway.
    """
    listeners = Streams(summary, generation, stopping=stopping, most=streams)

    async def get_events(_: Request) -> Response:
        """Server-sent events: `summary` at once, then each second with news and every five without; `trouble` when the store fails."""
        return listeners.response()

    def get_paths() -> Items[Endpoint]:
        """All paths, each with its description."""
        return {"items": [_endpoint(route) for route in routes if route.include_in_schema]}

    def get_openapi() -> dict[str, Any]:
        """The OpenAPI 3.1 description of all paths below /api."""
        return document

    page, entrance = _asset_routes(), login_routes(token)
    api = [
        json_route("/api", get_paths),
        json_route("/api/openapi.json", get_openapi),
        *Api(views, cases, summary, alerts).routes(),
        Route(_EVENTS, get_events),
    ]
    document = description(api)
    routes = [
        *api,
        *_watching_routes(metrics, health),
        *more_routes,
        *entrance,
        *page,
    ]
    handlers: Mapping[Any, Any] = {QueryError: _bad_query, StoreError: _store_failed, HTTPException: _refused}
    public = frozenset(route.path for route in (*page, *entrance))
    middleware = [
        Middleware(_BrowserHeaders),
        Middleware(Guard, token=token, public=public),
        Middleware(Limits, unlimited=(_EVENTS, *public)),
    ]
    return Starlette(routes=routes, exception_handlers=handlers, middleware=middleware)


def _watching_routes(metrics: Metrics, health: Callable[[], Health]) -> list[Route]:
    """Return the routes for monitoring."""

    def get_metrics(_: Request) -> Response:
        """Metrics for Prometheus."""
        return Response(metrics.exposition(), media_type=CONTENT_TYPE)

    async def get_health(
        request: Request,
    ) -> Response:  # async: does not wait for a thread that other requests keep busy
        """200, or 503 when something fails; with the token also the causes, the lag and the number of dead letters."""
        signs = health()
        failing = bool(signs["causes"])
        body: dict[str, object] = {"status": "failing" if failing else "ok"}
        if request.scope["peel_trusted"]:
            body |= signs
        return JSONResponse(body, status_code=503 if failing else 200)

    return [Route("/metrics", get_metrics), Route(HEALTH, get_health)]


def _endpoint(route: Route) -> Endpoint:
    what, _ = route_text(route)
    return {"path": route.path, "methods": sorted(route.methods or ()), "what": what}


async def _bad_query(_: Request, error: Exception) -> Response:
    status = 400 if isinstance(error, ParameterError) else 404 if isinstance(error, NotFoundError) else 422
    return refusal(status, str(error))


async def _store_failed(_: Request, error: Exception) -> Response:
    return refusal(503, f"the store cannot be read: {error}")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:  # Starlette names the methods of one route; a path may have two
        routes = [route for route in request.app.routes if route.path_regex.match(request.scope["path"])]
        headers["Allow"] = ", ".join(sorted({method for route in routes for method in route.methods}))
    return refusal(error.status_code, error.detail, headers)


PAGE_FOLDER = Path(__file__).parent / "page"

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class _BrowserHeaders:
    """Middleware that sets the security headers of every response, and forbids caching unless the response allows it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _asset_routes() -> list[Route]:
    """Return a route for each file of the page. The files are served from memory; index.html is at /."""
    return [
        _asset_route("/" if file.name == "index.html" else f"/page/{file.name}", file)
        for file in sorted(PAGE_FOLDER.iterdir())
        if file.suffix in _TYPES
    ]


def _asset_route(path: str, file: Path) -> Route:
    content = file.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"etag": tag, "cache-control": "no-cache", "content-type": _TYPES[file.suffix]}

    async def get_asset(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers)

    return Route(path, get_asset, include_in_schema=False)
