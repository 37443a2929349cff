# SPDX-License-Identifier: MIT
"""Alerts on estimates: evaluate them, keep their state as retained messages, publish an event when it changes.

An alert fires when the whole 95% interval lies beyond its threshold. It clears when the whole interval lies on the other side, or when
for a whole window no interval has lain beyond the threshold. In between it stays as it is.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from peel_gateway.logs import Log
from peel_gateway.queries import responses
from peel_gateway.queries.changes import amount
from peel_gateway.queries.parameters import ChangeQuery, QueryError
from peel_gateway.queries.responses import moment, moment_or_none
from peel_gateway.queries.views import Views
from peel_gateway.settings import SettingsError
from peel_gateway.settings.alerts import Alert

__all__ = ["AlertState", "Alerts", "check_alerts", "next_state"]

_READ_BACK_SECONDS = 3.0
"""A broker delivers retained messages within this time after a subscription. An alert without one is new."""
_MOST_GONE = 1000
"""Most names of former alerts that are cleared at once."""
_EVALUATED = ("unit", "value", "low", "high", "n")

_log = Log("alerts")


def check_alerts(alerts: Sequence[Alert], views: Views, bucket_seconds: int) -> None:
    """Raise SettingsError for an alert that can never fire: of an unknown profile or figure, or beyond its range."""
    for alert in alerts:
        where = f"alert {alert.name!r}"
        try:
            low, high = views.range_of(alert.profile, alert.figure)
        except QueryError as error:
            raise SettingsError(f"{where}: {str(error).replace('name: ', 'figure: ', 1)}") from None
        _check_threshold(alert, *((0.0, high - low) if alert.condition == "changed" else (low, high)), where)
        if alert.seconds < bucket_seconds:
            raise SettingsError(
                f"{where}: window: {alert.window} is shorter than a time bucket. Give at least {bucket_seconds} s."
            )


def _check_threshold(alert: Alert, least: float, most: float, where: str) -> None:
    reachable = least < alert.threshold <= most if alert.condition == "below" else least <= alert.threshold < most
    if not reachable:
        raise SettingsError(
            f"{where}: {alert.condition}: {alert.threshold:g} can never be passed. Give a number between {least:g} and {most:g}."
        )


@dataclass(frozen=True)
class AlertState:
    """The state of an alert. Times are Unix seconds."""

    active: bool
    since: float
    held: float | None = None
    """The last time at which the condition held; None if it never has."""


_Bounds = tuple[float, float] | None


@dataclass(frozen=True, kw_only=True)
class _Evaluation:
    """The estimate or the change that an alert was evaluated on, and when, in Unix seconds."""

    unit: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    computed: float

    @property
    def bounds(self) -> _Bounds:
        """The interval; None without reports."""
        return None if self.low is None or self.high is None else (self.low, self.high)


class _Rule(TypedDict):
    """The fields of a condition."""

    profile: str
    tag: str
    figure: str
    condition: str
    threshold: float
    window: str


def next_state(alert: Alert, before: AlertState | None, bounds: _Bounds, now: float) -> AlertState:
    """Return the state after an evaluation; `bounds` is the interval, None without reports."""
    if _holds(alert, bounds):
        return AlertState(True, before.since if before and before.active else now, now)
    if before is None:
        return AlertState(False, now)
    if before.active and (_refuted(alert, bounds) or now - (before.held or 0.0) >= alert.seconds):
        return AlertState(False, now, before.held)
    return before


def _holds(alert: Alert, bounds: _Bounds) -> bool:
    """Whether the whole interval lies beyond the threshold."""
    if bounds is None:
        return False
    low, high = bounds
    above, below = low > alert.threshold, high < alert.threshold
    return {"above": above, "below": below, "changed": above or high < -alert.threshold}[alert.condition]


def _refuted(alert: Alert, bounds: _Bounds) -> bool:
    """Whether the whole interval lies on the other side."""
    if bounds is None:
        return False
    low, high = bounds
    above, below = low > alert.threshold, high < alert.threshold
    return {"above": below, "below": above, "changed": below and low > -alert.threshold}[alert.condition]


class Alerts:
    """Evaluates the alerts of a fleet, and publishes their states.

    The retained messages are the memory: a gateway reads them back when it starts, and so does a worker that becomes the leader.

    Parameters
    ----------
    base : str
        The gateway's topic.
    publish_retained : callable
        Publishes a retained text.
    publish_event : callable
        Publishes an event, given by its name and its document.
    is_leader : callable
        Whether this worker evaluates; the others only follow the messages.
    """

    def __init__(
        self,
        alerts: Sequence[Alert],
        views: Views,
        base: str,
        publish_retained: Callable[[str, str], None],
        publish_event: Callable[[str, Mapping[str, object]], None],
        *,
        is_leader: Callable[[], bool] = lambda: True,
    ) -> None:
        self.alerts = {alert.name: alert for alert in alerts}
        self._views = views
        self._prefix = f"{base}/alert/"
        self._publish_retained = publish_retained
        self._publish_event = publish_event
        self._is_leader = is_leader
        self._lock = threading.Lock()
        self._states: dict[str, AlertState] = {}
        self._gone: set[str] = set()
        self._problems: dict[str, str] = {}
        self._evaluations: dict[str, _Evaluation] = {}
        self._connected: float | None = None
        self.active: dict[str, bool] = {}
        """The alerts that this process evaluated last, and whether they are active."""

    @property
    def topics(self) -> Sequence[str]:
        """Topics to subscribe to: the retained states."""
        return [f"{self._prefix}+"]

    def on_connect(self) -> None:
        """Note the first connection, after which the broker delivers the retained states."""
        if self._connected is None:
            self._connected = time.monotonic()

    def on_message(self, topic: str, payload: bytes) -> bool:
        """Take over a state that another process, or this one before a restart, has published. Return False for other topics."""
        if not topic.startswith(self._prefix):
            return False
        name = topic.removeprefix(self._prefix)
        with self._lock:
            if name not in self.alerts:
                if payload and len(self._gone) < _MOST_GONE:
                    self._gone.add(name)
            elif name not in self._states or not self._is_leader():
                found = _read_document(self.alerts[name], payload)
                if found is not None:
                    self._states[name], self._evaluations[name] = found
        return True

    def listed(self) -> list[responses.Alert]:
        """Return all alerts, the active ones first, then by name."""
        with self._lock:
            found = [self._listed(alert) for alert in self.alerts.values()]
        return sorted(found, key=lambda each: (each["state"] != "active", each["alert"]))

    def _listed(self, alert: Alert) -> responses.Alert:
        state, problem = self._states.get(alert.name), self._problems.get(alert.name)
        if state is None or problem is not None:
            return _unknown(alert, problem)
        return {**_document(alert, state, self._evaluations[alert.name]), "problem": None}

    def rest(self) -> None:
        """Evaluate nothing, because another worker does."""
        self.active = {}

    def evaluate(self) -> set[str]:
        """Evaluate all alerts and publish their states, and an event for each that changed. Does nothing until all states are known.

        Return the names of former alerts, whose states have been removed.
        """
        if not self._ready():
            return set()
        with self._lock:
            gone, self._gone = self._gone, set()
        for name in gone:
            self._publish_retained(self._prefix + name, "")
        evaluated = {name: self._evaluate(alert) for name, alert in self.alerts.items()}
        self.active = {name: active for name, active in evaluated.items() if active is not None}
        return gone

    def _ready(self) -> bool:
        with self._lock:
            if self._states.keys() == self.alerts.keys():
                return True
        return self._connected is not None and time.monotonic() - self._connected >= _READ_BACK_SECONDS

    def _evaluate(self, alert: Alert) -> bool | None:
        """Return whether the alert is active; None if it cannot be evaluated."""
        try:
            row = self._row(alert)
        except QueryError as error:
            if self._problems.get(alert.name) != str(error):
                _log.warning("alert not evaluated", alert=alert.name, cause=error)
            with self._lock:
                self._problems[alert.name] = str(error)
            return None
        now = time.time()
        evaluation = _Evaluation(**{key: row[key] for key in _EVALUATED}, computed=now)
        with self._lock:
            self._problems.pop(alert.name, None)
            before = self._states.get(alert.name)
            state = self._states[alert.name] = next_state(alert, before, evaluation.bounds, now)
            self._evaluations[alert.name] = evaluation
        document = _document(alert, state, evaluation)
        self._publish_retained(self._prefix + alert.name, json.dumps(document))
        if state.active != (before is not None and before.active):
            _log.warning("alert active" if state.active else "alert over", alert=alert.name, about=document["sentence"])
            self._publish_event("alert", document)
        return state.active

    def _row(self, alert: Alert) -> Mapping[str, Any]:
        """Return the estimate that the alert is about, or its change: unit, value, low, high and n."""
        chosen: dict[str, Any] = {"profile": alert.profile, "tag": alert.tag or None, "name": alert.figure}
        if alert.condition == "changed":
            (change,) = self._views.changes(ChangeQuery(window=alert.seconds, devices=False, **chosen))[0]["changes"]
            return {**change, "n": change["n_after"]}
        (row,) = self._views.since(alert.seconds, **chosen)["estimates"]
        return row


def _document(alert: Alert, state: AlertState, evaluation: _Evaluation) -> responses.AlertState:
    return {
        "alert": alert.name,
        "state": "active" if state.active else "inactive",
        **_rule(alert),
        "unit": evaluation.unit,
        "value": evaluation.value,
        "low": evaluation.low,
        "high": evaluation.high,
        "n": evaluation.n,
        "since": moment(state.since),
        "held": moment_or_none(state.held),
        "computed": moment(evaluation.computed),
        "sentence": _sentence(alert, state, evaluation),
    }


def _unknown(alert: Alert, problem: str | None) -> responses.Alert:
    """Return the document of an alert that has not been evaluated."""
    return {
        "alert": alert.name,
        "state": "unknown",
        **_rule(alert),
        "unit": "",
        "value": None,
        "low": None,
        "high": None,
        "n": 0,
        "since": None,
        "held": None,
        "computed": None,
        "sentence": f"not evaluated: {alert.claim()}; {problem or 'the first evaluation is pending'}",
        "problem": problem,
    }


def _rule(alert: Alert) -> _Rule:
    """Return the fields of the condition. A state under another condition is not taken over."""
    return {
        "profile": alert.profile,
        "tag": alert.tag,
        "figure": alert.figure,
        "condition": alert.condition,
        "threshold": alert.threshold,
        "window": alert.window,
    }


def _sentence(alert: Alert, state: AlertState, evaluation: _Evaluation) -> str:
    claim = alert.claim(evaluation.unit)
    if not state.active:
        claim = f"not certain: {claim}"
    elif not _holds(alert, evaluation.bounds):
        claim = f"certain until {moment_or_none(state.held)}: {claim}"
    if evaluation.value is None or evaluation.bounds is None:
        return f"{claim}; no report in the window of {alert.window}"
    return f"{claim}; {amount(evaluation.value, *evaluation.bounds, evaluation.unit)} in the window of {alert.window}"


def _read_document(alert: Alert, payload: bytes) -> tuple[AlertState, _Evaluation] | None:
    """Return the state and the evaluation in a message, or None if it is malformed or about another condition."""
    try:
        document = json.loads(payload)
        if any(document[key] != value for key, value in _rule(alert).items()):
            return None
        held = None if document["held"] is None else _seconds(document["held"])
        state = AlertState({"active": True, "inactive": False}[document["state"]], _seconds(document["since"]), held)
        return state, _Evaluation(
            unit=str(document.get("unit", "")),
            value=_number(document.get("value")),
            low=_number(document.get("low")),
            high=_number(document.get("high")),
            n=max(0, int(document.get("n", 0))),
            computed=_seconds(document.get("computed", document["since"])),
        )
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def _number(raw: object) -> float | None:
    """Return a finite number as it is, and anything else as None."""
    return raw if isinstance(raw, int | float) and not isinstance(raw, bool) and math.isfinite(raw) else None


def _seconds(text: str) -> float:
    """Return Unix seconds, at most the present: a later time would keep an alert active for ever."""
    return min(datetime.fromisoformat(text).timestamp(), time.time())
