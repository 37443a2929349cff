# SPDX-License-Identifier: MIT
"""docs/reference.md matches the code: parameters of the HTTP routes, metrics, exit codes."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from peel_gateway.exits import Exit
from peel_gateway.fleet.folder import Fleet
from peel_tools.servers import free_port
from peel_tools.servers.gateway import GatewayProcess

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")


def rows(header: str) -> list[list[str]]:
    """Return the cells of the table with this header."""
    table = GUIDE.split(f"| {header} |\n")[1].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[1:]]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """Yield a gateway that runs without a broker."""
    folder = tmp_path_factory.mktemp("gateway")
    Fleet.create(folder / "fleet", "docs")
    process = GatewayProcess(fleet=folder / "fleet", folder=folder, broker_port=free_port())
    process.start(until="started")
    deadline = time.monotonic() + 30
    while process.ask("/api/summary") is None:
        assert process.pid is not None and time.monotonic() < deadline, process.log_tail()
        time.sleep(0.05)
    yield process
    process.stop()


def known_parameters(gateway: GatewayProcess, path: str) -> list[str]:
    """Return the parameters that a route lists when it refuses an unknown one."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{gateway.url}{path}?nonsense=1", timeout=10)
    assert refused.value.code == 400
    said = str(json.load(refused.value)["error"])
    return said.removeprefix("nonsense: unknown parameter; the known ones are: ").split(", ")


def test_the_parameters_are_those_that_the_routes_take(gateway: GatewayProcess) -> None:
    documented = {path.strip("`"): re.findall(r"`(\w+)`", text) for path, _, text in rows("path | what | parameters")}
    assert documented["/api/estimates"]
    for path, names in documented.items():
        if names:
            assert names == known_parameters(gateway, path), path


def test_metrics_that_are_mentioned_exist(gateway: GatewayProcess) -> None:
    with urllib.request.urlopen(f"{gateway.url}/metrics", timeout=10) as answer:
        known = set(re.findall(r"^# TYPE (\w+)", str(answer.read(), "utf-8"), flags=re.M))
    deploy = (Path(__file__).resolve().parents[1] / "deploy.md").read_text(encoding="utf-8")
    mentioned = set(re.findall(r"`(peel_\w+)", GUIDE + deploy))
    assert "peel_lag_seconds" in mentioned
    assert mentioned <= known


def test_every_exit_code_is_explained() -> None:
    documented = {int(code) for code, _ in rows("exit code | meaning")}
    assert documented == set(Exit)
