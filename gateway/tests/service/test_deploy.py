# SPDX-License-Identifier: MIT
"""The systemd unit and the container file: checked by systemd, and compared with the running gateway."""

from __future__ import annotations

import configparser
import fnmatch
import getpass
import grp
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from click import Command, Context, Group
from field import Field

from peel_gateway.exits import LASTING
from peel_gateway.service.pipeline import DRAIN_SECONDS
from peel_gateway.settings import load_settings, settings_table
from peel_tools.boards.build_tools import require
from peel_tools.cli import main

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "gateway" / "deploy"
UNIT = (DEPLOY / "peel-gateway.service").read_text(encoding="utf-8")
CONTAINER = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
MOST_EXPOSED = 20
"""The highest exposure level, of 100, that `systemd-analyze security` may report."""


def unit() -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # as its documentation wants it
    parser.read_string(UNIT)
    return parser["Service"]


def knows(words: list[str]) -> None:
    """The words lead to a command, whose options there are."""
    command: Command = main
    while isinstance(command, Group):
        found = command.get_command(Context(command), words.pop(0))
        assert found is not None
        command = found
    options = {name for param in command.params for name in param.opts}
    assert {word for word in words if word.startswith("-")} <= options


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    require("systemd-analyze")
    path = tmp_path / "peel-gateway.service"
    path.write_text(UNIT.replace("/opt/peel/bin/peel", sys.executable))  # it looks whether the program is there
    done = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    security = ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(path)]
    judged = subprocess.run(security, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout[-500:]


def test_the_unit_fits_the_gateway() -> None:
    program, *words = shlex.split(unit()["ExecStart"])
    assert program.endswith("/peel")
    knows(words)
    assert {int(code) for code in unit()["RestartPreventExitStatus"].split()} == LASTING
    assert float(unit()["TimeoutStopSec"]) > DRAIN_SECONDS + 10
    assert unit()["ExecReload"].startswith("/bin/kill -HUP")


def test_the_unit_is_installed_as_its_head_says(tmp_path: Path) -> None:
    """Typed as it stands, but for other folders and the user that runs the test, it leads to a gateway that starts."""
    lines = [line.removeprefix("#   ") for line in UNIT.splitlines() if line.startswith("#   ")]
    typed = [line for line in lines if not line.startswith(("useradd", "python3 -m venv", "cp peel-gateway.service"))]
    assert len(typed) == len(lines) - 3
    me, mine = getpass.getuser(), grp.getgrgid(os.getgid()).gr_name
    here = {
        "/opt/peel/bin/peel": f"{sys.executable} -m peel_tools",
        "/var/lib/peel": str(tmp_path / "lib"),
        "/etc/peel": str(tmp_path / "etc"),
        "-o peel -g peel": f"-o {me} -g {mine}",
        "runuser -u peel -- ": "",
    }

    def moved(text: str) -> str:
        for before, after in here.items():
            text = text.replace(before, after)
        return text

    subprocess.run(["bash", "-euc", moved("\n".join(typed))], check=True)
    settings = tmp_path / "etc" / "gateway.toml"
    assert settings.stat().st_mode & 0o777 == 0o600
    assert load_settings(settings, {}).store_path == tmp_path / "lib" / "peel.sqlite"
    alone = os.environ | {"PEEL_GATEWAY_MQTT_PORT": "1", "PEEL_GATEWAY_HTTP_PORT": "0"}
    command = shlex.split(moved(unit()["ExecStart"]))
    with subprocess.Popen(command, cwd=tmp_path, env=alone, stderr=subprocess.PIPE, text=True) as gateway:
        assert gateway.stderr is not None
        assert any("event=started" in line and "fleet=greenhouse" in line for line in gateway.stderr)
        gateway.terminate()
        gateway.stderr.read()
    assert gateway.returncode == 0


def left_out(name: str) -> bool:
    """Whether .dockerignore keeps a path out of an image: by its own pattern, or by that of a folder above it."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    parts = Path(name).parts
    for place, part in enumerate(parts):
        for pattern in patterns:
            deep = pattern.removeprefix("**/")
            if (deep != pattern or place == 0) and fnmatch.fnmatchcase(part, deep):
                return True
    return False


def test_an_image_takes_in_no_keys_and_all_of_the_project() -> None:
    for name in (
        "fleet/master.key",
        "a/b/master.key",
        "fleet/bundles/00000001.json",
        "peel.sqlite",
        "x/peel.sqlite-wal",
    ):
        assert left_out(name), name
    for name in (".git/config", ".venv/bin/peel", "build/x", "gateway.toml", "bindings/host/peel_core/_core.abi3.so"):
        assert left_out(name), name
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in tracked if left_out(name) and not name.startswith("spec/compat/")] == []


def test_the_container_file_names_what_there_is(field: Field) -> None:
    variables = {row.variable for row in settings_table()}
    assert set(re.findall(r"PEEL_GATEWAY_\w+", CONTAINER)) <= variables
    assert "PEEL_GATEWAY_STORE_URL" in variables and "/src[postgres]" in CONTAINER, "all settings can be used"
    entry, command = (json.loads(found) for found in re.findall(r"^(?:ENTRYPOINT|CMD) (.*)$", CONTAINER, re.M))
    assert entry == ["peel"]
    knows(list(command))
    (check,) = (json.loads(found) for found in re.findall(r"^HEALTHCHECK .*\\\n  CMD (.*)$", CONTAINER, re.M))
    token = {"http_token": "a token of some length"}
    gateway = field.new_gateway("gateway", **token, health_broker_seconds=0).start(until="started")
    call = [sys.executable, "-c", check[-1].replace("http://127.0.0.1:8420", gateway.url)]
    gateway.wait_for(lambda: subprocess.run(call, check=False, capture_output=True).returncode == 0)  # has no token
    field.broker.kill()
    gateway.wait_for(lambda: subprocess.run(call, check=False, capture_output=True).returncode == 1)
