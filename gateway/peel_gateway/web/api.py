# SPDX-License-Identifier: MIT
"""The routes that answer questions with JSON. Their docstrings are their entries in docs/gateway.md."""

from __future__ import annotations

from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from peel_gateway.queries.exposed import Cases, layer_tables
from peel_gateway.queries.query import (
    audit_page,
    device_filter,
    estimate_query,
    exposed_question,
    exposure_page,
    named_device,
    plan_question,
)
from peel_gateway.queries.table import ParameterError, QueryError, Table
from peel_gateway.queries.views import Views

__all__ = ["Api"]


class Api:
    """Answers, one method per route; `summary` is what /api/summary says."""

    def __init__(self, views: Views, cases: Cases, summary: Callable[[], Table]) -> None:
        self._views = views
        self._cases = cases
        self._summary = summary

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/api/summary", self.get_summary),
            Route("/api/estimates", self.get_estimates),
            Route("/api/exposures", self.get_exposures),
            Route("/api/quarantine", self.get_quarantine),
            Route("/api/exposures/{id:int}", self.get_piece),
            Route("/api/exposed", self.get_exposed),
            Route("/api/layers", self.get_layers),
            Route("/api/audit", self.get_audit),
            Route("/api/devices", self.get_devices),
            Route("/api/devices/{device}", self.get_device),
            Route("/api/groups", self.get_groups),
            Route("/api/profiles", self.get_profiles),
            Route("/api/plan", self.get_plan),
        ]

    def get_summary(self, _: Request) -> Response:
        """Totals, broker, inbox, health."""
        return JSONResponse(self._summary())

    def get_estimates(self, request: Request) -> Response:
        """Estimates per profile, or per profile and bucket; the fields are in docs/how-it-works.md.

        Parameters: `profile`, `group` (the devices of one group only), `groups` (yes: each group by itself), `since`, `until`,
        `bucket` (seconds, a multiple of `store.bucket_seconds`), `devices` (yes, or no to leave out what needs a pass over the
        log: influence, and means over devices), `name` (one attribute or category only), `top` (how many categories, where
        there are more than 100: the largest).
        """
        return JSONResponse({"items": self._views.estimates(**estimate_query(_parameters(request)))})

    def get_exposures(self, request: Request) -> Response:
        """`{"items": [...], "next": id}`: what devices are blamed for, newest first.

        Parameters: `verdict` (several with commas), `device`, `since`, `until`, `limit` (up to 1000), `before` (an id).
        """
        return JSONResponse(self._views.exposures(**exposure_page(_parameters(request), blamed=True)))

    def get_quarantine(self, request: Request) -> Response:
        """The same for pieces that nobody is blamed for.

        Parameters: `verdict` (several with commas), `device`, `since`, `until`, `limit` (up to 1000), `before` (an id).
        """
        return JSONResponse(self._views.exposures(**exposure_page(_parameters(request), blamed=False)))

    def get_audit(self, request: Request) -> Response:
        """`{"items": [...], "next": id, "fleet": [...]}`: pardons, newest first; beside them what was revoked in the fleet folder.

        Parameters: `device`, `limit` (up to 1000), `before` (an id).
        """
        return JSONResponse(self._views.audit(**audit_page(_parameters(request))))

    def get_devices(self, request: Request) -> Response:
        """`{"items": [...], "next": device}`: the devices, by id, with their state and what they say of themselves (`claims`).

        Parameters: `profile`, `group`, `state` (only devices that are in it), `find` (part of an id or of a note), `limit` (up
        to 1000), `after` (a device).
        """
        return JSONResponse(self._views.devices(device_filter(_parameters(request))))

    def get_device(self, request: Request) -> Response:
        """One device: what the list says of it, the last that it is blamed for (`against`), and what was decided of it (`audit`)."""
        try:
            device = named_device(request.path_params["device"])
            found = self._views.device(device)
        except QueryError as error:
            raise HTTPException(404, str(error)) from None
        return JSONResponse(
            found
            | {"against": self._cases.against(device), "audit": self._views.audit(device=device, limit=20)["items"]}
        )

    def get_exposed(self, request: Request) -> Response:
        """`{"items": [...], "total": n}`: the exposed devices, newest first, each with the reason in a sentence.

        Parameters: `profile`, `group`, `since`, `limit` (up to 1000).
        """
        return JSONResponse(self._cases.devices(exposed_question(_parameters(request))))

    def get_piece(self, request: Request) -> Response:
        """One piece out of either: its sentence, its bytes field by field, and the vector that it is reconstructed to."""
        try:
            return JSONResponse(self._cases.piece(request.path_params["id"]))
        except QueryError as error:
            raise HTTPException(404, str(error)) from None

    def get_layers(self, _: Request) -> Response:
        """The layers in their order, their verdicts, what each means and whom it blames."""
        return JSONResponse({"items": layer_tables()})

    def get_groups(self, _: Request) -> Response:
        """The groups, how many devices are in each, and a note where they are few."""
        return JSONResponse({"items": self._views.groups()})

    def get_profiles(self, _: Request) -> Response:
        """The profiles and how many devices have each."""
        return JSONResponse({"items": self._views.profiles()})

    def get_plan(self, request: Request) -> Response:
        """What a fleet of a profile would know and give away, by the formulas of planning.md; nothing is stored or changed.

        Parameters: `profile`, `devices`, `every` (seconds between a device's reports), `epsilon` (of a report), `epsilon_per_day`,
        `accuracy` (half of a 95% interval as a part of the range: 0.05; without devices it says how many), `within` (seconds, a
        day if not given). What is left out is as in the profile and the fleet.
        """
        return JSONResponse(self._views.plan(**plan_question(_parameters(request))))


def _parameters(request: Request) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise ParameterError(f"{name}: given more than once")
        given[name] = value
    return given
