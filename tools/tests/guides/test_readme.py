# SPDX-License-Identifier: MIT
"""The commands of the README run as written."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from guide import ROOT, start, type_in

from peel_tools.servers.broker import Broker

README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return README.split(f"## {title}\n")[1].split("\n## ")[0]


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.M | re.S)


def typed(commands: str, folder: Path, variables: dict[str, str] | None = None) -> str:
    run = type_in(commands, folder, variables)
    assert run.returncode == 0, run.stderr
    return run.stdout


def wait_until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@contextmanager
def running_gateway(command: str, folder: Path, variables: dict[str, str]) -> Iterator[None]:
    """Run a gateway from when it is connected to the broker; it must end in order."""
    (folder / "started.log").unlink(missing_ok=True)
    gateway = start(command, folder, variables)
    try:
        wait_until(lambda: (folder / "started.log").read_text().count("event=connected") == 2)
        yield
    finally:
        gateway.terminate()
        assert gateway.wait(60) == 0


def device(folder: Path, variables: dict[str, str]) -> dict[str, Any]:
    """Return the gateway's row of the first device."""
    row: dict[str, Any] = json.loads(typed("peel gateway devices --json", folder, variables))["items"][0]
    return row


def test_the_commands_and_the_program_run(tmp_path: Path) -> None:
    own_data, trial, reporting, own_fleet = blocks("", section("Use it"))
    rows = (f"{20 + place % 9},{50 + place % 31},{'sun' if place % 3 else 'rain'}" for place in range(200))
    (tmp_path / "weather.csv").write_text("\n".join(["temperature,humidity,sky", *rows]))
    typed(own_data.replace("demo --csv", "demo --seconds 3 --rate 300 --devices 40 --csv"), tmp_path)
    assert (tmp_path / "weather.toml").exists()
    with Broker(folder=tmp_path) as broker:
        variables = {"PEEL_GATEWAY_MQTT_PORT": str(broker.port), "PEEL_GATEWAY_HTTP_PORT": "0"}
        here = f"--broker 127.0.0.1:{broker.port}"
        *registering, running = trial.splitlines()
        typed("\n".join(registering), tmp_path)
        assert not list((tmp_path / "trial").rglob("bundles/*"))
        with running_gateway(running, tmp_path, variables):
            shorter = reporting.replace("--seconds 20", f"--seconds 2 {here}")
            assert "temperature" in typed(shorter, tmp_path, variables)
            asking = ".venv/bin/peel gateway estimates --json --config trial/gateway.toml"
            wait_until(lambda: json.loads(typed(asking, tmp_path, variables))["items"][0]["n"] > 0)

        *registering, running = own_fleet.splitlines()
        typed("\n".join(registering), tmp_path)
        assert len(list((tmp_path / "fleet" / "bundles").glob("*.json"))) == 40
        with running_gateway(running, tmp_path, variables):
            refused = type_in(f"peel simulate --fleet fleet --seconds 1 {here}", tmp_path)
            assert refused.returncode == 3 and "is a fleet of boards" in refused.stderr
            board = start(f"peel device run fleet/bundles/00000001.json {here} --interval 1 --simulate 1", tmp_path)
            wait_until(lambda: device(tmp_path, variables)["reports"].get("accepted", 0) > 1)
            board.kill()
            board.wait(30)
            assert device(tmp_path, variables)["exposed"] is None

    (program,) = blocks("python", (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8"))
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    residual = float(re.findall(r"\[([\d.e+-]+)\]", run.stdout)[-1])
    assert residual < 1e-3


def test_the_pictures_are_there_and_small() -> None:
    names = re.findall(r'src="(docs/images/[^"]+)"', README)
    assert len(names) == 2
    for name in names:
        assert 10_000 < (ROOT / name).stat().st_size < 200_000
