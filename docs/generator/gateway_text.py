# SPDX-License-Identifier: MIT
"""The gateway's HTTP routes, from its application, and its metrics, from a running gateway."""

from __future__ import annotations

import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from starlette.routing import Route

from peel_gateway.fleet.folder import Fleet
from peel_gateway.metrics import Metrics
from peel_gateway.queries.exposed import Cases
from peel_gateway.queries.responses import Health, Summary
from peel_gateway.queries.views import Views
from peel_gateway.web.app import build_app
from peel_gateway.web.openapi import route_text
from peel_tools.servers.gateway import GatewayError, GatewayProcess
from peel_tools.servers.process import free_port

__all__ = ["endpoint_table", "metric_table"]

_PATIENCE_SECONDS = 30.0


def endpoint_table() -> str:
    """Path, meaning and parameters of each route."""
    lines = ["| path | what | parameters |", "|---|---|---|"]
    for route in _routes():
        what, parameters = route_text(route)
        lines.append(f"| `{route.path}` | {what.removesuffix('.')} | {parameters} |")
    return "\n".join(lines) + "\n"


def metric_table() -> str:
    """Name, labels, type and meaning of each metric."""
    lines = ["| metric | labels | type | what |", "|---|---|---|---|"]
    for family in sorted(_families(), key=lambda family: family.name):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = sorted({label for sample in family.samples for label in sample.labels} - {"le"})
        shown = ", ".join(f"`{label}`" for label in labels)
        lines.append(f"| `{name}` | {shown} | {family.type} | {family.documentation} |")
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


def _families() -> Iterator[Metric]:
    """Yield the metrics of a gateway with a fleet and without a broker, except creation times, which Prometheus ignores."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        Fleet.create(folder / "fleet", "docs")
        gateway = GatewayProcess(fleet=folder / "fleet", folder=folder, broker_port=free_port())
        gateway.start(until="started")
        try:
            text = _answer(gateway, "/metrics")
        finally:
            gateway.stop()
    for family in text_string_to_metric_families(text):
        if not family.name.endswith("_created"):
            yield family


def _answer(gateway: GatewayProcess, path: str) -> str:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while gateway.pid is not None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(gateway.url + path, timeout=10) as answer:  # noqa: S310 - our own http URL
                return str(answer.read(), "utf-8")
        except urllib.error.URLError:
            time.sleep(0.05)
    raise GatewayError(f"the gateway does not answer; end of its log:\n{gateway.log_tail()}")
