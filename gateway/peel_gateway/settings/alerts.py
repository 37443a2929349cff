# SPDX-License-Identifier: MIT
"""Alerts on estimates: the tables `[[alert]]` of the settings file, and Prometheus rules for them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["SAMPLE_ALERT", "WINDOW", "Alert", "parse_alerts", "parse_window", "prometheus_rules"]

WINDOW = "[1-9][0-9]{0,3}(s|min|h|d)"
"""The pattern of a window: a number and a unit."""

_UNIT_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}

_CONDITIONS = ("above", "below", "changed")
_TEXTS = ("name", "profile", "figure", "window", "tag")
_MOST = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

SAMPLE_ALERT = """\
# Alerts on estimates, any number of them. Each has exactly one of above, below and changed.
# [[alert]]
#   name = "too-hot"          # part of a topic: up to 64 letters, digits, '-', '_' and '.'
#   profile = "climate"
#   figure = "temperature"    # an attribute or a category
#   above = 26                # the whole 95% interval must lie above it
#   window = "1h"             # s, min, h or d
#   tag = ""                # only the devices with this tag
"""


def parse_window(text: str) -> int:
    """Return the seconds of a window such as 90min, 24h or 7d. Raises ValueError."""
    found = re.fullmatch(WINDOW, text)
    if found is None:
        raise ValueError(f"must be a number from 1 to 9999 and a unit, such as 30min, 24h or 7d, not {text!r}")
    return int(text.removesuffix(found[1])) * _UNIT_SECONDS[found[1]]


@dataclass(frozen=True, kw_only=True)
class Alert:
    """A condition on an estimate over the last window, or on its change since the window before."""

    name: str
    profile: str
    figure: str
    condition: str
    """`above`, `below` or `changed`."""
    threshold: float
    """In the figure's unit; for `changed`, the least change, up or down."""
    window: str
    tag: str = ""
    """Only the devices with this tag; empty for all."""

    @property
    def seconds(self) -> int:
        """The length of the window."""
        return parse_window(self.window)

    def claim(self, unit: str = "") -> str:
        """Return the condition as a clause: "temperature of climate is above 26 °C"."""
        verb = "changed by more than" if self.condition == "changed" else f"is {self.condition}"
        whose = f"{self.profile} ({self.tag})" if self.tag else self.profile
        return f"{self.figure} of {whose} {verb} {self.threshold:g}{f' {unit}' if unit else ''}"


def parse_alerts(tables: object) -> tuple[Alert, ...]:
    """Return the alerts of a settings file. Raises ValueError with the key."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ValueError("alert: must be tables, each written [[alert]]")
    if len(tables) > _MOST:
        raise ValueError(f"alert: there are {len(tables)}, more than {_MOST}. Remove some.")
    alerts = tuple(_alert(table, number) for number, table in enumerate(tables, 1))
    names = [alert.name for alert in alerts]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"alert.name: two alerts are called {name!r}. Rename one of them.")
    return alerts


def _alert(table: Mapping[str, Any], number: int) -> Alert:
    where = f"alert {table['name']!r}" if isinstance(table.get("name"), str) else f"alert number {number}"
    for key in table:
        if key not in (*_TEXTS, *_CONDITIONS):
            raise ValueError(f"{where}: {key}: unknown key; known: {', '.join((*_TEXTS, *_CONDITIONS))}")
    texts = {key: _text(table, key, where) for key in _TEXTS if key in table or key != "tag"}
    if not _NAME.fullmatch(texts["name"]):
        raise ValueError(
            f"{where}: name: cannot be part of a topic; give up to 64 letters, digits, '-', '_' and '.', the first a letter or digit"
        )
    try:
        parse_window(texts["window"])
    except ValueError as error:
        raise ValueError(f"{where}: window: {error}") from None
    condition = _condition(table, where)
    return Alert(**texts, condition=condition, threshold=_threshold(table[condition], f"{where}: {condition}"))


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    if key not in table:
        raise ValueError(f"{where}: {key}: is missing. Set it.")
    if not isinstance(table[key], str):
        raise ValueError(f"{where}: {key}: must be text, not {table[key]!r}")
    return str(table[key])


def _condition(table: Mapping[str, Any], where: str) -> str:
    given = [condition for condition in _CONDITIONS if condition in table]
    if not given:
        raise ValueError(f"{where}: has no condition. Set one of {', '.join(_CONDITIONS)}.")
    if len(given) > 1:
        raise ValueError(f"{where}: {given[1]}: cannot be combined with {given[0]}. Write two alerts.")
    return given[0]


def _threshold(raw: object, where: str) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw):
        raise ValueError(f"{where}: must be a number, not {raw!r}")
    if where.endswith("changed") and raw < 0:
        raise ValueError(f"{where}: must be 0 or more, not {raw!r}. It counts changes in both directions.")
    return float(raw)


def prometheus_rules(alerts: tuple[Alert, ...]) -> str:
    """Return a file of Prometheus rules: one for each alert, and one that says that none of them is evaluated."""
    lines = [
        "# Prometheus rules for the alerts in the settings. Generated by `peel gateway alert-rules`.",
        "groups:",
        "  - name: peel-alerts",
        "    rules:",
    ]
    for alert in alerts:
        active = f'peel_alert_active{{alert="{alert.name}"}}'
        lines += _rule(alert.name, f"max without (instance) ({active}) == 1", "0s", f"{alert.claim()} ({alert.window})")
        lines += _rule(f"{alert.name}-unknown", f"absent({active})", "15m", f"the alert {alert.name} is not evaluated")
    return "\n".join(lines if alerts else [lines[0], "groups: []"]) + "\n"


def _rule(name: str, expression: str, patience: str, summary: str) -> list[str]:
    literal = summary.replace("{{", '{{"{{"}}')  # Prometheus takes annotations for templates
    return [
        f"      - alert: {json.dumps(name)}",
        f"        expr: {json.dumps(expression)}",
        f"        for: {patience}",
        "        labels: {severity: warning}",
        f"        annotations: {{summary: {json.dumps(literal)}}}",
    ]
