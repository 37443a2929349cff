# SPDX-License-Identifier: MIT
"""Runs with Home Assistant's own Python: has its schemas judge discovery messages, and its templates read what they are to read.

Takes {"configs": {topic: config}, "payloads": {topic: text}} and prints, for each config, what Home Assistant would show.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from typing import Any

from homeassistant.components.mqtt import binary_sensor, event, sensor
from homeassistant.core import HomeAssistant
from homeassistant.helpers.template import Template

SCHEMAS = {
    "binary_sensor": binary_sensor.DISCOVERY_SCHEMA,
    "sensor": sensor.DISCOVERY_SCHEMA,
    "event": event.DISCOVERY_SCHEMA,
}
TEMPLATES = {
    "state": ("state_topic", "value_template"),
    "attributes": ("json_attributes_topic", "json_attributes_template"),
    "available": ("availability_topic", "availability_template"),
}


async def main() -> None:
    given = json.load(sys.stdin)
    home = HomeAssistant(tempfile.mkdtemp())
    shown: dict[str, Any] = {}
    for topic, config in given["configs"].items():
        SCHEMAS[topic.split("/")[1]](config)  # raises when it is not to be had
        shown[topic] = {
            name: Template(config[template], home).async_render_with_possible_json_value(
                given["payloads"][config[source]]
            )
            for name, (source, template) in TEMPLATES.items()
            if template in config and config.get(source) in given["payloads"]
        }
    print(json.dumps(shown))


asyncio.run(main())
