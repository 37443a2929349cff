# SPDX-License-Identifier: MIT
"""`peel fleet` when it is killed, run twice at once, writes into a closed pipe, or gets strange arguments."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from peel_core.projection import search_seed
from peel_gateway.fleet.folder import Fleet
from peel_tools.cli import main

PEEL = [sys.executable, "-m", "peel_tools"]
PROFILE = f"""name = "climate"
epsilon = 1.0
verify = false
seed = {search_seed(48, 1)[0]}
quota = 60
period = 3600
[[attribute]]
name = "temperature"
kind = "mean"
low = -10
high = 50
"""
DYING = """
import contextlib, os, signal, sys
sync, armed = os.fsync, [True]

def fsync(descriptor):
    with contextlib.suppress(IndexError):
        if "/bundles/" in os.readlink(f"/proc/self/fd/{descriptor}") and armed.pop():
            os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    sync(descriptor)

os.fsync = fsync
from peel_tools.cli import main
main(sys.argv[2:])
"""
"""`peel` that gets a signal while it writes bundles."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "climate.toml").write_text(PROFILE)
    return Fleet.create(tmp_path / "fleet", "home", [tmp_path / "climate.toml"]).folder


def peel(*words: object) -> Result:
    return CliRunner().invoke(main, list(map(str, words)))


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob(".peel-tmp-*"))


@pytest.mark.parametrize("killed_by", ["SIGTERM", "SIGINT", "SIGKILL"])
def test_a_killed_command_leaves_no_file_with_keys(folder: Path, killed_by: str) -> None:
    command = [sys.executable, "-c", DYING, killed_by, "fleet", "add", str(folder), "--count", "3"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert list((folder / "bundles").glob("*.json")) == [], "it was in the middle"
    if killed_by == "SIGTERM":
        assert process.returncode == -signal.SIGTERM
    if killed_by == "SIGKILL":
        left = leftovers(folder)
        assert len(left) == 3, "nobody could remove them"
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in left)
        assert peel("fleet", "note", folder, "1", "x").exit_code == 0  # any command that changes the fleet
    assert leftovers(folder) == []


@pytest.mark.slow
def test_of_two_inits_at_once_one_wins(tmp_path: Path) -> None:
    command = [*PEEL, "fleet", "init", str(tmp_path / "fleet"), "--name"]
    processes = [
        subprocess.Popen([*command, f"fleet-{place}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for place in range(6)
    ]
    said = [process.communicate(timeout=60) for process in processes]
    (winner,) = [place for place, process in enumerate(processes) if process.returncode == 0]
    assert Fleet(tmp_path / "fleet").name == f"fleet-{winner}"
    Fleet(tmp_path / "fleet").master()  # the key that goes with the name
    assert all("is a fleet already" in error for place, (_, error) in enumerate(said) if place != winner)


def test_an_interrupted_init_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "master.key").touch()
    done = peel("fleet", "init", tmp_path / "fleet", "--name", "home")
    assert done.exit_code == 3
    assert "restore fleet.toml" in done.stderr and "remove the folder" in done.stderr


def test_the_lock_does_not_follow_a_link(folder: Path, tmp_path: Path) -> None:
    (folder / ".lock").unlink(missing_ok=True)
    (tmp_path / "precious").write_text("precious")
    (folder / ".lock").symlink_to(tmp_path / "precious")
    done = peel("fleet", "add", folder)
    assert (done.exit_code, (tmp_path / "precious").read_text()) == (3, "precious")
    assert ".lock: is a symbolic link" in done.stderr and "Remove it" in done.stderr


@pytest.mark.parametrize("who", ["ada\x1b[2J", "ada\nroot", "\t", "", "x" * 101])
def test_who_can_be_shown(folder: Path, who: str) -> None:
    peel("fleet", "add", folder)
    done = peel("fleet", "revoke", folder, "1", "--who", who)
    assert done.exit_code == 2
    assert "printable characters" in done.stderr
    assert Fleet(folder).audit() == []


def test_count_and_id_contradict_each_other(folder: Path) -> None:
    done = peel("fleet", "add", folder, "--id", "5", "--count", "3")
    assert done.exit_code == 2
    assert "--count 3 cannot be combined with --id: repeat --id for each device" in done.stderr
    assert len(Fleet(folder).devices()) == 0
    assert peel("fleet", "add", folder, "--id", "5", "--id", "6", "--id", "7").exit_code == 0
    assert [device.id for device in Fleet(folder).devices()] == [5, 6, 7]


def test_a_closed_pipe_is_no_error(folder: Path) -> None:
    Fleet(folder).add("climate", count=3000)
    listing = subprocess.Popen([*PEEL, "fleet", "list", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert listing.stdout is not None and listing.stderr is not None
    listing.stdout.readline()
    listing.stdout.close()  # as `head -1` does
    assert listing.stderr.read() == b""
    assert listing.wait(60) == 0


def test_a_terminal_sees_how_far_it_is(folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [*PEEL, "fleet", "add", str(folder), "--count", "600"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
        assert process.wait(60) == 0
    os.close(ours)
    assert b"writing bundles" in shown and b"100%" in shown
    assert shown.count(b"\r") > 2, "it moved"
    assert len(list((folder / "bundles").glob("*.json"))) == 600


def test_devices_that_were_never_heard_are_not_active(folder: Path) -> None:
    peel("fleet", "add", folder, "--count", "2")
    peel("fleet", "revoke", folder, "2")
    rows = json.loads(peel("fleet", "list", folder, "--json").stdout)["items"]
    assert [row["state"] for row in rows] == ["registered", "revoked"]
