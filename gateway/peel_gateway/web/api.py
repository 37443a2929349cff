# SPDX-License-Identifier: MIT
"""The JSON routes. Their docstrings and types make their entries in docs/reference.md and in the OpenAPI description."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from peel_gateway.queries.exposed import Cases, layers
from peel_gateway.queries.parameters import (
    AuditQuery,
    ChangeQuery,
    DeviceId,
    DeviceQuery,
    EstimateQuery,
    ExposedQuery,
    ExposureQuery,
    NotFoundError,
    ParameterError,
    PlanQuery,
    QuarantineQuery,
    QueryError,
    ReportId,
    parse_query,
)
from peel_gateway.queries.responses import (
    Alert,
    Audit,
    Changes,
    DeviceInDetail,
    Devices,
    Estimates,
    ExposedDevices,
    Items,
    Layer,
    Page,
    Plan,
    Profile,
    Report,
    ReportInDetail,
    Summary,
    Tag,
)
from peel_gateway.queries.views import Views
from peel_gateway.web.openapi import endpoint_types

__all__ = ["Api", "json_route"]


def json_route(path: str, answer: Callable[..., Any]) -> Route:
    """Return a route that calls `answer` with the parameters that its type hints name, and sends its result as JSON."""
    path_kinds, query, _ = endpoint_types(answer)

    @wraps(answer)
    def endpoint(request: Request) -> Response:
        given: list[Any] = []
        for name, kind in path_kinds.items():
            try:
                given.append(kind.parse(request.path_params[name]))
            except QueryError as error:
                raise NotFoundError(f"{name}: {error}") from None
        if query is not None:
            given.append(parse_query(query, _parameters(request)))
        return JSONResponse(answer(*given))

    return Route(path, endpoint)


def _parameters(request: Request) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise ParameterError(f"{name}: given more than once; give it once")
        given[name] = value
    return given


class Api:
    """The JSON routes, one method each; `summary` returns the content of /api/summary, `alerts` that of /api/alerts."""

    def __init__(
        self, views: Views, cases: Cases, summary: Callable[[], Summary], alerts: Callable[[], list[Alert]]
    ) -> None:
        self._views = views
        self._cases = cases
        self._summary = summary
        self._alerts = alerts

    def routes(self) -> list[Route]:
        """Return all routes."""
        return [
            json_route("/api/summary", self.get_summary),
            json_route("/api/estimates", self.get_estimates),
            json_route("/api/change", self.get_change),
            json_route("/api/alerts", self.get_alerts),
            json_route("/api/exposures", self.get_exposures),
            json_route("/api/quarantine", self.get_quarantine),
            json_route("/api/exposures/{id}", self.get_report),
            json_route("/api/exposed", self.get_exposed),
            json_route("/api/layers", self.get_layers),
            json_route("/api/audit", self.get_audit),
            json_route("/api/devices", self.get_devices),
            json_route("/api/devices/{device}", self.get_device),
            json_route("/api/tags", self.get_tags),
            json_route("/api/profiles", self.get_profiles),
            json_route("/api/plan", self.get_plan),
        ]

    def get_summary(self) -> Summary:
        """Totals, and the state of the broker, the inbox and the store."""
        return self._summary()

    def get_estimates(self, query: EstimateQuery) -> Items[Estimates]:
        """Estimates per profile, or per profile and bucket. docs/reference.md explains the fields."""
        return {"items": self._views.estimates(query)}

    def get_change(self, query: ChangeQuery) -> Items[Changes]:
        """Per profile: the change of each estimate between two spans of time, with its 95% interval, over reports and over devices."""
        return {"items": self._views.changes(query)}

    def get_alerts(self) -> Items[Alert]:
        """The alerts in the settings, active ones first: state, value, 95% interval, threshold, and since when."""
        return {"items": self._alerts()}

    def get_exposures(self, query: ExposureQuery) -> Page[Report]:
        """`{"items": [...], "next": id}`: reports for which a device is to blame, newest first."""
        return self._views.exposures(query)

    def get_quarantine(self, query: QuarantineQuery) -> Page[Report]:
        """The same for refused reports for which no device is to blame."""
        return self._views.exposures(query)

    def get_report(self, id: ReportId) -> ReportInDetail:
        """One report from either list: the reason as a sentence, its bytes field by field, and its reconstructed vector."""
        return self._cases.report(id)

    def get_exposed(self, query: ExposedQuery) -> ExposedDevices:
        """`{"items": [...], "total": n}`: the exposed devices, newest first, each with the reason as a sentence."""
        return self._cases.devices(query)

    def get_layers(self) -> Items[Layer]:
        """The layers in their order, each with its verdicts, their meaning and whom they blame."""
        return {"items": layers()}

    def get_audit(self, query: AuditQuery) -> Audit:
        """`{"items": [...], "next": id, "fleet": [...]}`: pardons and releases, newest first, and the revocations in the fleet folder."""
        return self._views.audit(query)

    def get_devices(self, query: DeviceQuery) -> Devices:
        """`{"items": [...], "next": device}`: the devices by id, with their state and their own status messages (`claims`)."""
        return self._views.devices(query)

    def get_device(self, device: DeviceId) -> DeviceInDetail:
        """One device: its entry in the list, the latest evidence against it (`against`) and its pardons and releases (`audit`)."""
        audit = self._views.audit(AuditQuery(device=device, limit=20))["items"]
        return {**self._views.device(device), "against": self._cases.against(device), "audit": audit}

    def get_tags(self) -> Items[Tag]:
        """The tags, with their number of devices and a note where it is small."""
        return {"items": self._views.tags()}

    def get_profiles(self) -> Items[Profile]:
        """The profiles, with their parameters and number of devices."""
        return {"items": self._views.profiles()}

    def get_plan(self, query: PlanQuery) -> Plan:
        """The accuracy and the privacy cost of a fleet with this profile, by the formulas of `peel plan`. Changes nothing.

        Missing parameters are taken from the profile and the fleet.
        """
        return self._views.plan(query)
