# SPDX-License-Identifier: MIT
"""The JSON routes. Their docstrings are their entries in docs/reference.md and in the OpenAPI description."""

from __future__ import annotations

from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from peel_gateway.queries.exposed import Cases, layer_tables
from peel_gateway.queries.parameters import (
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
    """The JSON routes, one method each; `summary` returns the content of /api/summary."""

    def __init__(self, views: Views, cases: Cases, summary: Callable[[], Table]) -> None:
        self._views = views
        self._cases = cases
        self._summary = summary

    def routes(self) -> list[Route]:
        """Return all routes."""
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
        """Totals, and the state of the broker, the inbox and the store."""
        return JSONResponse(self._summary())

    def get_estimates(self, request: Request) -> Response:
        """Estimates per profile, or per profile and bucket. docs/reference.md explains the fields.

        Parameters: `profile`, `group` (only the devices of this group), `groups` (yes: one table per group), `since`, `until`,
        `bucket` (seconds, a multiple of the setting store.bucket_seconds). `devices` (no leaves out influence and means over
        devices, which need a pass over the log), `name` (only this attribute or category), `top` (how many of the
        largest categories to list, where there are more than 100).
        """
        return JSONResponse({"items": self._views.estimates(**estimate_query(_parameters(request)))})

    def get_exposures(self, request: Request) -> Response:
        """`{"items": [...], "next": id}`: reports for which a device is to blame, newest first.

        Parameters: `verdict` (several with commas), `device`, `since`, `until`, `limit` (up to 1000), `before` (an id).
        """
        return JSONResponse(self._views.exposures(**exposure_page(_parameters(request), blamed=True)))

    def get_quarantine(self, request: Request) -> Response:
        """The same for refused reports for which no device is to blame.

        Parameters: `verdict` (several with commas), `device`, `since`, `until`, `limit` (up to 1000), `before` (an id).
        """
        return JSONResponse(self._views.exposures(**exposure_page(_parameters(request), blamed=False)))

    def get_audit(self, request: Request) -> Response:
        """`{"items": [...], "next": id, "fleet": [...]}`: pardons, newest first, and the revocations in the fleet folder.

        Parameters: `device`, `limit` (up to 1000), `before` (an id).
        """
        return JSONResponse(self._views.audit(**audit_page(_parameters(request))))

    def get_devices(self, request: Request) -> Response:
        """`{"items": [...], "next": device}`: the devices by id, with their state and their own status messages (`claims`).

        Parameters: `profile`, `group`, `state` (only devices in this state), `find` (part of an id or of a note), `limit` (up
        to 1000), `after` (a device).
        """
        return JSONResponse(self._views.devices(device_filter(_parameters(request))))

    def get_device(self, request: Request) -> Response:
        """One device: its entry in the list, the latest evidence against it (`against`) and its pardons (`audit`)."""
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
        """`{"items": [...], "total": n}`: the exposed devices, newest first, each with the reason as a sentence.

        Parameters: `profile`, `group`, `since`, `limit` (up to 1000).
        """
        return JSONResponse(self._cases.devices(exposed_question(_parameters(request))))

    def get_piece(self, request: Request) -> Response:
        """One report from either list: the reason as a sentence, its bytes field by field, and its reconstructed vector."""
        try:
            return JSONResponse(self._cases.piece(request.path_params["id"]))
        except QueryError as error:
            raise HTTPException(404, str(error)) from None

    def get_layers(self, _: Request) -> Response:
        """The layers in their order, each with its verdicts, their meaning and whom they blame."""
        return JSONResponse({"items": layer_tables()})

    def get_groups(self, _: Request) -> Response:
        """The groups, with their number of devices and a note where it is small."""
        return JSONResponse({"items": self._views.groups()})

    def get_profiles(self, _: Request) -> Response:
        """The profiles, with their parameters and number of devices."""
        return JSONResponse({"items": self._views.profiles()})

    def get_plan(self, request: Request) -> Response:
        """The accuracy and the privacy cost of a fleet with this profile, by the formulas of `peel plan`. Changes nothing.

        Parameters: `profile`, `devices`, `every` (seconds between a device's reports), `epsilon` (of a report), `epsilon_per_day`.
        `accuracy` (half of a 95% interval as a part of the range, such as 0.05; without devices, the response says how many it
        takes), `within` (seconds, a day if not given). Missing parameters are taken from the profile and the fleet.
        """
        return JSONResponse(self._views.plan(**plan_question(_parameters(request))))


def _parameters(request: Request) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise ParameterError(f"{name}: given more than once; give it once")
        given[name] = value
    return given
