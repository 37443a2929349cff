# SPDX-License-Identifier: MIT
"""Home Assistant accepts the gateway's discovery messages. Its own code checks them, in a separate virtual environment."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from field import Field
from paho.mqtt.enums import CallbackAPIVersion

from peel_tools.boards.build_tools import MissingToolError
from peel_tools.boards.cache import cache_root

VERSION = "2024.3.3"
NEEDED = (f"homeassistant=={VERSION}", "paho-mqtt==1.6.1")
PYTHONS = ("python3.11", "/usr/bin/python3.11", "python3.12")
"""Those that this version of Home Assistant runs on."""
JUDGE = Path(__file__).parents[1] / "support" / "home_assistant_judge.py"
LADDER = (
    '[[attribute]]\nkind = "ladder"\nname = "co2"\nunit = "ppm"\nlow = 400\nhigh = 2000\nrungs = [800, 1200, 1600]\n'
)
BASE = "peel/v1/field/gateway/main"

pytestmark = pytest.mark.timeout(3600)  # the first time it is installed, with all that it needs


@pytest.fixture(scope="module")
def home_assistant() -> Path:
    """The Python of an environment with Home Assistant in it; PEEL_HOMEASSISTANT names one, else it is made in the cache, once."""
    given = os.environ.get("PEEL_HOMEASSISTANT")
    folder = Path(given) if given else cache_root() / f"homeassistant-{VERSION}"
    python = folder / "bin" / "python"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists() and not given:
            _install(folder)
    return python


def _install(folder: Path) -> None:
    host = next((path for name in PYTHONS if (path := shutil.which(name))), None)
    if host is None:
        raise MissingToolError(f"Home Assistant {VERSION} needs Python 3.11 or 3.12")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([host, "-m", "venv", str(folder)], check=True)
    command = [
        str(folder / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        *NEEDED,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingToolError(f"Home Assistant cannot be installed: {done.stderr[-500:]}")
    (folder / "complete").touch()


def heard_on(field: Field, enough: int) -> dict[str, str]:
    """Return the broker's retained messages, once there are that many announcements and all reports."""
    kept: dict[str, str] = {}
    full = threading.Event()

    def take(_: paho.Client, __: object, message: paho.MQTTMessage) -> None:
        kept[message.topic] = message.payload.decode()
        announced = [topic for topic in kept if topic.endswith("/config")]
        if (
            len(announced) == enough
            and '"n": 400' in kept.get(f"{BASE}/estimates/climate", "")
            and '"n": 600' in kept.get(f"{BASE}/estimates/air", "")
            and f"{BASE}/alert/warm" in kept
        ):
            full.set()

    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.on_connect = lambda client, *_: client.subscribe([(f"{BASE}/#", 1), ("homeassistant/#", 1)])
    client.on_message = take
    client.connect("127.0.0.1", field.broker.port)
    client.loop_start()
    try:
        assert full.wait(60), "\n".join(kept)
    finally:
        client.disconnect()
        client.loop_stop()
    return kept


def judged(python: Path, configs: dict[str, Any], payloads: dict[str, str]) -> Any:
    given = json.dumps({"configs": configs, "payloads": payloads})
    done = subprocess.run([str(python), str(JUDGE)], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_home_assistant_takes_every_announcement_and_reads_the_right_values(field: Field, home_assistant: Path) -> None:
    field.fleet.tag([1, 2, 3], add=["roof"])
    field.write_alerts('name = "warm"\nprofile = "climate"\nfigure = "temperature"\nabove = 0\nwindow = "1h"')
    below_1200 = field.reports_of("air", LADDER, [32768, -32768, -32768], 600)
    gateway = field.new_gateway(publish_homeassistant=True, publish_seconds=0.5).start()
    field.publish([*field.reports(400), *below_1200])
    field.wait_accepted(gateway, 1000)
    kept = heard_on(field, 2 * 2 + 3 + 1 + 5 + 1 + 1)
    configs = {topic: json.loads(text) for topic, text in kept.items() if topic.endswith("/config")}
    payloads = kept | {f"{BASE}/exposure": json.dumps({"device": "00000003", "evidence": "it's {{ 1 }}"})}
    shown = judged(home_assistant, configs, payloads)
    told = json.loads(kept[f"{BASE}/estimates/climate"])
    for row in told["estimates"]:
        entity = shown[f"homeassistant/sensor/peel_field_main/climate-{row['name']}/config"]
        assert float(entity["state"]) == pytest.approx(row["value"])
        attributes = json.loads(entity["attributes"])
        assert {key: attributes[key] for key in ("low", "high", "n")} == {key: row[key] for key in ("low", "high", "n")}
        assert (attributes["window"], attributes["since"]) == ("1h", told["since"])
    median = shown["homeassistant/sensor/peel_field_main/air-co2--median/config"]
    attributes = json.loads(median["attributes"])
    assert 800 <= float(median["state"]) <= 1200
    assert (attributes["low"], attributes["high"], attributes["n"]) == (800, 1200, 600)
    assert shown["homeassistant/sensor/peel_field_main/climate-roof-soil/config"]["state"] == "None", "too few reports"
    assert shown["homeassistant/sensor/peel_field_main/exposed_devices/config"]["state"] == "0"
    assert shown["homeassistant/sensor/peel_field_main/failing_devices/config"]["state"] == "0"
    warm = "homeassistant/binary_sensor/peel_field_main/alert-warm/config"
    assert shown[warm]["state"] == json.loads(kept[f"{BASE}/alert/warm"])["state"]
    assert shown[warm]["state"] in (configs[warm]["payload_on"], configs[warm]["payload_off"])
    event = json.loads(shown["homeassistant/event/peel_field_main/exposure/config"]["state"])
    assert event == {"event_type": "exposed", "device": "00000003", "evidence": "it's {{ 1 }}"}
    assert {entity["available"] for entity in shown.values()} == {"online"}


def test_home_assistant_would_have_refused_a_wrong_one(home_assistant: Path) -> None:
    with pytest.raises(AssertionError, match="state_topic"):
        judged(home_assistant, {"homeassistant/sensor/x/y/config": {"name": "no topic"}}, {})
