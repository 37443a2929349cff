# SPDX-License-Identifier: MIT
"""The page: its files out of memory, and the headers that keep a browser from doing anything but showing it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["PAGE_FOLDER", "BrowserHeaders", "asset_routes"]

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


class BrowserHeaders:
    """Sets the headers of every answer. What says nothing of caching is not to be kept."""

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


def asset_routes() -> list[Route]:
    """A route for each file; the page itself is at /."""
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
