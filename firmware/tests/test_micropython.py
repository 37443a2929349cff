# SPDX-License-Identifier: MIT
"""The application on a real MicroPython: the unix port with the core built in, against a real broker."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from pathlib import Path
from types import ModuleType

import pytest
from inbox import Inbox
from peel_hil.emulators.images import board_image

from host_board import bundle
from peel_tools.boards.umqtt import umqtt_folder
from peel_tools.broker import Broker

TESTS = Path(__file__).parent
SEAL_KEY = bytes.fromhex("00112233445566778899aabbccddeeff")


@pytest.fixture(scope="session")
def micropython(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter; built once, then cached."""
    program = tmp_path_factory.mktemp("unix") / "micropython"
    shutil.copy(board_image("unix").elf, program)
    program.chmod(0o755)
    return program


def command(micropython: Path, script: str, *arguments: Path) -> list[str]:
    return [str(part) for part in (micropython, TESTS / script, TESTS.parent, umqtt_folder(), *arguments)]


def test_the_same_checks_pass_there(micropython: Path) -> None:
    answer = subprocess.run(command(micropython, "on_micropython.py"), capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.count("ok ") == 6


def start_device(micropython: Path, folder: Path, port: int) -> subprocess.Popen[str]:
    made = bundle(mqtt__port=port, interval_s=0.005)
    (folder / "peel.json").write_text(json.dumps(made))
    line = command(micropython, "unix_device.py", folder / "peel.json", folder / "state")
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_killed_at_any_moment_it_reuses_no_number_and_loses_no_stored_frame(
    micropython: Path, broker: Broker, inbox: Inbox, core: ModuleType, tmp_path: Path
) -> None:
    """Kill the device 30 times. Every frame opens; a number never comes with two different frames; numbers only rise."""
    generator = random.Random(4)  # noqa: S311
    seen: dict[int, bytes] = {}
    ledger = tmp_path / "state" / "lab-0000002a"
    for _ in range(30):
        device = start_device(micropython, tmp_path, broker.port)
        time.sleep(0.05 + generator.random() * 0.25)
        device.kill()
        output = device.communicate(timeout=10)[0]
        assert "Traceback" not in output, output
    survivor = start_device(micropython, tmp_path, broker.port)
    time.sleep(1)
    survivor.kill()
    survivor.communicate(timeout=10)
    collect(inbox, core, seen)
    assert len(seen) > 300
    assert not [
        path for path in (ledger / "outbox").iterdir() if len(path.name) == 12 and int(path.name, 16) < max(seen)
    ]


def collect(inbox: Inbox, core: ModuleType, seen: dict[int, bytes]) -> None:
    """Take all frames that have arrived. A repeated number must come with the very same bytes."""
    quiet = False
    while not quiet:
        try:
            frames = inbox.frames(1, timeout=1)
        except Exception:
            quiet = True
            continue
        for frame in frames:
            core.frame_open(SEAL_KEY, 48, frame)
            number = int.from_bytes(frame[10:16], "little")
            assert seen.setdefault(number, frame) == frame
