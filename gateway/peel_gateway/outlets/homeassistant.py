# SPDX-License-Identifier: MIT
"""What Home Assistant is told so that it finds the estimates by itself (MQTT discovery).

https://www.home-assistant.io/integrations/mqtt/#mqtt-discovery
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from peel_gateway.answers.table import Table
from peel_gateway.settings import Settings

__all__ = ["Announcer", "estimate_topic"]

_MOST_FIGURES = 100
"""Of one profile: more have no fixed places in what is published."""
_MISSED = 3
"""So many publications late, and a value is no longer shown."""

_COUNTS = (
    ("exposed_devices", "Exposed devices", "states.exposed", "measurement", "mdi:shield-alert"),
    ("silent_devices", "Silent devices", "states.silent", "measurement", "mdi:access-point-off"),
    ("accepted_reports", "Accepted reports", "accepted", "total_increasing", "mdi:check-decagram"),
    ("refused_reports", "Refused reports", "refused", "total_increasing", "mdi:close-octagon"),
)
"""Entities about the gateway: id, name, where in the summary, kind of number, icon."""


def estimate_topic(base: str, profile: str, group: str | None) -> str:
    """Where a profile's estimates are, below the gateway's own topic; of all devices or of one group."""
    return "/".join([base, "estimates", profile, *([group] if group else [])])


class Announcer:
    """Makes discovery messages, each a topic and its text."""

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
        """Where Home Assistant says that it has started."""
        return f"{self._prefix}/status"

    def configs(self, estimates: Sequence[Table]) -> dict[str, str]:
        """One message for each entity, by topic."""
        found = [*self._figures(estimates), *self._counts(), self._exposure()]
        return {
            f"{self._prefix}/{component}/{self._node}/{name}/config": json.dumps(
                {"unique_id": f"{self._node}_{name}", "object_id": f"{self._node}_{name}", **config, **self._common}
            )
            for component, name, config in found
        }

    def _figures(self, estimates: Sequence[Table]) -> Iterator[tuple[str, str, Table]]:
        for table in estimates:
            if table["figures"] > _MOST_FIGURES:
                continue
            group = f" ({table['group']})" if table["group"] else ""
            topic = estimate_topic(self._base, table["profile"], table["group"])
            for place, row in enumerate(table["estimates"]):
                # By its place, not by its name: a category may be called anything, and this becomes a template.
                value = f"value_json.estimates[{place}]"
                config: Table = {
                    "name": f"{row['name']}{group}",
                    "state_topic": topic,
                    "value_template": f"{{{{ {value}.value }}}}",
                    "json_attributes_topic": topic,
                    "json_attributes_template": f"{{{{ {value} | tojson }}}}",
                    "state_class": "measurement",
                    "expire_after": self._expire,
                }
                if row["unit"]:
                    config["unit_of_measurement"] = row["unit"]
                name = "_".join([table["profile"], *([table["group"]] if table["group"] else []), str(place)])
                yield "sensor", name, config

    def _counts(self) -> Iterator[tuple[str, str, Table]]:
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

    def _exposure(self) -> tuple[str, str, Table]:
        config = {
            "name": "Exposure",
            "state_topic": f"{self._base}/exposure",
            "event_types": ["exposed"],
            "value_template": "{{ dict(value_json, event_type='exposed') | tojson }}",
            "icon": "mdi:shield-alert",
        }
        return "event", "exposure", config
