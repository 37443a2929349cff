# SPDX-License-Identifier: MIT
"""The gateway's HTTP routes, from its application."""

from __future__ import annotations

import threading
from typing import cast

from starlette.routing import Route

from peel_gateway.metrics import Metrics
from peel_gateway.queries.exposed import Cases
from peel_gateway.queries.responses import Health, Summary
from peel_gateway.queries.views import Views
from peel_gateway.web.app import build_app
from peel_gateway.web.openapi import route_text

__all__ = ["endpoint_table"]


def endpoint_table() -> str:
    """Path, meaning and parameters of each route."""
    lines = ["| path | what | parameters |", "|---|---|---|"]
    for route in _routes():
        what, parameters = route_text(route)
        lines.append(f"| `{route.path}` | {what.removesuffix('.')} | {parameters} |")
    return "\n".join(lines) + "\n"


def _routes() -> list[Route]:
    """Return the routes of an application without a store, which serves no request."""
    app = build_app(
        cast(Views, None),
        cast(Cases, None),
        Metrics(),
        summary=lambda: cast(Summary, {}),
        health=lambda: cast(Health, {}),
        generation=int,
        stopping=threading.Event(),
        token=None,
        streams=1,
    )
    return [route for route in app.routes if isinstance(route, Route) and route.include_in_schema]
