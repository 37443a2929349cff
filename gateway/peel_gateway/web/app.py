# SPDX-License-Identifier: MIT
"""The application: routes behind limits and guard. Reading only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from peel_core import Secret
from peel_gateway.metrics import CONTENT_TYPE, Metrics
from peel_gateway.queries.exposed import Cases
from peel_gateway.queries.table import ParameterError, QueryError, Table
from peel_gateway.queries.views import Views
from peel_gateway.storage.store import StoreError
from peel_gateway.web.api import Api
from peel_gateway.web.assets import BrowserHeaders, asset_routes
from peel_gateway.web.guard import Guard
from peel_gateway.web.limits import HEALTH, Limits
from peel_gateway.web.login import login_routes
from peel_gateway.web.openapi import description, docstring_parts
from peel_gateway.web.streams import Streams

__all__ = ["build_app"]

_EVENTS = "/api/events"


def build_app(
    views: Views,
    cases: Cases,
    metrics: Metrics,
    *,
    summary: Callable[[], Table],
    health: Callable[[], Table],
    generation: Callable[[], int],
    stopping: threading.Event,
    token: Secret | None,
    streams: int,
    more_routes: Sequence[Route] = (),
) -> Starlette:
    """Make the application. The docstrings of the routes are their entries in docs/gateway.md.

    Parameters
    ----------
    summary : callable
        What /api/summary and each event carry.
    health : callable
        What /healthz tells a trusted client, without asking the store; `causes` is empty when all is well.
    generation : callable
        Grows with every batch; an event goes out when it has.
    stopping : Event
        Set when streams are to end.
    streams : int
        Most event streams at a time.
    more_routes : sequence of Route
        What somebody who builds upon the gateway adds.
    """
    listeners = Streams(summary, generation, stopping=stopping, most=streams)

    async def get_events(_: Request) -> Response:
        """Server-sent events: `summary` at once, each second with news, every five without; `trouble` when the store cannot be read."""
        return listeners.response()

    async def get_paths(_: Request) -> Response:
        """What there is to ask: every path and what it says."""
        return JSONResponse({"items": [_path_table(route) for route in routes if route.include_in_schema]})

    async def get_openapi(_: Request) -> Response:
        """All paths below /api described for programs, as OpenAPI 3.1 does."""
        return JSONResponse(document)

    page, entrance = asset_routes(), login_routes(token)
    questions = [
        Route("/api", get_paths),
        Route("/api/openapi.json", get_openapi),
        *Api(views, cases, summary).routes(),
        Route(_EVENTS, get_events),
    ]
    document = description(questions)
    routes = [
        *questions,
        *_watching_routes(metrics, health),
        *more_routes,
        *entrance,
        *page,
    ]
    handlers: Mapping[Any, Any] = {QueryError: _bad_query, StoreError: _store_failed, HTTPException: _refused}
    public = frozenset(route.path for route in (*page, *entrance))
    middleware = [
        Middleware(BrowserHeaders),
        Middleware(Guard, token=token, public=public),
        Middleware(Limits, unlimited=(_EVENTS, *public)),
    ]
    return Starlette(routes=routes, exception_handlers=handlers, middleware=middleware)


def _watching_routes(metrics: Metrics, health: Callable[[], Table]) -> list[Route]:
    """What a gateway is watched by."""

    def get_metrics(_: Request) -> Response:
        """Metrics for Prometheus."""
        return Response(metrics.exposition(), media_type=CONTENT_TYPE)

    async def get_health(request: Request) -> Response:  # async: never waits for a thread that others keep busy
        """200, or 503 when something fails; with the token also the causes, the lag, and how many dead letters there are."""
        signs = health()
        failing = bool(signs["causes"])
        body: Table = {"status": "failing" if failing else "ok"}
        if request.scope["peel_trusted"]:
            body |= signs
        return JSONResponse(body, status_code=503 if failing else 200)

    return [Route("/metrics", get_metrics), Route(HEALTH, get_health)]


def _path_table(route: Route) -> Table:
    what, _ = docstring_parts(route)
    return {"path": route.path, "methods": sorted(route.methods or ()), "what": what}


async def _bad_query(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=400 if isinstance(error, ParameterError) else 422)


async def _store_failed(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"the store cannot be read: {error}"}, status_code=503)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405:  # Starlette names the methods of one route; a path may have two
        routes = [route for route in request.app.routes if route.path_regex.match(request.scope["path"])]
        headers["Allow"] = ", ".join(sorted({method for route in routes for method in route.methods}))
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=headers)
