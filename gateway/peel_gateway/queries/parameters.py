# SPDX-License-Identifier: MIT
"""Parses and checks the parameters of queries. Each error names its parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from peel_core.hash_family import MAX_DOMAIN
from peel_gateway.estimation.estimate import Choice
from peel_gateway.fleet.folder import FleetError, parse_device
from peel_gateway.model.exposure import ExposureFilter
from peel_gateway.model.standing import Standing
from peel_gateway.model.verdict import BLAMED, Verdict
from peel_gateway.planning.solve import LIMITS, Given
from peel_gateway.queries.devices import DeviceFilter
from peel_gateway.queries.exposed import ExposedQuestion
from peel_gateway.queries.table import ParameterError, QueryError
from peel_gateway.queries.views import parse_moment

__all__ = [
    "LISTED_VERDICTS",
    "MOST_BUCKET_SECONDS",
    "MOST_ITEMS",
    "MOST_NUMBER",
    "MOST_TEXT",
    "PLAN_LIMITS",
    "STATES",
    "audit_page",
    "device_filter",
    "estimate_query",
    "exposed_question",
    "exposure_page",
    "named_device",
    "parse_verdicts",
    "plan_question",
    "span_query",
]

MOST_ITEMS = 1000
MOST_TEXT = 100
"""Most characters of a parameter."""
MOST_BUCKET_SECONDS = 10**9
MOST_NUMBER = 2**63 - 1
STATES = {standing.label: standing for standing in Standing}
"""Values of the parameter `state`."""
LISTED_VERDICTS = {
    blamed: [verdict.label for verdict in Verdict if (verdict in BLAMED) == blamed] for blamed in (True, False)
}
"""Values of the parameter `verdict`: the verdicts that blame a device, and the others."""
PLAN_LIMITS = {"every": LIMITS["interval_s"], "within": LIMITS["within_s"]} | {
    name: LIMITS[name] for name in ("devices", "epsilon", "epsilon_per_day", "accuracy")
}
"""Smallest and largest value of each parameter of a plan."""
_DECIMAL = r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"


def estimate_query(given: Mapping[str, str]) -> dict[str, Any]:
    """Parse the parameters of `Views.estimates`."""
    _refuse_others(given, ("profile", "group", "groups", "since", "until", "bucket", "devices", "name", "top"))
    return {
        "profile": given.get("profile"),
        "group": given.get("group"),
        "groups": _yes(given, "groups", default=False),
        **span_query(given),
        "bucket_seconds": _integer(given, "bucket", 1, MOST_BUCKET_SECONDS),
        "devices": _yes(given, "devices", default=True),
        "choice": Choice(given.get("name"), _integer(given, "top", 1, MAX_DOMAIN) or Choice.top),
    }


def exposure_page(given: Mapping[str, str], *, blamed: bool) -> dict[str, Any]:
    """Parse the parameters of `Views.exposures`, for reports that blame a device or for the others."""
    _refuse_others(given, ("verdict", "device", "since", "until", "limit", "before"))
    which = ExposureFilter(
        verdicts=parse_verdicts(given["verdict"], blamed=blamed) if "verdict" in given else frozenset(),
        device=_device(given, "device"),
        blamed=blamed,
        **span_query(given),
    )
    limit = _integer(given, "limit", 1, MOST_ITEMS)
    return {
        "which": which,
        "limit": 100 if limit is None else limit,
        "before": _integer(given, "before", 1, MOST_NUMBER),
    }


def exposed_question(given: Mapping[str, str]) -> ExposedQuestion:
    """Parse the parameters of `Cases.devices`."""
    _refuse_others(given, ("profile", "group", "since", "limit"))
    limit = _integer(given, "limit", 1, MOST_ITEMS)
    return ExposedQuestion(
        profile=given.get("profile"),
        group=given.get("group"),
        since=span_query(given)["since"],
        limit=100 if limit is None else limit,
    )


def audit_page(given: Mapping[str, str]) -> dict[str, Any]:
    """Parse the parameters of `Views.audit`."""
    _refuse_others(given, ("device", "limit", "before"))
    limit = _integer(given, "limit", 1, MOST_ITEMS)
    return {
        "device": _device(given, "device"),
        "limit": 100 if limit is None else limit,
        "before": _integer(given, "before", 1, MOST_NUMBER),
    }


def device_filter(given: Mapping[str, str]) -> DeviceFilter:
    """Parse the parameters of `Views.devices`."""
    _refuse_others(given, ("profile", "group", "state", "find", "limit", "after"))
    state = given.get("state")
    if state is not None and state not in STATES:
        raise ParameterError(f"state: must be one of {', '.join(STATES)}, not {state!r}")
    limit = _integer(given, "limit", 1, MOST_ITEMS)
    return DeviceFilter(
        profile=given.get("profile"),
        group=given.get("group"),
        state=STATES[state] if state else None,
        find=given.get("find", "").strip().lower(),
        limit=100 if limit is None else limit,
        after=_device(given, "after") or 0,
    )


def plan_question(given: Mapping[str, str]) -> dict[str, Any]:
    """Parse the parameters of `Views.plan`. The planner checks whether they fit together."""
    _refuse_others(given, ("profile", "devices", "every", "epsilon", "epsilon_per_day", "accuracy", "within"))
    numbers = {name: _number(given, name, *limits) for name, limits in PLAN_LIMITS.items() if name != "devices"}
    within = numbers["within"]
    asked = Given(
        devices=_integer(given, "devices", *map(int, PLAN_LIMITS["devices"])),
        interval_s=numbers["every"],
        epsilon=numbers["epsilon"],
        epsilon_per_day=numbers["epsilon_per_day"],
        accuracy=numbers["accuracy"],
        within_s=Given.within_s if within is None else within,
    )
    if "profile" not in given:
        raise ParameterError("profile: must be given; /api/profiles has their names")
    return {"profile": given["profile"], "given": asked}


def parse_verdicts(text: str, *, blamed: bool) -> frozenset[Verdict]:
    """Parse verdicts separated by commas. Refuse those that belong to the other listing."""
    try:
        verdicts = frozenset(Verdict.parse(label.strip()) for label in text.split(","))
    except ValueError as error:
        raise ParameterError(f"verdict: {error}") from None
    for verdict in verdicts:
        if (verdict in BLAMED) != blamed:
            listing = "exposures" if verdict in BLAMED else "quarantine"
            raise ParameterError(f"verdict: {verdict.label} is listed under {listing}")
    return verdicts


def span_query(given: Mapping[str, str]) -> dict[str, float | None]:
    """Parse `since` and `until`."""
    since, until = (parse_moment(name, given[name]) if name in given else None for name in ("since", "until"))
    if since is not None and until is not None and since >= until:
        raise QueryError("since: must be before until")
    return {"since": since, "until": until}


def named_device(text: str) -> int:
    """Parse a device's id in hexadecimal."""
    try:
        return parse_device(text)
    except FleetError as error:
        raise ParameterError(str(error)) from None


def _device(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    try:
        return named_device(given[name])
    except QueryError as error:
        raise ParameterError(f"{name}: {error}") from None


def _yes(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    if given.get(name) not in (None, "yes", "no"):
        raise ParameterError(f"{name}: must be yes or no, not {given[name]!r}")
    return given[name] == "yes" if name in given else default


def _integer(given: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    if name not in given:
        return None
    text = given[name]
    if not (text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high):
        raise ParameterError(f"{name}: must be a whole number from {low} to {high}, not {text!r}")
    return int(text)


def _number(given: Mapping[str, str], name: str, low: float, high: float) -> float | None:
    if name not in given:
        return None
    text = given[name]
    if not (re.fullmatch(_DECIMAL, text) and low <= float(text) <= high):
        raise ParameterError(f"{name}: must be a number from {low:g} to {high:g}, not {text!r}")
    return float(text)


def _refuse_others(given: Mapping[str, str], known: tuple[str, ...]) -> None:
    for name, value in given.items():
        if name not in known:
            raise ParameterError(f"{name}: unknown parameter; the known ones are: {', '.join(known)}")
        if len(value) > MOST_TEXT:
            raise ParameterError(f"{name}: must have at most {MOST_TEXT} characters, not {len(value)}")
