# SPDX-License-Identifier: MIT
"""The OpenAPI 3.1 description of the API, built from the routes, their docstrings and the tables below.

A route's docstring describes it and names its parameters. The tables have the schemas of parameters and responses.
Later versions may add fields to a response, so no schema forbids additional ones.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from starlette.routing import Route

from peel_core.hash_family import MAX_DOMAIN
from peel_gateway.queries.parameters import (
    LISTED_VERDICTS,
    MOST_BUCKET_SECONDS,
    MOST_ITEMS,
    MOST_NUMBER,
    MOST_TEXT,
    PLAN_LIMITS,
    STATES,
)
from peel_gateway.queries.views import ISO_TIME, UNIX_SECONDS

__all__ = ["description", "docstring_parts"]

Schema = dict[str, Any]

_PARAMETER = re.compile(r"`(\w+)`(?: \(([^)]*)\))?")
"""A parameter in a docstring: `name` (remark)."""


def description(routes: Iterable[Route]) -> Schema:
    """Return the document. Raises KeyError for a route or a parameter that is missing from the tables below."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Peel gateway",
            "version": version("peel-telemetry"),
            "description": "Estimates, devices, and the evidence against exposed devices. Read only.",
        },
        "security": [{"token": []}, {}],
        "paths": {route.path_format: {"get": _operation(route)} for route in routes},
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The gateway's http.token. Not needed where none is set.",
                }
            },
            "schemas": _SCHEMAS,
            "responses": {name: _answer(text, _ref("Error")) for name, text in _REFUSALS.values()},
        },
    }


def docstring_parts(route: Route) -> tuple[str, str]:
    """Return the two paragraphs of a route's docstring, each on one line: its description and its parameters, if any."""
    what, _, parameters = (inspect.getdoc(route.endpoint) or "").partition("\n\n")
    return " ".join(what.split()), " ".join(parameters.split()).removeprefix("Parameters: ").removesuffix(".")


def _operation(route: Route) -> Schema:
    what, listed = docstring_parts(route)
    asked = [_query_parameter(route.path, name, remark) for name, remark in _PARAMETER.findall(listed)]
    named = [_path_parameter(name) for name in route.param_convertors]
    absent = {code for code, present in (("400", asked), ("422", asked), ("404", named)) if not present}
    return {
        "operationId": route.name,
        "summary": what,
        "parameters": named + asked,
        "responses": {"200": _answer(what, _ANSWERS[route.path_format], _MEDIA.get(route.path_format))}
        | {
            code: {"$ref": f"#/components/responses/{name}"}
            for code, (name, _) in _REFUSALS.items()
            if code not in absent
        },
    }


def _query_parameter(path: str, name: str, remark: str) -> Schema:
    described = {"description": remark} if remark else {}
    schema = (_QUERY | _OWN_QUERY.get(path, {}))[name]
    separated = {"style": "form", "explode": False} if schema["type"] == "array" else {}
    required = {"required": True} if (path, name) in _REQUIRED else {}
    return {"name": name, "in": "query", "schema": schema} | separated | required | described


def _path_parameter(name: str) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": _PATH[name]}


def _answer(what: str, schema: Schema, media: str | None = None) -> Schema:
    return {"description": what, "content": {media or "application/json": {"schema": schema}}}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]} if "$ref" in schema else {**schema, "type": [schema["type"], "null"]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _record(fields: dict[str, Schema]) -> Schema:
    """Return the schema of an object with these fields, all required."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def _items(items: Schema, **more: Schema) -> Schema:
    return _record({"items": _list(items), **more})


_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_WHOLE: Schema = {"type": "integer"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_TABLE: Schema = {"type": "object"}
_COUNTS: Schema = {"type": "object", "additionalProperties": _COUNT}
_MOMENT: Schema = {"type": "string", "format": "date-time"}
_DEVICE: Schema = {"type": "string", "pattern": "^[0-9a-f]{8}$"}

_YES: Schema = {"type": "string", "enum": ["yes", "no"]}
_NAME: Schema = {"type": "string", "maxLength": MOST_TEXT}
_DEVICE_ID: Schema = {"type": "string", "pattern": "^0{0,7}[1-9a-fA-F][0-9a-fA-F]{0,7}$", "maxLength": 8}
_SPAN_END: Schema = {
    "type": "string",
    "pattern": f"^(({UNIX_SECONDS})|({ISO_TIME}))$",
    "description": "Unix seconds or an ISO 8601 time.",
}


def _integer(least: float, most: float) -> Schema:
    return {"type": "integer", "minimum": int(least), "maximum": int(most)}


def _number(least: float, most: float) -> Schema:
    return {"type": "number", "minimum": least, "maximum": most}


def _verdicts(*, blamed: bool) -> Schema:
    labels = {"type": "string", "enum": LISTED_VERDICTS[blamed]}
    return {"type": "array", "items": labels, "minItems": 1, "maxItems": len(LISTED_VERDICTS[blamed])}


_ID = _integer(1, MOST_NUMBER)
_PATH: dict[str, Schema] = {"id": _ID, "device": _DEVICE_ID}
_QUERY: dict[str, Schema] = {
    "profile": _NAME,
    "group": _NAME,
    "groups": _YES | {"default": "no"},
    "since": _SPAN_END,
    "until": _SPAN_END,
    "bucket": _integer(1, MOST_BUCKET_SECONDS),
    "devices": _YES | {"default": "yes"},
    "name": _NAME,
    "top": _integer(1, MAX_DOMAIN),
    "device": _DEVICE_ID,
    "state": {"type": "string", "enum": list(STATES)},
    "find": _NAME,
    "limit": _integer(1, MOST_ITEMS) | {"default": 100},
    "before": _ID,
    "after": _DEVICE_ID,
}
"""Parameters that mean the same on every path. `_OWN_QUERY` has the others."""
_OWN_QUERY: dict[str, dict[str, Schema]] = {
    "/api/exposures": {"verdict": _verdicts(blamed=True)},
    "/api/quarantine": {"verdict": _verdicts(blamed=False)},
    "/api/plan": {
        **{name: _number(*limits) for name, limits in PLAN_LIMITS.items()},
        "devices": _integer(*PLAN_LIMITS["devices"]),
    },
}
_REQUIRED = {("/api/plan", "profile")}

_REFUSALS = {
    "400": (
        "BadRequest",
        "A parameter is unknown, missing, malformed, out of bounds or given twice; the error names it.",
    ),
    "401": ("Unauthorized", "A token is set, and the request has neither it nor a session."),
    "404": ("NotFound", "No such item, or it has been deleted."),
    "414": ("TooLong", "Path and query are too long."),
    "421": ("Misdirected", "No token is set, and the Host header does not name this machine."),
    "422": (
        "Unanswerable",
        "Each parameter is well-formed, but they contradict each other, or this fleet or its store.",
    ),
    "429": ("TooManyAttempts", "This address has sent too many wrong tokens; see Retry-After."),
    "431": ("HeadersTooLarge", "The headers are too large."),
    "503": ("Busy", "Too many concurrent requests or streams, or the store cannot be read; try again later."),
}
"""Refusals by status: the component's name and its cause. 400, 404 and 422 apply only to paths with parameters."""

_INTERVAL = {name: _or_null(_NUMBER) for name in ("value", "low", "high")}
_FIGURE = {
    "over": _TEXT,
    **_INTERVAL,
    "edge": _or_null(_TEXT),
    "unclipped": _ref("Interval"),
    "n_effective": _NUMBER,
    "influence": _or_null(_NUMBER),
    "influence_share": _or_null(_NUMBER),
    "influence_device": _or_null(_DEVICE),
}
_LISTED_DEVICE = {
    "device": _DEVICE,
    "profile": _TEXT,
    "group": _or_null(_TEXT),
    "state": _TEXT,
    "note": _TEXT,
    "created": _TEXT,
    "last_number": _or_null(_COUNT),
    "first_received": _or_null(_MOMENT),
    "last_received": _or_null(_MOMENT),
    "last_heard": _or_null(_MOMENT),
    "silent_after_seconds": _NUMBER,
    "exposed": _or_null(_TEXT),
    "exposed_at": _or_null(_MOMENT),
    "withdrawn": _FLAG,
    "left": _or_null(_COUNT),
    "claims": _or_null(_TABLE),
    "reports": _COUNTS,
    "counted": _COUNT,
}
_PIECE = {
    "id": _WHOLE,
    "verdict": _TEXT,
    "blamed": _FLAG,
    "device": _or_null(_DEVICE),
    "number": _or_null(_COUNT),
    "profile": _or_null(_TEXT),
    "received": _MOMENT,
    "topic": _TEXT,
    "evidence": _TABLE,
}
_DECISION = {"time": _MOMENT, "action": _TEXT, "device": _DEVICE, "who": _TEXT, "reason": _TEXT}
_REASON = {"id": _WHOLE, "verdict": _TEXT, "number": _or_null(_COUNT), "received": _MOMENT, "sentence": _TEXT}

_SPENT = _record({"reports": _COUNT, "epsilon": _NUMBER, "epsilon_at_delta": _NUMBER})

_SCHEMAS: dict[str, Schema] = {
    "Error": _record({"error": _TEXT}),
    "Summary": _record(
        {
            "fleet": _TEXT,
            "version": _TEXT,
            "uptime_seconds": _NUMBER,
            "totals": _TABLE,
            "devices": _record(
                {
                    "states": _COUNTS,
                    "heard": _COUNT,
                    "last_report": _or_null(_MOMENT),
                    "silent_seconds": _or_null(_NUMBER),
                }
            ),
            "accident": _or_null(
                _record(
                    {"devices": _COUNT, "heard": _COUNT, "cause": _TEXT, "since": _MOMENT}
                    | {"command": _TEXT, "sentence": _TEXT}
                )
            ),
            "broker": _record({"connected": _FLAG, "mqtt": _or_null(_TEXT), "away_seconds": _or_null(_NUMBER)}),
            "worker": _record({"name": _or_null(_TEXT), "workers": _COUNT, "partitions": _list(_COUNT), "of": _COUNT}),
            "reload": _record({"refused": _or_null(_TEXT)}),
            "inbox": _record({"pending": _COUNT, "oldest_seconds": _NUMBER}),
            "store": _record(
                {
                    "bytes": _COUNT,
                    "bytes_per_day": _or_null(_WHOLE),
                    "dead_letters": _COUNT,
                    "bucket_seconds": _COUNT,
                    "first_received": _or_null(_MOMENT),
                }
            ),
            "health": _list(_TEXT),
        }
    ),
    "Interval": _record(_INTERVAL),
    "Figure": _record(_FIGURE),
    "Estimate": _record(
        {
            "name": _TEXT,
            "unit": _TEXT,
            "range": _list(_NUMBER),
            "n": _COUNT,
            "devices": _or_null(_COUNT),
            **_FIGURE,
            "over_devices": _or_null(_ref("Figure")),
            "plain": _ref("Interval"),
            "withdrawn": _COUNT,
            "before_withdrawal": _ref("Interval"),
            "half_width": _or_null(_NUMBER),
            "reports_missing": _or_null(_COUNT),
            "seconds_missing": _or_null(_NUMBER),
            "too_few": _FLAG,
            "seconds_to_value": _or_null(_NUMBER),
        }
    ),
    "Estimates": _record(
        {
            "profile": _TEXT,
            "mechanism": _TEXT,
            "group": _or_null(_TEXT),
            "members": _or_null(_COUNT),
            "note": _or_null(_TEXT),
            "start": _or_null(_MOMENT),
            "seconds": _or_null(_COUNT),
            "n": _COUNT,
            "devices": _or_null(_COUNT),
            "withdrawn": _COUNT,
            "withdrawn_devices": _COUNT,
            "share_cap": _NUMBER,
            "figures": _COUNT,
            "computed": _MOMENT,
            "rate": _or_null(_NUMBER),
            "estimates": _list(_ref("Estimate")),
        }
    ),
    "Group": _record({"group": _TEXT, "members": _COUNT, "note": _or_null(_TEXT)}),
    "Piece": _record(_PIECE | {"raw": _TEXT}),
    "PieceInDetail": _record(
        _PIECE
        | {"layer": _or_null(_TEXT), "sentence": _TEXT, "meaning": _TEXT, "picture": _or_null(_TABLE)}
        | {"bytes": _list(_record({"field": _TEXT, "at": _COUNT, "hex": _TEXT, "value": {}}))}
    ),
    "Exposed": _record(
        {name: _LISTED_DEVICE[name] for name in ("device", "withdrawn")}
        | {"profile": _or_null(_TEXT), "verdict": _TEXT, "layer": _or_null(_TEXT), "exposed_at": _MOMENT}
        | {"reports": _COUNT, "sentence": _TEXT, "exposure": _or_null(_WHOLE)}
    ),
    "Layer": _record(
        {
            "layer": _TEXT,
            "exposes": _TEXT,
            "verdicts": _list(_record({"verdict": _TEXT, "blame": _TEXT, "sentence": _TEXT})),
        }
    ),
    "Pardon": _record(_DECISION | {"id": _WHOLE, "cause": _TEXT, "restored": _FLAG, "reports": _COUNT}),
    "Decision": _record(_DECISION),
    "Device": _record(_LISTED_DEVICE),
    "DeviceInDetail": _record(_LISTED_DEVICE | {"against": _list(_record(_REASON)), "audit": _list(_ref("Pardon"))}),
    "Plan": _record(
        {
            "profile": _TEXT,
            "task": _record(
                {"mechanism": _TEXT, "size": _COUNT, "devices": _COUNT, "interval_s": _NUMBER, "epsilon": _NUMBER}
                | {"found": _list(_TEXT), "assumed": _list(_TEXT)}
            ),
            "accuracy": _record(
                {
                    "half_width": _record(dict.fromkeys(("hour", "day", "week"), _NUMBER)),
                    "until": _list(_record({"half_width": _NUMBER, "reports": _COUNT, "hours": _NUMBER})),
                }
            ),
            "privacy": _record(dict.fromkeys(("report", "day", "year"), _SPENT) | {"delta": _NUMBER}),
            "insider": _record(
                {"liar_moves": _NUMBER, "insider_moves_at_first": _NUMBER, "ratio": _record({"cap": _NUMBER})}
            ),
            "advice": _list(_TEXT),
        }
    ),
    "Profile": _record({"name": _TEXT, "id": _TEXT, "mechanism": _TEXT, "epsilon": _NUMBER, "devices": _COUNT})
    | {"additionalProperties": True},  # each mechanism has its own
}

_ANSWERS: dict[str, Schema] = {
    "/api": _items(_record({"path": _TEXT, "methods": _list(_TEXT), "what": _TEXT})),
    "/api/openapi.json": _TABLE,
    "/api/summary": _ref("Summary"),
    "/api/estimates": _items(_ref("Estimates")),
    "/api/exposures": _items(_ref("Piece"), next=_or_null(_WHOLE)),
    "/api/quarantine": _items(_ref("Piece"), next=_or_null(_WHOLE)),
    "/api/exposures/{id}": _ref("PieceInDetail"),
    "/api/exposed": _items(_ref("Exposed"), total=_COUNT),
    "/api/layers": _items(_ref("Layer")),
    "/api/audit": _items(_ref("Pardon"), next=_or_null(_WHOLE), fleet=_list(_ref("Decision"))),
    "/api/devices": _items(_ref("Device"), next=_or_null(_DEVICE)),
    "/api/devices/{device}": _ref("DeviceInDetail"),
    "/api/groups": _items(_ref("Group")),
    "/api/profiles": _items(_ref("Profile")),
    "/api/plan": _ref("Plan"),
    "/api/events": _TEXT,
}
_MEDIA = {"/api/events": "text/event-stream"}
