# SPDX-License-Identifier: MIT
"""Every command that a document shows is typed, in its order, against a real broker and a real gateway; or it is said why not."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from guide import commands, documents, start, type_in

from peel_gateway.fleet.folder import Fleet
from peel_gateway.settings import ENVIRONMENT_PREFIX
from peel_tools.servers import free_port
from peel_tools.servers.broker import Broker
from peel_tools.simulation.publisher import BrokerAddress
from peel_tools.simulation.session import Plan, Session

NOT_TYPED = {
    r"make (run|test)\b": "this test is part of it",
    r"scripts/setup": "has run before any test",
    r"systemctl": "no service manager here",
    r"make -C ports/esp32": "needs Espressif's toolchain",
    r"\S*peel firmware flash": "needs a board; up to there in test_flashing_image.py",
    r"\S*peel fleet provision": "needs a board; on an emulated one in test_flashing_provision.py",
    r"peel fleet accept-restored": "needs an old copy of the folder; in test_restored_folder.py",
    r"peel gateway release": "needs a device that does not answer; in test_release.py",
    r"cc ": "in test_c_example.py",
    r"scripts/(test firmware|types)": "part of the same run as this",
    r"peel soak": "in test_soak.py",
    r"peel gateway run --store postgresql": "in test_workers.py",
    r"pip install 'peel-telemetry": "in test_install.py",
    r"\S*peel lab tables": "in test_lab_tables.py",
}
"""Commands that are run elsewhere, or cannot be."""
OWN_TEST = {
    "README.md": "test_readme.py",
    "docs/tutorial.md": "test_tutorial.py",
    "docs/devices.md": "test_tutorial.py",
}
"""Documents that are followed by tests of their own, which look at what comes out."""
A_FLEETS_LIFE = ["firmware/README.md", "docs/deploy.md"]
"""Documents about one fleet, in the order in which its operator needs them."""
ALONE = ["docs/privacy.md"]
"""Documents that can be followed on their own."""
FOREVER = re.compile(r"\S*peel (gateway run|device run .*)( +#.*)?$")
"""Commands that run until they are stopped."""
SHORTER = {
    r"peel demo(?= )": "peel demo --rate 300 --devices 40",
    r"(?<=peel demo --rate 300 --devices 40)(?! --seconds)": " --seconds 3",
    r"--seconds (30|600)": "--seconds 3",
    r"peel profile new climate.toml": "peel profile new climate.toml --quota 100000 --no-verify",
    r"peel bench privacy": "peel bench privacy --devices 2",
}
"""The same with less patience."""


class Stage:
    """A folder and a broker, and somebody who follows a document there."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder = folder
        self.http_port = free_port()
        self._broker = broker
        self._running: list[subprocess.Popen[bytes]] = []
        settings = {"MQTT_PORT": broker.port, "HTTP_PORT": self.http_port, "PUBLISH_SECONDS": 1}
        self._variables = {ENVIRONMENT_PREFIX + name: str(value) for name, value in settings.items()}

    def type(self, line: str) -> str:
        """Type a line as it stands in a document; what does not end is left running."""
        here = self._here(line)
        if FOREVER.match(line):
            self._running.append(start(here, self.folder, self._variables))
            time.sleep(3)
            assert self._running[-1].poll() is None, f"{line}\n{(self.folder / 'started.log').read_text()}"
            return ""
        done = type_in(here, self.folder, self._variables)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @property
    def broker_address(self) -> BrokerAddress:
        return BrokerAddress(host=self._broker.host, port=self._broker.port)

    def stop(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        self._running = []

    def _here(self, line: str) -> str:
        """The same at this place, where nothing else of the machine is touched."""
        places = {
            r"\b(localhost|host):1883": f"127.0.0.1:{self._broker.port}",
            r"127\.0\.0\.1:8420": f"127.0.0.1:{self.http_port}",
            r"mosquitto_sub": f"mosquitto_sub -C 1 -W 30 -p {self._broker.port}",
            r"/var/lib/peel/fleet|FOLDER": "fleet",
            r"/etc/peel/": "",
            r"/backup/": "backup/",
        }
        for shown, here in (SHORTER | places).items():
            line = re.sub(shown, here, line)
        return line


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A broker, and nothing but a file of readings and a template."""
    rows = (f"{20 + place % 9},{50 + place % 31},{'sun' if place % 3 else 'rain'}" for place in range(200))
    (tmp_path / "weather.csv").write_text("\n".join(["temperature,humidity,sky", *rows]))
    sensors = {"temperature": {"kind": "adc", "pin": 26}, "humidity": {"kind": "adc", "pin": 27}}
    (tmp_path / "template.json").write_text(json.dumps({"mqtt": {"host": "127.0.0.1"}, "sensors": sensors}))
    (tmp_path / "backup").mkdir()
    with Broker(embedded=False) as broker:
        stage = Stage(tmp_path, broker)
        try:
            yield stage
        finally:
            stage.stop()


def typed(document: str) -> list[str]:
    return [line for line in commands(document) if not any(re.match(pattern, line) for pattern in NOT_TYPED)]


def test_no_exception_is_out_of_use() -> None:
    lines = [line for document in documents() for line in commands(document)]
    assert [pattern for pattern in NOT_TYPED if not any(re.match(pattern, line) for line in lines)] == []
    assert all((Path(__file__).parent / name).is_file() for name in OWN_TEST.values())


def test_no_document_is_left_out() -> None:
    assert set(A_FLEETS_LIFE) | set(ALONE) == {name for name in documents() if name not in OWN_TEST and typed(name)}


@pytest.mark.parametrize("document", ALONE)
def test_a_document_can_be_followed(stage: Stage, document: str) -> None:
    for line in typed(document):
        stage.type(line)


BEFORE = [
    "peel profile new climate.toml --mean temperature:-40:85:°C --mean humidity:0:100:%",
    "peel fleet init fleet --name greenhouse --profile climate.toml",
    "peel fleet add fleet --count 50",
    "peel gateway settings --sample > gateway.toml",
    "peel gateway run",
]
"""Commands that an operator has typed before: those of the tutorial, with more devices."""


def test_a_fleets_life(stage: Stage) -> None:
    """From a running fleet to exposed devices that are pardoned, to a copy that is restored: one document after the other."""
    for line in BEFORE:
        stage.type(line)
    for document in A_FLEETS_LIFE:
        for line in typed(document):
            make_ready(stage, line)
            stage.type(line + " --yes" if "--cause" in line else line)
    assert "was flashed with a test profile" in stage.type("peel gateway audit --device 2a")


def make_ready(stage: Stage, line: str) -> None:
    """Bring about what a document takes for given: somebody exposed, revoked, stopped."""
    if "pardon --cause" in line:
        stage.type("peel gateway pardon --cause rule --reason 'so that they can be exposed anew' --yes")
        expose(stage, "clone.sqlite", {}, cause="reused")  # which knows nothing of the numbers that were used
    elif "pardon 2a" in line:
        expose(stage, "truth.sqlite", {"budget": 1.0}, cause="rule", device="0000002a")
    if "fleet unrevoke" in line:
        stage.type("peel fleet revoke fleet 2a --reason lost")
    # A device that runs here keeps its flash beside its bundle, where `cp` would meet files that come and go.
    if "cp -a" in line or "gateway restore" in line:
        stage.stop()


def expose(stage: Stage, truth: str, shares: dict[str, float], *, cause: str, device: str | None = None) -> None:
    """Have all devices do wrong until the gateway has exposed one, or any, for it."""
    plan = Plan(rate=400, burst=1, shares=shares)
    deadline = time.monotonic() + 120
    with Session(Fleet(stage.folder / "fleet"), stage.broker_address, stage.folder / truth, plan) as session:
        while cause not in (found := causes(stage, device)):
            assert time.monotonic() < deadline, found
            session.simulation.run(reports=150)
            assert session.simulation.drain(30)


def causes(stage: Stage, device: str | None) -> list[str | None]:
    """Return the cause of a device's exposure, or of each device's."""
    rows: list[dict[str, Any]] = json.loads(stage.type("peel gateway devices --json"))["items"]
    return [row["exposed"] for row in rows if device in (None, row["device"])]
