# SPDX-License-Identifier: MIT
"""The HTTP side: JSON, server-sent events, Prometheus, health. Reading only."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from peel_core import Secret
from peel_gateway.answers.query import device_filter, estimate_query, exposure_page
from peel_gateway.answers.table import QueryError, Table
from peel_gateway.answers.views import Views
from peel_gateway.logs import Log
from peel_gateway.metrics import CONTENT_TYPE, Metrics
from peel_gateway.settings import Settings
from peel_gateway.storage.store import StoreError

__all__ = ["HttpError", "HttpServer", "build_app"]

_LEAST_TOKEN_BYTES = 16
_EVENT_SECONDS = 1.0
_HEARTBEAT_SECONDS = 15.0
_STOP_SECONDS = 5.0

_log = Log("http")


class HttpError(Exception):
    """HTTP cannot be served as asked; the message says what to change."""


def build_app(
    views: Views,
    metrics: Metrics,
    *,
    summary: Callable[[], Table],
    health: Callable[[], list[str]],
    generation: Callable[[], int],
    stopping: threading.Event,
    token: Secret | None,
    streams: int,
) -> Starlette:
    """Make the application. The docstrings of the routes are their entries in docs/gateway.md.

    Parameters
    ----------
    summary: what /api/summary and each event carry.
    health: what is wrong right now; empty when all is well.
    generation: grows with every batch; an event goes out when it has.
    stopping: set when streams are to end.
    streams: most event streams at a time.
    """
    open_streams = asyncio.Semaphore(streams)

    def get_summary(_: Request) -> Response:
        """Totals, broker, inbox, health."""
        return JSONResponse(summary())

    def get_estimates(request: Request) -> Response:
        """Estimates per profile, or per profile and bucket; the fields are in estimates.md.

        Parameters: `profile`, `since`, `until`, `bucket` (seconds, a multiple of `store.bucket_seconds`), `devices` (yes, or
        no to leave out what needs a pass over the log: influence, and means over devices), `name` (one attribute or category
        only), `top` (how many categories, where there are more than 100: the largest).
        """
        return JSONResponse({"items": views.estimates(**estimate_query(_parameters(request)))})

    def get_exposures(request: Request) -> Response:
        """`{"items": [...], "next": id}`: what devices are blamed for, newest first.

        Parameters: `verdict` (several with commas), `device`, `since`, `until`, `limit` (up to 1000), `before` (an id).
        """
        return JSONResponse(views.exposures(**exposure_page(_parameters(request), blamed=True)))

    def get_quarantine(request: Request) -> Response:
        """The same for pieces that nobody is blamed for.

        Parameters: `verdict` (several with commas), `device`, `since`, `until`, `limit` (up to 1000), `before` (an id).
        """
        return JSONResponse(views.exposures(**exposure_page(_parameters(request), blamed=False)))

    def get_devices(request: Request) -> Response:
        """`{"items": [...], "next": device}`: the devices, by id.

        Parameters: `profile`, `state`, `limit` (up to 1000), `after` (a device).
        """
        return JSONResponse(views.devices(device_filter(_parameters(request))))

    def get_profiles(_: Request) -> Response:
        """The profiles and how many devices have each."""
        return JSONResponse({"items": views.profiles()})

    def get_metrics(_: Request) -> Response:
        """Metrics for Prometheus."""
        return Response(metrics.exposition(), media_type=CONTENT_TYPE)

    def get_health(request: Request) -> Response:
        """200, or 503 when something fails; with the token also the causes."""
        causes = health()
        body: Table = {"status": "failing" if causes else "ok"}
        if request.scope["peel_trusted"]:
            body["causes"] = causes
        return JSONResponse(body, status_code=503 if causes else 200)

    async def get_events(_: Request) -> Response:
        """Server-sent events: `summary` at once, then at most one a second; `trouble` when the store cannot be read."""
        if open_streams.locked():
            raise HTTPException(503, f"{streams} event streams are open already; see http.streams")
        stream = _events(summary, generation, stopping, open_streams)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"cache-control": "no-store"})

    routes = [
        Route("/api/summary", get_summary),
        Route("/api/estimates", get_estimates),
        Route("/api/exposures", get_exposures),
        Route("/api/quarantine", get_quarantine),
        Route("/api/devices", get_devices),
        Route("/api/profiles", get_profiles),
        Route("/api/events", get_events),
        Route("/metrics", get_metrics),
        Route("/healthz", get_health),
    ]
    handlers: Mapping[Any, Any] = {QueryError: _bad_query, StoreError: _store_failed, HTTPException: _refused}
    return Starlette(routes=routes, exception_handlers=handlers, middleware=[Middleware(_Guard, token=token)])


async def _events(
    summary: Callable[[], Table], generation: Callable[[], int], stopping: threading.Event, slots: asyncio.Semaphore
) -> AsyncIterator[str]:
    """One event at once, then one a second at most while batches come in, and a comment now and then to keep it open."""
    loop = asyncio.get_running_loop()
    seen, spoke = -1, loop.time()
    async with slots:
        while not stopping.is_set():
            current = generation()
            if current != seen:
                seen, spoke = current, loop.time()
                try:
                    data = json.dumps(await asyncio.to_thread(summary))
                except StoreError as error:
                    yield f"event: trouble\ndata: {json.dumps({'error': str(error)})}\n\n"
                else:
                    yield f"id: {current}\nevent: summary\ndata: {data}\n\n"
            elif loop.time() - spoke > _HEARTBEAT_SECONDS:
                spoke = loop.time()
                yield ": still here\n\n"
            await asyncio.sleep(_EVENT_SECONDS)


def _parameters(request: Request) -> dict[str, str]:
    pairs = request.query_params.multi_items()
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise QueryError(f"{name}: given more than once")
    return dict(pairs)


async def _bad_query(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, status_code=400)


async def _store_failed(_: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"the store cannot be read: {error}"}, status_code=503)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, status_code=error.status_code, headers=error.headers)


class _Guard:
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
        headers = Headers(scope=scope)
        trusted = self._trusts(headers)
        scope["peel_trusted"] = trusted
        if trusted or scope["path"] == "/healthz":
            await self._app(scope, receive, send)
            return
        if self._token is None:
            answer = JSONResponse({"error": "use the address 127.0.0.1 or the name localhost"}, status_code=421)
        else:
            answer = JSONResponse(
                {"error": "send the token as: Authorization: Bearer <token>"},
                status_code=401,
                headers={"www-authenticate": "Bearer"},
            )
        await answer(scope, receive, send)

    def _trusts(self, headers: Headers) -> bool:
        if self._token is None:
            return _is_loopback(_host_name(headers.get("host", "")))
        scheme, _, given = headers.get("authorization", "").partition(" ")
        expected = self._token.reveal()
        return hmac.compare_digest(given.strip().encode(), expected) and scheme.lower() == "bearer"


def _host_name(host: str) -> str:
    """A Host header without its port: localhost:8420, [::1]:8420."""
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HttpServer:
    """uvicorn on a socket that is bound at once, so that a taken port is an error at start."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._check_token()
        self._socket = self._bind()

    @property
    def port(self) -> int:
        """The port it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    def start(self, app: ASGIApp) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=2,
            limit_concurrency=self._settings.http_streams + 64,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="http", daemon=True
        )
        self._thread.start()
        _log.info("listening", host=self._settings.http_host, port=self.port)

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(_STOP_SECONDS)
        self._socket.close()

    def _check_token(self) -> None:
        token, host = self._settings.http_token, self._settings.http_host
        if token is None and not _is_loopback(host):
            raise HttpError(f"http.host: {host} is not loopback: set http.token (or http.token_file) first")
        if token is not None and len(token) < _LEAST_TOKEN_BYTES:
            raise HttpError(f"http.token: at least {_LEAST_TOKEN_BYTES} characters, please")

    def _bind(self) -> socket.socket:
        host, port = self._settings.http_host, self._settings.http_port
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            bound = socket.socket(family, kind, protocol)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError as error:
            raise HttpError(f"http.host, http.port: cannot listen on {host}:{port}: {error.strerror}") from None
        return bound
