# SPDX-License-Identifier: MIT
"""The import rules of ARCHITECTURE.md hold in every module of the gateway."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from project_files import imports

import peel_gateway
from peel_gateway.fleet.folder import Fleet
from peel_gateway.settings import ENVIRONMENT_PREFIX
from peel_tools.servers import free_port

PACKAGE = Path(peel_gateway.__file__).parent

MAY_IMPORT = {
    "settings": set(),
    "model": set(),
    "mechanisms": {"model"},
    "screening": {"model", "mechanisms", "_kernels"},
    "estimation": {"model", "mechanisms"},
    "planning": {"mechanisms"},
    "storage": {"model", "_kernels", "settings", "files", "exits"},
    "engine": {"model", "mechanisms", "screening", "storage", "logs"},
    "fleet": {"model", "files", "exits"},
    "queries": {"model", "mechanisms", "estimation", "planning", "storage", "fleet", "settings", "files"},
    "notifiers": {"model", "screening", "storage", "fleet", "queries", "settings", "logs", "metrics"},
    "mqtt": {"model", "_kernels", "engine", "storage", "notifiers", "settings", "logs", "metrics", "files"},
    "web": {"queries", "storage", "settings", "logs", "metrics"},
    "service": {
        *("model", "screening", "storage", "engine", "fleet", "queries", "notifiers", "mqtt", "web"),
        *("settings", "logs", "metrics", "exits"),
    },
    "commands": {
        *("model", "estimation", "storage", "engine", "fleet", "queries"),
        *("settings", "service", "logs", "printing", "exits"),
    },
}
"""Per folder: the parts of the gateway that it may import; modules that stand alone are at the top and wire the rest."""

WITHOUT_IO = ("model", "mechanisms", "screening", "estimation", "planning")
DOES_IO = {"os", "io", "sqlite3", "socket", "time", "pathlib", "threading", "logging", "subprocess", "paho", "psycopg"}


def modules(folder: str) -> list[Path]:
    found = sorted((PACKAGE / folder).rglob("*.py"))
    assert found
    return found


def test_every_folder_has_its_rule() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(MAY_IMPORT)


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_a_folder_imports_only_what_is_below_it(folder: str) -> None:
    for path in modules(folder):
        for name in imports(path):
            assert not name.startswith("."), f"{path.relative_to(PACKAGE)} has a relative import"
            parts = name.split(".")
            if parts[0] == "peel_gateway":
                assert parts[1] in MAY_IMPORT[folder] | {folder}, f"{path.relative_to(PACKAGE)} imports {name}"


@pytest.mark.parametrize("folder", WITHOUT_IO)
def test_screening_and_estimation_do_no_io(folder: str) -> None:
    for path in modules(folder):
        for name in imports(path):
            assert name.split(".")[0] not in DOES_IO, f"{path.relative_to(PACKAGE)} imports {name}"


@pytest.mark.parametrize(("folder", "library"), [("sqlite", "sqlite3"), ("postgres", "psycopg")])
def test_only_the_store_behind_the_interface_knows_its_database(folder: str, library: str) -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        if PACKAGE / "storage" / folder in path.parents:
            continue
        for name in imports(path):
            assert name.split(".")[0] != library, f"{path.relative_to(PACKAGE)} imports {name}"
            chooses = path.relative_to(PACKAGE).as_posix() == "storage/choice.py"
            assert chooses or not name.startswith(f"peel_gateway.storage.{folder}"), f"{path} imports {name}"


ONE_MACHINE = """
import sys
from peel_gateway.commands.gateway import gateway
from peel_gateway.service.service import Service
from peel_gateway.settings import load_settings
service = Service(load_settings())
service.start()
service.stop()
print(*sys.modules)
"""


@pytest.mark.slow
def test_a_gateway_on_one_machine_loads_nothing_of_postgresql_and_workers(tmp_path: Path) -> None:
    Fleet.create(tmp_path / "fleet", "one")
    settings = {"FLEET_FOLDER": "fleet", "STORE_PATH": "peel.sqlite", "MQTT_PORT": str(free_port()), "HTTP_PORT": "0"}
    environment = {**os.environ, **{f"{ENVIRONMENT_PREFIX}{name}": value for name, value in settings.items()}}
    ran = subprocess.run(
        [sys.executable, "-c", ONE_MACHINE], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    loaded = ran.stdout.split()
    assert "peel_gateway.storage.sqlite.store" in loaded
    foreign = (
        "psycopg",
        "nats",
        "peel_gateway.storage.postgres",
        "peel_gateway.storage.leases",
        "peel_gateway.service.leasing",
    )
    assert [name for name in loaded if name.startswith(foreign)] == []
