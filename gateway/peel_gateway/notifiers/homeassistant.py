# SPDX-License-Identifier: MIT
"""Home Assistant MQTT discovery: messages that make the estimates appear as entities.

https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from peel_core.topics import topic_level
from peel_gateway.settings import Settings
from peel_gateway.settings.alerts import Alert

__all__ = ["Discovery", "estimate_topic"]

_MOST_FIGURES = 100
"""Profiles with more estimates get no entities, because their estimates have no fixed positions in the published list."""
_MEDIAN = (
    "(value_json.distributions | selectattr('attribute', 'eq', '%s') | map(attribute='quantiles') | sum(start=[])"
    " | selectattr('part', 'eq', 0.5) | first | default({}))"
)
"""The template expression of an attribute's median. It uses the name, because the list has only distributions with reports."""
_MISSED = 3
"""Home Assistant hides a value after this many missed publications."""

_PLAIN = re.compile(r"[a-z0-9_]+")
_SPELLED: Mapping[str, str] = MappingProxyType(
    {"degC": "°C", "degF": "°F", "ug/m3": "µg/m³", "W/m2": "W/m²", "lux": "lx"}
)
"""Units that Home Assistant spells differently."""
_CLASSES: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("°C", "°F", "K"), "temperature")
    | dict.fromkeys(("Pa", "hPa", "kPa", "bar", "cbar", "mbar", "mmHg", "inHg", "psi"), "pressure")
    | dict.fromkeys(("V", "mV"), "voltage")
    | dict.fromkeys(("A", "mA"), "current")
    | dict.fromkeys(("W", "kW"), "power")
    | dict.fromkeys(("Hz", "kHz", "MHz", "GHz"), "frequency")
    | dict.fromkeys(("m/s", "km/h", "mph", "kn", "ft/s"), "speed")
    | dict.fromkeys(("dB", "dBA"), "sound_pressure")
    | dict.fromkeys(("mm", "cm", "m", "km"), "distance")
    | dict.fromkeys(("g", "kg"), "weight")
    | {"lx": "illuminance", "W/m²": "irradiance", "mm/h": "precipitation_intensity"}
)
"""Home Assistant's device class by unit (https://www.home-assistant.io/integrations/sensor/#device-class)."""
_NAMED_CLASSES = (
    ("%", "humid", "humidity"),
    ("%", "moist", "moisture"),
    ("%", "batter", "battery"),
    ("ppm", "co2", "carbon_dioxide"),
    ("ppm", "carbon_dioxide", "carbon_dioxide"),
    ("ppm", "carbon_monoxide", "carbon_monoxide"),
    ("µg/m³", "pm25", "pm25"),
    ("µg/m³", "pm2_5", "pm25"),
    ("µg/m³", "pm10", "pm10"),
    ("µg/m³", "ozone", "ozone"),
    ("µg/m³", "voc", "volatile_organic_compounds"),
)
"""Device class of units that have several: unit, part of the attribute's name, device class."""

_COUNTS = (
    ("exposed_devices", "Exposed devices", "states.exposed", "measurement", "mdi:shield-alert"),
    (
        *("failing_devices", "Devices with a failing sensor", "states['sensor failing']"),
        *("measurement", "mdi:thermometer-alert"),
    ),
    ("silent_devices", "Silent devices", "states.silent", "measurement", "mdi:access-point-off"),
    ("accepted_reports", "Accepted reports", "accepted", "total_increasing", "mdi:check-decagram"),
    ("refused_reports", "Refused reports", "refused", "total_increasing", "mdi:close-octagon"),
)
"""Entities about the gateway: id, name, field of the summary, state class, icon."""


def estimate_topic(base: str, profile: str, tag: str | None) -> str:
    """Return the topic of a profile's estimates, for all devices or for those with a tag."""
    return "/".join([base, "estimates", profile, *([topic_level(tag)] if tag else [])])


class Discovery:
    """Makes discovery messages."""

    def __init__(self, settings: Settings, fleet: str, base: str, version: str) -> None:
        self._prefix = settings.publish_prefix
        self._base = base
        self._node = f"peel_{fleet}_{settings.gateway_name}".replace(".", "_")
        self._expire = round(_MISSED * settings.publish_seconds) + 1
        self._common = {
            "availability_topic": f"{base}/status",
            "availability_template": "{{ value_json.state }}",
            "device": {
                "identifiers": [self._node],
                "name": f"Peel {fleet}",
                "manufacturer": "Peel",
                "model": f"gateway {settings.gateway_name}",
                "sw_version": version,
            },
            "origin": {"name": "Peel", "sw_version": version},
        }

    @property
    def birth_topic(self) -> str:
        """Topic on which Home Assistant publishes that it has started."""
        return f"{self._prefix}/status"

    @property
    def config_filter(self) -> str:
        """Topic filter of all messages of this gateway, for those that an earlier process has left."""
        return f"{self._prefix}/+/{self._node}/+/config"

    def is_config(self, topic: str) -> bool:
        """Whether a topic is that of a message of this gateway."""
        levels = topic.removeprefix(f"{self._prefix}/").split("/")
        return topic.startswith(f"{self._prefix}/") and len(levels) == 4 and levels[1::2] == [self._node, "config"]

    def configs(self, estimates: Sequence[Mapping[str, Any]], alerts: Iterable[Alert] = ()) -> dict[str, str]:
        """Return one message per entity, by topic."""
        found = [
            *self._figures(estimates),
            *self._medians(estimates),
            *self._counts(),
            self._exposure(),
            *map(self._alert, alerts),
        ]
        return {
            self._topic(component, name): json.dumps(
                {
                    "unique_id": f"{self._node}_{name}",
                    "object_id": _slug(f"{self._node}_{name}"),
                    **config,
                    **self._common,
                }
            )
            for component, name, config in found
        }

    def alert_topic(self, alert: str) -> str:
        """Return the topic of an alert's message."""
        return self._topic("binary_sensor", _alert_id(alert))

    def _topic(self, component: str, name: str) -> str:
        return f"{self._prefix}/{component}/{self._node}/{name}/config"

    def _figures(self, estimates: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for table in estimates:
            if table["figures"] > _MOST_FIGURES:
                continue
            for place, row in enumerate(table["estimates"]):
                # The template uses the position, because a category's name is arbitrary text and must not become part of a template.
                # The id uses the name, so that an attribute keeps its history when another is added before it.
                value = f"value_json.estimates[{place}]"
                yield self._estimate(table, row["name"], row["name"], row["unit"], _id_part(row["name"]), value)

    def _medians(self, estimates: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for table in estimates:
            for row in table["distributions"]:
                name = row["attribute"]
                yield self._estimate(table, f"{name} median", name, row["unit"], f"{name}--median", _MEDIAN % name)

    def _estimate(
        self, table: Mapping[str, Any], title: str, name: str, unit: str, id_part: str, value: str
    ) -> tuple[str, str, dict[str, Any]]:
        """Return the sensor of a value with its interval, which the template expression `value` finds."""
        tag = f" ({table['tag']})" if table["tag"] else ""
        topic = estimate_topic(self._base, table["profile"], table["tag"])
        window = "window=value_json.window, since=value_json.since"
        config: dict[str, Any] = {
            "name": f"{title}{tag}",
            "state_topic": topic,
            "value_template": f"{{{{ {value}.value }}}}",
            "json_attributes_topic": topic,
            "json_attributes_template": f"{{{{ dict({value}, {window}) | tojson }}}}",
            "state_class": "measurement",
            "expire_after": self._expire,
            **_unit(name, unit),
        }
        parts = [table["profile"], *([_id_part(table["tag"])] if table["tag"] else []), id_part]
        return "sensor", "-".join(parts), config

    def _counts(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for name, title, where, kind, icon in _COUNTS:
            config = {
                "name": title,
                "state_topic": f"{self._base}/summary",
                "value_template": f"{{{{ value_json.{where} }}}}",
                "state_class": kind,
                "icon": icon,
                "expire_after": self._expire,
            }
            yield "sensor", name, config

    def _exposure(self) -> tuple[str, str, dict[str, Any]]:
        config = {
            "name": "Exposure",
            "state_topic": f"{self._base}/exposure",
            "event_types": ["exposed"],
            "value_template": "{{ dict(value_json, event_type='exposed') | tojson }}",
            "icon": "mdi:shield-alert",
        }
        return "event", "exposure", config

    def _alert(self, alert: Alert) -> tuple[str, str, dict[str, Any]]:
        topic = f"{self._base}/alert/{alert.name}"
        config = {
            "name": alert.name,
            "state_topic": topic,
            "value_template": "{{ value_json.state }}",
            "payload_on": "active",
            "payload_off": "inactive",
            "json_attributes_topic": topic,
            "device_class": "problem",
            "expire_after": self._expire,
        }
        return "binary_sensor", _alert_id(alert.name), config


def _alert_id(name: str) -> str:
    return f"alert-{_id_part(name)}"


def _id_part(name: str) -> str:
    """Return a name as a part of an id. A digest keeps names apart that differ only in replaced characters."""
    if _PLAIN.fullmatch(name):
        return name
    return f"{_slug(name)}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _slug(text: str) -> str:
    """Return a text in the form of Home Assistant's entity ids."""
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _unit(name: str, unit: str) -> dict[str, Any]:
    """Return the unit and the device class of an attribute, if it has them."""
    if not unit:
        return {}
    spelled = _SPELLED.get(unit, unit)
    named = (found for own, part, found in _NAMED_CLASSES if own == spelled and part in name.lower())
    device_class = next(named, _CLASSES.get(spelled))
    return {"unit_of_measurement": spelled} | ({"device_class": device_class} if device_class else {})
