# SPDX-License-Identifier: MIT
"""The application on a real MicroPython: the unix port with the core built in, against a real broker."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from inbox import FRAME_BYTES, Inbox
from peel_hil.emulators.images import board_image

from host_board import bundle
from peel_core.frame import NUMBER
from peel_tools.boards.sources import umqtt_folder
from peel_tools.device.flash import Changes, Flash
from peel_tools.device.process import DeviceProcess
from peel_tools.flashing.device_files import find_sources
from peel_tools.servers import free_port
from peel_tools.servers.broker import Broker

TESTS = Path(__file__).parent
BINDINGS = TESTS.parents[1] / "bindings" / "micropython"
STORED_BYTES = FRAME_BYTES + 4  # with its checksum
SEAL_KEY = bytes.fromhex("00112233445566778899aabbccddeeff")


@pytest.fixture(scope="session")
def micropython(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter, built once and cached."""
    program = tmp_path_factory.mktemp("unix") / "micropython"
    shutil.copy(board_image("unix").elf, program)
    program.chmod(0o755)
    return program


def test_the_same_checks_pass_there(micropython: Path) -> None:
    command = [micropython, TESTS / "on_micropython.py", TESTS.parent, umqtt_folder(), BINDINGS]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.count("ok ") == 9


class MortalDevice:
    """A device on the unix port that is started and killed repeatedly, with the record of its frames."""

    def __init__(self, folder: Path, inbox: Inbox) -> None:
        self._flash = Flash(folder / "flash")
        self._process = DeviceProcess(self._flash, micropython=True)
        self._inbox = inbox
        self.frames: dict[int, set[bytes]] = {}
        """Received frames, by number."""
        self.stored: set[int] = set()
        """Numbers of all frames that were on flash at a kill."""

    @contextlib.contextmanager
    def alive(self, port: int) -> Iterator[None]:
        """Run with a broker at this port; kill the process at the end."""
        self._flash.install(bundle(mqtt__port=port, interval_s=0.005, confirm="broker"), find_sources(), Changes())
        self._process.start()
        try:
            yield
        finally:
            self._process.kill()
        assert "Traceback" not in self._process.log(), self._process.log()
        self.stored |= self.outbox()

    def receive(self, count: int) -> None:
        """Receive so many frames from the broker."""
        for frame in self._inbox.frames(count, timeout=60):
            self.frames.setdefault(NUMBER.of(frame), set()).add(frame)

    def outbox(self) -> set[int]:
        """Return the numbers of the whole frames on flash. Their names have twelve digits; a torn frame is shorter."""
        outbox = self._flash.home / "outbox"
        found = outbox.iterdir() if outbox.is_dir() else ()
        return {int(path.name, 16) for path in found if len(path.name) == 12 and path.stat().st_size == STORED_BYTES}

    def fill(self, frames: int) -> None:
        """Wait until so many more frames are on flash."""
        wanted, deadline = len(self.outbox()) + frames, time.monotonic() + 60
        while len(self.outbox()) < wanted:
            assert time.monotonic() < deadline
            time.sleep(0.001)


def test_killed_at_any_moment_it_reuses_no_number_and_loses_no_stored_frame(
    broker: Broker, inbox: Inbox, core: ModuleType, tmp_path: Path, rng: np.random.Generator
) -> None:
    """Kill it 30 times while it starts, stores and sends. Every stored frame arrives, and each number has one frame."""
    device = MortalDevice(tmp_path, inbox)
    for _ in range(10):
        with device.alive(broker.port):
            time.sleep(rng.uniform(0.0, 0.2))
        with device.alive(free_port()):
            device.fill(int(rng.integers(1, 15)))
        with device.alive(broker.port):
            device.receive(int(rng.integers(1, 40)))
    with device.alive(broker.port):
        while not device.stored <= set(device.frames):
            device.receive(1)
    assert len(device.stored) >= 10
    assert all(len(frames) == 1 for frames in device.frames.values())
    for frames in device.frames.values():
        core.frame_open(SEAL_KEY, 48, *frames)
