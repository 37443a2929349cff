# SPDX-License-Identifier: MIT
"""The commands of docs/devices.md for a Pico W run, up to the point where a board is needed."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from guide import ROOT, start, type_in

from peel_tools.flashing.bundles import BundleError, check_bundle
from peel_tools.servers.broker import Broker

GUIDE = (ROOT / "docs" / "devices.md").read_text(encoding="utf-8")
NEEDS_A_BOARD = (".venv/bin/peel firmware flash", ".venv/bin/peel fleet provision")


def blocks() -> list[str]:
    """The indented blocks of the section about the Pico W, in order."""
    section = GUIDE.split("## A Pico W in five minutes\n")[1].split("\n## ")[0]
    found = re.findall(r"(?:^ {7}\S.*\n(?: {7,}.*\n)*)", section, flags=re.M)
    return ["\n".join(line[7:] for line in block.splitlines()) for block in found]


@pytest.fixture
def followed(tmp_path: Path) -> Path:
    """A folder in which every block was typed that needs neither a board nor root."""
    (tmp_path / "ca.der").write_bytes(b"a certificate")
    for block in blocks():
        if block.startswith("{"):
            (tmp_path / "fleet" / "template.json").write_text(block, encoding="utf-8")
        elif not block.startswith(("scripts/setup", *NEEDS_A_BOARD)):
            done = type_in(block, tmp_path)
            assert done.returncode == 0, f"{block}\n{done.stderr}"
    return tmp_path


def test_the_guide_leads_to_a_bundle_and_to_the_board_that_is_not_there(followed: Path) -> None:
    assert (followed / "fleet" / "bundles" / "00000001.json").is_file()
    (provision,) = [block for block in blocks() if block.startswith(".venv/bin/peel fleet provision")]
    done = type_in(provision + " --port auto --dry-run", followed)
    assert done.returncode == 7
    assert "no board was found. Plug it in, or name its port with --port" in done.stderr


def test_the_tools_are_installed_before_they_are_needed() -> None:
    first = blocks()[0]
    assert first.startswith("scripts/setup ")
    groups = first.split()[1:]
    assert {"base", "firmware"} <= set(groups)
    assert all((ROOT / "scripts" / "packages" / f"{group}.txt").is_file() for group in groups)


def test_a_fresh_bundle_comes_from_the_command_that_the_guide_names(followed: Path) -> None:
    (again,) = re.findall(r"^ {4}(\S+peel fleet bundle .*)$", GUIDE, flags=re.M)
    bundle = followed / "fleet" / "bundles" / "00000001.json"
    before = bundle.read_text()
    assert type_in(again, followed).returncode == 0
    assert '"first_number": 1,' in before
    assert '"first_number": 1,' not in bundle.read_text()


def test_bundles_that_were_written_without_a_template(followed: Path) -> None:
    """The warning of `peel fleet add` names a file and a command: together they make a bundle that a board takes."""
    template = followed / "fleet" / "template.json"
    sample = template.read_text()
    template.unlink()
    said = type_in(".venv/bin/peel fleet add fleet", followed).stderr
    assert re.findall(r"no template \((\S+)\)", said) == ["fleet/template.json"]
    bundle = followed / "fleet" / "bundles" / "00000002.json"
    with pytest.raises(BundleError, match="sensors"):
        check_bundle(json.loads(bundle.read_text()))
    template.write_text(sample)
    template.chmod(0o600)
    (again,) = re.findall(r"`(peel [^`]+)`", said)
    done = type_in(f".venv/bin/{again.replace('DEVICE', '2')}", followed)
    assert (done.returncode, done.stderr) == (0, "")
    check_bundle(json.loads(bundle.read_text()))


def test_the_device_runs_without_a_board(followed: Path) -> None:
    (run,) = re.findall(r"^ {4}(\S+peel device run .*)$", GUIDE, flags=re.M)
    with Broker() as broker:
        process = start(run.replace("localhost:1883", f"127.0.0.1:{broker.port}"), followed)
        deadline = time.monotonic() + 60
        while "00000001 of fleet greenhouse is up on host" not in (said := (followed / "started.log").read_text()):
            assert process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.1)
        process.terminate()
        process.wait(30)
