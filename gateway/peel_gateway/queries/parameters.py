# SPDX-License-Identifier: MIT
"""The parameters of queries: one dataclass per query, from which requests are parsed and the OpenAPI description is made.

Each field has a kind (its schema and its parser) and may have a note. Commands and HTTP requests are parsed alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

from peel_core.hash_family import MAX_DOMAIN
from peel_gateway.estimation.estimate import Choice
from peel_gateway.fleet.device import tag_normalized
from peel_gateway.fleet.folder import FleetError, parse_device
from peel_gateway.model.exposure import ExposureFilter
from peel_gateway.model.standing import Standing
from peel_gateway.model.verdict import BLAMED, Verdict
from peel_gateway.planning.solve import LIMITS, Given
from peel_gateway.settings.alerts import WINDOW, parse_window

__all__ = [
    "MOST_ITEMS",
    "AuditQuery",
    "ChangeQuery",
    "DeviceId",
    "DeviceQuery",
    "EstimateQuery",
    "ExportQuery",
    "ExposedQuery",
    "ExposureQuery",
    "Kind",
    "NotFoundError",
    "Parameter",
    "ParameterError",
    "PlanQuery",
    "QuarantineQuery",
    "QueryError",
    "ReportId",
    "ReportQuery",
    "SpanQuery",
    "parameters_of",
    "parse_query",
]

MOST_ITEMS = 1000
_MOST_TEXT = 100
_MOST_BUCKET_SECONDS = 10**9
_UNIX_SECONDS = r"[0-9]{1,10}(\.[0-9]{1,9})?"
_ISO_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
_DECIMAL = r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"


class QueryError(ValueError):
    """A query that cannot be answered; the message names the parameter."""


class ParameterError(QueryError):
    """A parameter that is unknown, missing, malformed or out of bounds for every fleet."""


class NotFoundError(QueryError):
    """A device, report or tag that the gateway does not have."""


@dataclass(frozen=True)
class Kind:
    """A kind of parameter: its JSON schema, and a parser that raises QueryError without the parameter's name."""

    schema: Mapping[str, Any]
    parse: Callable[[str], Any]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query."""

    name: str
    kind: Kind
    note: str
    required: bool
    default: str | float | None
    """None where the parameter's absence has a meaning of its own."""


Query = TypeVar("Query")


def parse_query(query: type[Query], given: Mapping[str, str]) -> Query:
    """Parse the parameters of a query. Each error names its parameter."""
    known = parameters_of(query)
    found = {}
    for name, text in given.items():
        if name not in known:
            raise ParameterError(f"{name}: unknown parameter; the known ones are: {', '.join(known)}")
        if len(text) > _MOST_TEXT:
            raise ParameterError(f"{name}: must have at most {_MOST_TEXT} characters, not {len(text)}")
        try:
            found[name] = known[name].kind.parse(text)
        except QueryError as error:
            raise type(error)(f"{name}: {error}") from None
    for name, parameter in known.items():
        if parameter.required and name not in found:
            raise ParameterError(f"{name}: must be given ({parameter.note})")
    return query(**found)


def parameters_of(query: type[Any]) -> Mapping[str, Parameter]:
    """Return the parameters of a query by name."""
    if query not in _PARAMETERS:
        hints = get_type_hints(query, include_extras=True)
        _PARAMETERS[query] = {each.name: _parameter(each, hints[each.name].__metadata__) for each in fields(query)}
    return _PARAMETERS[query]


_PARAMETERS: dict[type[Any], Mapping[str, Parameter]] = {}
"""Kept, because evaluating type hints takes longer than most queries."""


def _parameter(field: Field[Any], metadata: tuple[Any, ...]) -> Parameter:
    kind, *note = metadata
    default = ("no", "yes")[field.default] if isinstance(field.default, bool) else field.default
    shown = default if isinstance(default, str | int | float) else None
    return Parameter(field.name, kind, "".join(note), default is MISSING, shown)


def _integer(least: float, most: float) -> Kind:
    low, high = int(least), int(most)

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high):
            raise ParameterError(f"must be a whole number from {low} to {high}, not {text!r}")
        return int(text)

    return Kind({"type": "integer", "minimum": low, "maximum": high}, parse)


def _number(low: float, high: float) -> Kind:
    def parse(text: str) -> float:
        if not (re.fullmatch(_DECIMAL, text) and low <= float(text) <= high):
            raise ParameterError(f"must be a number from {low:g} to {high:g}, not {text!r}")
        return float(text)

    return Kind({"type": "number", "minimum": low, "maximum": high}, parse)


def _one_of(values: Mapping[str, object]) -> Kind:
    def parse(text: str) -> object:
        if text not in values:
            raise ParameterError(f"must be one of {', '.join(values)}, not {text!r}")
        return values[text]

    return Kind({"type": "string", "enum": list(values)}, parse)


def _verdicts(*, blamed: bool) -> Kind:
    """Return the kind for verdicts that blame a device, or for all others, separated by commas."""
    labels = [verdict.label for verdict in Verdict if (verdict in BLAMED) == blamed]

    def parse(text: str) -> frozenset[Verdict]:
        try:
            verdicts = frozenset(Verdict.parse(label.strip()) for label in text.split(","))
        except ValueError as error:
            raise ParameterError(str(error)) from None
        for verdict in verdicts:
            if verdict.label not in labels:
                raise ParameterError(f"{verdict.label} is listed under {'quarantine' if blamed else 'exposures'}")
        return verdicts

    items = {"type": "string", "enum": labels}
    return Kind({"type": "array", "items": items, "minItems": 1, "maxItems": len(labels)}, parse)


def _parse_time(text: str) -> float:
    """Parse Unix seconds or ISO 8601 (UTC unless it says otherwise)."""
    if re.fullmatch(_UNIX_SECONDS, text):
        return float(text)
    if not re.fullmatch(_ISO_TIME, text):
        raise ParameterError(f"{text!r} is neither Unix seconds nor ISO 8601; write 1767225600 or 2026-01-01T00:00:00Z")
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise QueryError(f"{text!r} is not a time: {error}. Write a date such as 2026-01-01T00:00:00Z.") from None
    seconds = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    if not 0 <= seconds < 1e11:
        raise QueryError(f"{text!r} is out of range; give a time from 1970 to 5138")
    return seconds


def _parse_window(text: str) -> int:
    try:
        return parse_window(text)
    except ValueError as error:
        raise ParameterError(str(error)) from None


def _parse_device(text: str) -> int:
    try:
        return parse_device(text)
    except FleetError as error:
        raise ParameterError(str(error)) from None


_TEXT = Kind({"type": "string", "maxLength": _MOST_TEXT}, str)
_YES_NO = _one_of({"yes": True, "no": False})
_DEVICE = Kind({"type": "string", "pattern": "^0{0,7}[1-9a-fA-F][0-9a-fA-F]{0,7}$", "maxLength": 8}, _parse_device)
_ID = _integer(1, 2**63 - 1)
_TIME = Kind(
    {
        "type": "string",
        "pattern": f"^(({_UNIX_SECONDS})|({_ISO_TIME}))$",
        "description": "Unix seconds or an ISO 8601 time.",
    },
    _parse_time,
)
_WINDOW = Kind({"type": "string", "pattern": f"^{WINDOW}$"}, _parse_window)

DeviceId = Annotated[int, _DEVICE]
ReportId = Annotated[int, _ID]
_Profile = Annotated[str | None, _TEXT]
_Tag = Annotated[str | None, Kind(_TEXT.schema, tag_normalized), "only the devices with this tag"]
_Device = Annotated[int | None, _DEVICE]
_Time = Annotated[float | None, _TIME]
_Limit = Annotated[int, _integer(1, MOST_ITEMS), f"up to {MOST_ITEMS}"]
_Before = Annotated[int | None, _ID, "an id"]


@dataclass(frozen=True, kw_only=True)
class SpanQuery:
    """A span of time in Unix seconds; None means no limit."""

    since: _Time = None
    until: _Time = None

    def __post_init__(self) -> None:
        if self.since is not None and self.until is not None and self.since >= self.until:
            raise QueryError("since: must be before until")


@dataclass(frozen=True, kw_only=True)
class ExportQuery(SpanQuery):
    """The rows of a table to export: those of a span of time, of all devices or of those with a tag."""

    tag: _Tag = None


@dataclass(frozen=True, kw_only=True)
class EstimateQuery(SpanQuery):
    """A query for estimates of the whole fleet, of the devices with a tag, or of each tag."""

    profile: _Profile = None
    tag: _Tag = None
    tags: Annotated[bool, _YES_NO, "yes: one table per tag"] = False
    bucket: Annotated[
        int | None, _integer(1, _MOST_BUCKET_SECONDS), "seconds, a multiple of the setting store.bucket_seconds"
    ] = None
    devices: Annotated[bool, _YES_NO, "no leaves out influence and means over devices, and is faster"] = True
    name: Annotated[str | None, _TEXT, "only this attribute or category"] = None
    top: Annotated[int, _integer(1, MAX_DOMAIN), "how many of the largest categories to list, where there are more"] = (
        Choice.top
    )
    above: Annotated[
        float | None, _number(-1e12, 1e12), "also the share of readings above this, of readings that have a ladder"
    ] = None

    @property
    def choice(self) -> Choice:
        """The attributes or categories that it asks for."""
        return Choice(self.name, self.top)


@dataclass(frozen=True, kw_only=True)
class ChangeQuery:
    """A query for the changes between two spans of time, of the whole fleet or of one tag."""

    profile: _Profile = None
    tag: _Tag = None
    name: Annotated[str | None, _TEXT, "only this attribute or category"] = None
    top: Annotated[int, _integer(1, MAX_DOMAIN), "how many of the largest categories to list, where there are more"] = (
        Choice.top
    )
    devices: Annotated[bool, _YES_NO, "no leaves out changes over devices, and is faster"] = True
    window: Annotated[int | None, _WINDOW, "24h compares the last 24 hours with the 24 hours before them"] = None
    since: Annotated[float | None, _TIME, "start of the later span, instead of window"] = None
    until: Annotated[float | None, _TIME, "end of the later span; without it now"] = None
    before_since: Annotated[float | None, _TIME, "start of the earlier span"] = None
    before_until: Annotated[float | None, _TIME, "end of the earlier span; without it since"] = None

    def __post_init__(self) -> None:
        given = [name for name in ("since", "until", "before_since", "before_until") if getattr(self, name) is not None]
        if self.window is not None and given:
            raise QueryError(f"window: cannot be combined with {given[0]}; give the window or the times")
        if self.window is None and (self.since is None or self.before_since is None):
            raise QueryError("window: must be given, such as 24h, or else since and before_since")

    @property
    def choice(self) -> Choice:
        """The attributes or categories that it asks for."""
        return Choice(self.name, self.top)

    def spans(self, now: float, bucket_seconds: int) -> tuple[tuple[float, float], tuple[float, float | None]]:
        """Return the earlier and the later span in Unix seconds; None means now. A window begins with a bucket."""
        if self.window is not None:
            middle = (now - self.window) // bucket_seconds * bucket_seconds
            return (middle - self.window, middle), (middle, None)
        first, middle = float(self.before_since or 0), float(self.since or 0)
        earlier = (first, middle if self.before_until is None else self.before_until)
        if middle >= (now if self.until is None else self.until):
            raise QueryError("since: must be before until, or before now")
        if earlier[0] >= earlier[1]:
            raise QueryError("before_since: must be before before_until")
        if earlier[1] > middle:
            raise QueryError("before_until: must not be after since, because the spans must not share reports")
        return earlier, (middle, self.until)


@dataclass(frozen=True, kw_only=True)
class ReportQuery(SpanQuery):
    """A page of refused reports, newest first."""

    blamed: ClassVar[bool]
    """Whether a device is to blame for the reports."""
    verdict: frozenset[Verdict] = frozenset()
    device: _Device = None
    limit: _Limit = 100
    before: _Before = None

    @property
    def which(self) -> ExposureFilter:
        """The filter for the store."""
        return ExposureFilter(
            verdicts=self.verdict, device=self.device, since=self.since, until=self.until, blamed=self.blamed
        )


@dataclass(frozen=True, kw_only=True)
class ExposureQuery(ReportQuery):
    """A page of reports for which a device is to blame."""

    blamed = True
    verdict: Annotated[frozenset[Verdict], _verdicts(blamed=True), "several with commas"] = frozenset()


@dataclass(frozen=True, kw_only=True)
class QuarantineQuery(ReportQuery):
    """A page of refused reports for which no device is to blame."""

    blamed = False
    verdict: Annotated[frozenset[Verdict], _verdicts(blamed=False), "several with commas"] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ExposedQuery:
    """A query for exposed devices; unset fields match all."""

    profile: _Profile = None
    tag: _Tag = None
    since: _Time = None
    limit: _Limit = 100


@dataclass(frozen=True, kw_only=True)
class AuditQuery:
    """A page of the audit trail."""

    device: _Device = None
    limit: _Limit = 100
    before: _Before = None


@dataclass(frozen=True, kw_only=True)
class DeviceQuery:
    """A page of devices; unset fields match all."""

    profile: _Profile = None
    tag: _Tag = None
    state: Annotated[
        Standing | None, _one_of({standing.label: standing for standing in Standing}), "only devices in this state"
    ] = None
    find: Annotated[str | None, _TEXT, "part of an id or of a note"] = None
    limit: _Limit = 100
    after: Annotated[int | None, _DEVICE, "a device"] = None


@dataclass(frozen=True, kw_only=True)
class PlanQuery:
    """A query for the accuracy and the privacy cost of a fleet. Missing values are taken from the profile and this fleet."""

    profile: Annotated[str, _TEXT, "one of /api/profiles"]
    devices: Annotated[int | None, _integer(*LIMITS["devices"])] = None
    every: Annotated[float | None, _number(*LIMITS["interval_s"]), "seconds between a device's reports"] = None
    epsilon: Annotated[float | None, _number(*LIMITS["epsilon"]), "of a report"] = None
    epsilon_per_day: Annotated[float | None, _number(*LIMITS["epsilon_per_day"])] = None
    accuracy: Annotated[
        float | None,
        _number(*LIMITS["accuracy"]),
        "half of a 95% interval as a part of the range, such as 0.05; without devices, the response says how many it takes",
    ] = None
    within: Annotated[float, _number(*LIMITS["within_s"]), "seconds"] = Given.within_s

    @property
    def given(self) -> Given:
        """The same for the planner, which checks whether the values fit together."""
        return Given(
            devices=self.devices,
            interval_s=self.every,
            epsilon=self.epsilon,
            epsilon_per_day=self.epsilon_per_day,
            accuracy=self.accuracy,
            within_s=self.within,
        )
