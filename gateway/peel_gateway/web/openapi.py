# SPDX-License-Identifier: MIT
"""The OpenAPI 3.1 description of the API, made from the docstrings and the types of its routes.

A route's endpoint names its path parameters, the dataclass of its query parameters, and the type of its response.
Later versions may add fields to a response, so no schema forbids additional ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import is_dataclass
from importlib.metadata import version
from types import NoneType, UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from starlette.responses import Response
from starlette.routing import Route

from peel_gateway.queries.parameters import Kind, Parameter, parameters_of
from peel_gateway.queries.responses import Error

__all__ = ["description", "endpoint_types", "route_text"]

Schema = dict[str, Any]


def description(routes: Iterable[Route]) -> Schema:
    """Return the document."""
    schemas: dict[str, Schema] = {}
    refused = {"schema": _schema(Error, schemas)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Peel gateway",
            "version": version("peel-telemetry"),
            "description": "Estimates, devices, and the evidence against exposed devices. Read only.",
        },
        "security": [{"token": []}, {}],
        "paths": {route.path_format: {"get": _operation(route, schemas)} for route in routes},
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The gateway's http.token. Not needed where none is set.",
                }
            },
            "schemas": schemas,
            "responses": {
                name: {"description": text, "content": {"application/json": refused}}
                for name, text in _REFUSALS.values()
            },
        },
    }


def route_text(route: Route) -> tuple[str, str]:
    """Return a route's description and its query parameters with their notes, each on one line."""
    _, query, _ = endpoint_types(route.endpoint)
    asked = parameters_of(query).values() if query else ()
    listed = (f"`{each.name}` ({each.note})" if each.note else f"`{each.name}`" for each in asked)
    return " ".join((inspect.getdoc(route.endpoint) or "").split()), ", ".join(listed)


def endpoint_types(endpoint: Any) -> tuple[dict[str, Kind], type[Any] | None, Any]:
    """Return the path parameters of an endpoint, the dataclass of its query parameters (None without), and its response."""
    hints = get_type_hints(endpoint, include_extras=True)
    response = hints.pop("return", None)
    query = next((hint for hint in hints.values() if is_dataclass(hint)), None)
    named = {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}
    return named, query if isinstance(query, type) else None, response


def _operation(route: Route, schemas: dict[str, Schema]) -> Schema:
    what, _ = route_text(route)
    path, query, response = endpoint_types(route.endpoint)
    named = [{"name": name, "in": "path", "required": True, "schema": kind.schema} for name, kind in path.items()]
    asked = [_query_parameter(each) for each in parameters_of(query).values()] if query else []
    found = named or [each for each in asked if each["name"] == "tag"]
    absent = {code for code, present in (("400", asked), ("422", asked), ("404", found)) if not present}
    content = (
        {"text/event-stream": {"schema": {"type": "string"}}}
        if response is Response
        else {"application/json": {"schema": _schema(response, schemas)}}
    )
    return {
        "operationId": route.name,
        "summary": what,
        "parameters": named + asked,
        "responses": {"200": {"description": what, "content": content}}
        | {
            code: {"$ref": f"#/components/responses/{name}"}
            for code, (name, _) in _REFUSALS.items()
            if code not in absent
        },
    }


def _query_parameter(parameter: Parameter) -> Schema:
    schema = dict(parameter.kind.schema)
    if parameter.default is not None:
        schema["default"] = parameter.default
    found: Schema = {"name": parameter.name, "in": "query", "schema": schema}
    if schema["type"] == "array":
        found |= {"style": "form", "explode": False}
    if parameter.required:
        found["required"] = True
    return found | ({"description": parameter.note} if parameter.note else {})


_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
}


def _schema(hint: Any, schemas: dict[str, Schema]) -> Schema:
    """Return the JSON schema of a type. Typed dictionaries become components in `schemas`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin is Annotated:
        plain, (keyword, value) = arguments
        return {**_schema(plain, schemas), keyword: value}
    if origin in (Union, UnionType):
        return {"anyOf": [_schema(each, schemas) for each in arguments]}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], schemas)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(arguments[1], schemas)}
    if is_typeddict(origin):  # generic: has no name of its own
        return _record(origin, arguments, schemas)
    if not is_typeddict(hint):
        raise TypeError(f"{hint} has no JSON schema; use a TypedDict")
    if hint.__name__ not in schemas:
        schemas[hint.__name__] = _record(hint, (), schemas)
    return {"$ref": f"#/components/schemas/{hint.__name__}"}


def _record(record: Any, arguments: tuple[Any, ...], schemas: dict[str, Schema]) -> Schema:
    """Return the schema of a typed dictionary; `arguments` take the place of its type variables."""
    fields = {
        name: hint[arguments] if arguments and getattr(hint, "__parameters__", ()) else hint
        for name, hint in get_type_hints(record, include_extras=True).items()
    }
    optional = {name for name, hint in fields.items() if get_origin(hint) is NotRequired}
    return {
        "type": "object",
        "properties": {
            name: _schema(get_args(hint)[0] if name in optional else hint, schemas) for name, hint in fields.items()
        },
        "required": [name for name in fields if name not in optional],
    }


_REFUSALS = {
    "400": (
        "BadRequest",
        "A parameter is unknown, missing, malformed, out of bounds or given twice; the error names it.",
    ),
    "401": ("Unauthorized", "A token is set, and the request has neither it nor a session."),
    "404": ("NotFound", "No such item, or it has been deleted; or no device has the tag."),
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
"""Refusals by status: the component's name and its cause. 400 and 422 apply only to queries, 404 to paths with parameters and to tags."""
