# SPDX-License-Identifier: MIT
"""The source distribution and the wheel, each installed in an empty environment far from any checkout: what users type works there."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from peel_tools.boards.build_tools import require
from peel_tools.boards.cache import REPOSITORY
from peel_tools.boards.natmod import build_natmod
from peel_tools.boards.table import ARCHITECTURES, BOARDS, CABLED
from peel_tools.servers.broker import Broker

EXTRAS = {"sdist": "", "wheel": "[broker,research]"}
"""The extras of each installation. Without extras, everything works that needs no board and no broker of its own."""


@dataclass(frozen=True)
class Installed:
    """An environment with Peel in it, from the source distribution or the wheel, and a folder to work in."""

    kind: str
    environment: Path
    folder: Path

    def peel(self, *words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run `peel` with no compiler on the path, no cache, and nobody's home."""
        hidden = ("PYTHONPATH", "VIRTUAL_ENV", "PEEL_CACHE", "XDG_CACHE_HOME", "MICROPYTHON_DIR")
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        return subprocess.run(
            [self.environment / "bin" / "peel", *words],
            cwd=self.folder,
            env={**kept, "PATH": str(self.environment / "bin"), "HOME": str(self.folder / "home")},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def typed(self, *words: str, timeout: float = 60) -> str:
        """Run `peel`, which must succeed, and return its output."""
        done = self.peel(*words, timeout=timeout)
        assert done.returncode == 0, f"peel {' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @property
    def carried(self) -> Path:
        """The device's files in the installed package."""
        (found,) = self.environment.glob("lib/python*/site-packages/peel_tools/flashing/device")
        return found


def run(*words: str | Path, **variables: str) -> None:
    environment = os.environ | variables
    done = subprocess.run(
        words, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both archives, as they are published."""
    require(*(architecture.compiler for architecture in ARCHITECTURES.values()))
    folder = tmp_path_factory.mktemp("dist")
    run("scripts/package", folder)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("peel_telemetry-*.whl")
    return {"sdist": sdist, "wheel": wheel}


@pytest.fixture(scope="module", params=list(EXTRAS))
def installed(
    request: pytest.FixtureRequest, packages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    kind: str = request.param
    folder = tmp_path_factory.mktemp(kind)
    (folder / "home").mkdir()
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", environment)
    beside = ("--find-links", packages[kind].parent)  # where the extra `research` finds its package
    run(environment / "bin" / "pip", "install", "--quiet", "--no-compile", *beside, f"{packages[kind]}{EXTRAS[kind]}")
    return Installed(kind, environment, folder)


SENSORS = {name: {"kind": "adc", "pin": 26} for name in ("temperature", "humidity")}


@pytest.fixture(scope="module")
def fleet(installed: Installed) -> str:
    """The folder of a fleet with three devices, made by the commands of README.md."""
    attributes = ("--mean", "temperature:-40:85:°C", "--mean", "humidity:0:100:%")
    installed.typed("profile", "new", "climate.toml", *attributes, "--quota", "6000", "--period", "60")
    installed.typed("fleet", "init", "fleet", "--name", "greenhouse")
    (installed.folder / "climate.toml").rename(installed.folder / "fleet" / "profiles" / "climate.toml")
    template = installed.folder / "fleet" / "template.json"
    template.write_text(json.dumps({"wifi": {"ssid": "net", "password": "secret words"}, "sensors": SENSORS}))
    template.chmod(0o600)
    assert "00000003" in installed.typed("fleet", "add", "fleet", "--profile", "climate", "--count", "3")
    return "fleet"


def test_the_wheel_has_what_a_board_needs_and_nothing_of_the_tests(packages: dict[str, Path]) -> None:
    names = zipfile.ZipFile(packages["wheel"]).namelist()
    carried = {name.removeprefix("peel_tools/flashing/device/") for name in names}
    assert {f"firmware/native/{arch}/peelcore.mpy" for arch in ARCHITECTURES} <= carried
    assert {
        path.relative_to(REPOSITORY).as_posix() for path in (REPOSITORY / "firmware/peel_device").glob("*.py")
    } <= carried
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {
        "peel_core",
        "peel_gateway",
        "peel_tools",
    }
    assert not [name for name in names if "/tests/" in name]


@pytest.fixture
def strict_umask() -> Iterator[None]:
    """New files are their owner's alone, as on careful machines."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("strict_umask")
def test_the_same_files_make_the_same_bytes(packages: dict[str, Path], tmp_path: Path) -> None:
    """On another day, in another folder, with other hashes and other habits."""
    elsewhere = tmp_path / "a longer name" / "below"
    elsewhere.mkdir(parents=True)
    run("scripts/package", tmp_path / "again", TMPDIR=str(elsewhere), PYTHONHASHSEED="7", TZ="Asia/Tokyo", LC_ALL="C")
    again = {path.name: digest(path) for path in (tmp_path / "again").iterdir()}
    assert again == {path.name: digest(path) for path in packages["wheel"].parent.iterdir()}
    assert {Path(name).suffix for name in again} == {".whl", ".gz", ".json"}


def test_it_is_this_version_from_the_environment_alone(installed: Installed) -> None:
    assert installed.typed("--version") == f"peel, version {version('peel-telemetry')}\n"
    code = "import peel_core, peel_gateway, peel_tools\nprint(peel_core.__file__, peel_gateway.__file__, peel_tools.__file__)"
    done = subprocess.run(
        [installed.environment / "bin" / "python", "-Pc", code], cwd=installed.folder, capture_output=True, text=True
    )
    assert done.stdout.count(str(installed.environment)) == 3, done.stderr


@pytest.mark.parametrize("board", CABLED)
def test_provisioning_finds_all_files_without_checkout_or_compiler(
    installed: Installed, fleet: str, board: str
) -> None:
    path = installed.folder / fleet / "bundles" / "00000002.json"
    bundle = json.loads(path.read_text()) | {"transport": "wifi" if BOARDS[board].network else "uart"}
    path.write_text(json.dumps(bundle))
    plan = installed.typed("fleet", "provision", "00000002", "--fleet", fleet, "--board", board, "--dry-run")
    listed = {words[0]: words[-1] for words in map(str.split, plan.splitlines()) if words[2:3] == ["bytes"]}
    assert listed["peelcore.mpy"] == digest(build_natmod(BOARDS[board].usual_module))
    assert listed[f"boards/{board}.py"] == digest(REPOSITORY / f"firmware/boards/{board}.py")
    assert listed["main.py"] == digest(REPOSITORY / "firmware/main.py")
    assert not any(bundle[secret] in plan for secret in ("seal_key", "index_key", "receipt_key", "seed"))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def no_module_for_the_esp32(installed: Installed) -> Iterator[None]:
    module = installed.carried / "firmware/native/xtensawin/peelcore.mpy"
    aside = module.rename(installed.folder / "peelcore.mpy")
    yield
    aside.rename(module)


@pytest.mark.usefixtures("no_module_for_the_esp32")
def test_a_missing_native_module_is_named_with_the_way_to_get_it(installed: Installed, fleet: str) -> None:
    done = installed.peel("fleet", "provision", "00000003", "--fleet", fleet, "--board", "esp32", "--dry-run")
    assert done.returncode == 7
    assert "no native module for xtensawin" in done.stderr
    assert "(`peel firmware natmod xtensawin`) and name it with --module" in done.stderr


def test_what_needs_the_sources_says_so(installed: Installed) -> None:
    for words in (("firmware", "natmod", "x64"), ("firmware", "build", "pico")):
        done = installed.peel(*words)
        assert (done.returncode, "not part of the installed package. Clone" in done.stderr) == (7, True), done.stderr


ADVICE = {"sdist": "pip install 'peel-telemetry[research]'", "wheel": "not part of the installed package. Clone"}


@pytest.mark.parametrize("benchmark", ["core", "device"])
def test_a_benchmark_says_what_it_needs(installed: Installed, benchmark: str) -> None:
    done = installed.peel("bench", benchmark)
    assert (done.returncode, ADVICE[installed.kind] in done.stderr) == (7, True), done.stderr


def test_simulated_devices_report(installed: Installed) -> None:
    """Without a gateway: so their coins are not verified."""
    made = ("profile", "new", "trial.toml", "--mean", "temperature:-40:85:°C", "--quota", "100000", "--no-verify")
    installed.typed(*made)
    installed.typed("fleet", "init", "trial", "--name", "trial", "--profile", "trial.toml", "--simulated")
    installed.typed("fleet", "add", "trial", "--count", "3")
    with Broker() as broker:
        address = f"{broker.host}:{broker.port}"
        answer = installed.typed("simulate", "--fleet", "trial", "--broker", address, "--reports", "30", "--json")
    assert json.loads(answer.splitlines()[-1])["acknowledged"] == 30


@pytest.mark.parametrize("installed", ["sdist"], indirect=True)
def test_without_the_embedded_broker_the_way_to_get_it_is_named(installed: Installed) -> None:
    done = installed.peel("demo", "--seconds", "1", "--broker", "embedded")
    assert (done.returncode, "pip install 'peel-telemetry[broker]'" in done.stderr) == (7, True), done.stderr


@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_the_demonstration_holds_with_the_embedded_broker(installed: Installed) -> None:
    answer = installed.typed("demo", "--seconds", "20", "--json", "--broker", "embedded", timeout=180)
    outcome = json.loads(answer.splitlines()[-1])
    assert outcome["faults"] == []
    assert outcome["accepted"] > 1000
    assert outcome["honest_exposed"] == outcome["lost"] == 0
