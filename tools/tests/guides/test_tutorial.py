# SPDX-License-Identifier: MIT
"""Every command of docs/tutorial.md works, in its order, up to the point where a board is needed."""

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

import pytest
from guide import ROOT, start, type_in

from peel_tools.flashing.bundles import BundleError, check_bundle
from peel_tools.servers.broker import Broker

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def blocks(language: str, text: str) -> list[str]:
    """Return the fenced blocks of a language; commands have none."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.M | re.S)
    return [block for found, block in fenced if found == language]


def step(number: int) -> str:
    """Return the text of a numbered section."""
    return TUTORIAL.split(f"\n## {number}. ")[1].split("\n## ")[0]


def typed(commands: str, folder: Path, variables: dict[str, str] | None = None) -> str:
    """Type commands, which must succeed, and return their output."""
    run = type_in(commands, folder, variables)
    assert run.returncode == 0, f"{commands}\n{run.stderr}"
    return run.stdout


def wait_until(holds: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(folder=tmp_path) as broker:
        yield broker


def variables(broker: Broker) -> dict[str, str]:
    return {"PEEL_GATEWAY_MQTT_PORT": str(broker.port), "PEEL_GATEWAY_HTTP_PORT": "0"}


@contextmanager
def running_gateway(command: str, folder: Path, broker: Broker) -> Iterator[None]:
    """Run a gateway from when it is connected to the broker. It must end in order."""
    gateway = start(command, folder, variables(broker))
    try:
        wait_until(lambda: (folder / "started.log").read_text().count("event=connected") == 2)
        yield
    finally:
        gateway.terminate()
        assert gateway.wait(60) == 0


def test_own_data_and_a_plan(tmp_path: Path) -> None:
    rows = (f"{20 + place % 9},{50 + place % 31},{'sun' if place % 3 else 'rain'}" for place in range(200))
    (tmp_path / "weather.csv").write_text("\n".join(["temp (°C),humidity,sky", *rows]))
    propose, demo = blocks("", step(1))
    assert "weather.toml: temp (mean), humidity (mean), sky (category)" in typed(propose, tmp_path)
    assert "honest exposed 0 reports" in typed(f"{demo.strip()} --seconds 3 --rate 300 --devices 40", tmp_path)
    (plan,) = blocks("", step(2))
    assert " devices, 2 attributes, 2 questions" in typed(plan, tmp_path)


def test_a_simulated_fleet(tmp_path: Path, broker: Broker) -> None:
    making, reporting = blocks("", step(3))
    *registering, running = making.splitlines()
    typed("\n".join(registering), tmp_path)
    with running_gateway(running, tmp_path, broker):
        simulate, *asking = reporting.splitlines()
        typed(f"{simulate} --broker 127.0.0.1:{broker.port}".replace("--seconds 20", "--seconds 6"), tmp_path)
        assert "temperature" in typed(asking[0], tmp_path, variables(broker))
        wait_until(lambda: "  rule  " in typed(asking[1], tmp_path, variables(broker)))


@pytest.fixture
def own_fleet(tmp_path: Path) -> Path:
    """Return a folder with the fleet of step 4."""
    making, registering, _ = blocks("", step(4))
    typed(making, tmp_path)
    (template,) = blocks("json", step(4))
    (tmp_path / "fleet" / "template.json").write_text(template, encoding="utf-8")
    typed("\n".join(registering.splitlines()[:-1]), tmp_path)
    return tmp_path


def test_an_own_fleet(own_fleet: Path, broker: Broker) -> None:
    _, registering, (device_run,) = (block.splitlines() for block in blocks("", step(4)))
    with running_gateway(registering[-1], own_fleet, broker):
        refused = type_in("peel simulate --fleet fleet --seconds 1", own_fleet)
        assert refused.returncode == 3 and "is a fleet of boards" in refused.stderr
        here = device_run.replace("localhost:1883", f"127.0.0.1:{broker.port}")
        device = start(f"{here} --interval 1", own_fleet)
        wait_until(lambda: second_device(own_fleet, broker)["held"] > 1)
        device.kill()
        device.wait(30)
        assert second_device(own_fleet, broker)["exposed"] is None


def second_device(folder: Path, broker: Broker) -> dict[str, Any]:
    """Return what the gateway says of device 00000002."""
    row: dict[str, Any] = json.loads(typed("peel gateway devices --json", folder, variables(broker)))["items"][1]
    return row


def test_an_own_board_up_to_the_board(own_fleet: Path) -> None:
    setting_up, board = blocks("", step(5))
    groups = setting_up.split()[1:]
    assert setting_up.startswith("scripts/setup ") and {"base", "firmware"} <= set(groups)
    assert all((ROOT / "scripts" / "packages" / f"{group}.txt").is_file() for group in groups)
    flash, provision = board.splitlines()
    assert flash.startswith(".venv/bin/peel firmware flash ")
    (own_fleet / "ca.der").write_bytes(b"a certificate")
    done = type_in(f"{provision} --port auto --dry-run", own_fleet)
    assert done.returncode == 7
    assert "no board was found. Plug it in, or name its port with --port" in done.stderr


def test_a_fresh_bundle_continues_above_the_former_one(own_fleet: Path) -> None:
    (again,) = re.findall(r"^ {4}(\S+peel fleet bundle .*)$", (ROOT / "docs" / "devices.md").read_text(), flags=re.M)
    bundle = own_fleet / "fleet" / "bundles" / "00000001.json"
    assert '"first_number": 1,' in bundle.read_text()
    typed(again, own_fleet)
    assert '"first_number": 1,' not in bundle.read_text()


def test_bundles_that_were_written_without_a_template(own_fleet: Path) -> None:
    """The warning of `peel fleet add` names a file and a command: together they make a bundle that a board takes."""
    template = own_fleet / "fleet" / "template.json"
    sample = template.read_text()
    template.unlink()
    said = type_in(".venv/bin/peel fleet add fleet", own_fleet).stderr
    assert re.findall(r"no template \((\S+)\)", said) == ["fleet/template.json"]
    bundle = own_fleet / "fleet" / "bundles" / "00000003.json"
    with pytest.raises(BundleError, match="sensors"):
        check_bundle(json.loads(bundle.read_text()))
    template.write_text(sample)
    template.chmod(0o600)
    (again,) = re.findall(r"`(peel [^`]+)`", said)
    done = type_in(f".venv/bin/{again.replace('DEVICE', '3')}", own_fleet)
    assert (done.returncode, done.stderr) == (0, "")
    check_bundle(json.loads(bundle.read_text()))


def test_the_python_program_of_how_it_works_runs(own_fleet: Path) -> None:
    (program,) = blocks("python", (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8"))
    run = subprocess.run([sys.executable, "-c", program], cwd=own_fleet, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    residual = float(re.findall(r"\[([\d.e+-]+)\]", run.stdout)[-1])
    assert residual < 1e-3
