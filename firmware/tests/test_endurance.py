# SPDX-License-Identifier: MIT
"""Long runs: a tick counter that wraps, a large backlog on a slow flash, a heap that must not fragment."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from statistics import median
from types import ModuleType

import pytest

from host_board import PacedBoard, bundle, config
from peel_device.app import App
from peel_device.timing import TickClock
from peel_tools.boards.cache import REPOSITORY
from peel_tools.boards.firmware import micropython_program
from peel_tools.boards.sources import umqtt_folder
from peel_tools.device.flash import Changes, Flash
from peel_tools.flashing.device_files import find_sources
from peel_tools.servers.broker import Broker
from power_cut import ManualClock, MemoryFiles

PERIOD = 1 << 30
"""MicroPython's tick counter wraps after this many milliseconds: 12.4 days."""
WATCHDOG_MS = 8300


def ticks_difference(end: int, start: int) -> int:
    """Return the same difference as `time.ticks_diff`."""
    return (end - start + PERIOD // 2) % PERIOD - PERIOD // 2


@pytest.mark.parametrize("step", [1, 200, 86_400_000, PERIOD // 2 - 1])
def test_the_clock_goes_on_when_the_ticks_begin_again(step: int) -> None:
    true = ManualClock()
    true.at = begun = PERIOD - 3 * step // 2
    clock = TickClock(lambda: true.at % PERIOD, ticks_difference, 1)
    for _ in range(6):
        true.at += step
        assert clock.now() == true.at - begun


class SlowFlash(MemoryFiles):
    """A flash on which every file operation takes time, like a worn one with many files."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def read(self, path: str) -> bytes | None:
        self._clock.at += 5
        return super().read(path)

    def remove(self, path: str) -> None:
        self._clock.at += 50
        super().remove(path)


class WatchedBoard(PacedBoard):
    """Records the longest time between two feeds of the watchdog."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0
        self._fed_at = 0

    def feed(self) -> None:
        self.longest = max(self.longest, self.paces.at - self._fed_at)
        self._fed_at = self.paces.at


def test_a_receipt_for_a_large_backlog_does_not_starve_the_watchdog(core: ModuleType) -> None:
    """The gateway was away for a day, and its first receipt settles everything that was sent meanwhile."""
    board = WatchedBoard()
    app = App(config(outbox=2000), core, board, SlowFlash(board.paces), "peel")
    app.start()
    for _ in range(1000):
        app.report()
    app.outbox.sent(list(range(1, 1001)))
    app.outbox.settle([(0, 990)])
    board.feed()
    assert len(app.outbox) == 10
    assert board.longest < WATCHDOG_MS / 4


YEAR = Path(__file__).with_name("year_on_micropython.py")
REPORTS = 1600
HEAP = "256k"
"""Objects of this port are twice as large as a board's, so this is about a Pico's heap of 190 KB."""
PART = re.compile(r"^part (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)$", re.M)


@pytest.mark.board
def test_the_heap_stays_as_it_is_over_outages_and_wraps_of_the_ticks() -> None:
    """More than a day of reports on MicroPython, with the broker away for hours. The flash is written as rarely as documented."""
    modules = [YEAR.parents[1], umqtt_folder(), REPOSITORY / "bindings" / "micropython"]
    command: list[str | Path] = [micropython_program(), "-X", f"heapsize={HEAP}", YEAR, *modules, str(REPORTS)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr
    parts = [tuple(map(int, found)) for found in PART.findall(run.stdout)]
    reports, free, largest, writes, dropped, faults = (list(column) for column in zip(*parts, strict=True))
    assert (len(parts), reports[-1]) == (10, REPORTS)
    assert dropped[-1] > 200 < faults[-1], "outages filled the outbox"
    assert min(free[5:]) > min(free[:5]) - 4096, free
    assert min(largest[5:]) > 0.8 * min(largest[:5]), largest
    assert writes[-1] - writes[0] < 2.2 * (reports[-1] - reports[0]), "one file per report, and one per drop"
    assert re.search(r"^time \d+ wraps 1 left \d+$", run.stdout, re.M), "the ticks began again"


TLS = Path(__file__).with_name("tls_on_micropython.py")
RUNTIME = REPOSITORY / "tools" / "peel_tools" / "device"
TLS_HEAP = "187k"
"""About 75 KB of it are free once the application runs."""
TLS_BLOCKS = 22 * 1024
"""A TLS session takes two blocks, of 17 and 5 KB. Garbage that is still referenced from the stack varies from run to run."""
CONNECTIONS = 30
LARGEST = re.compile(r"^largest (\d+) (\d+)$", re.M)


@pytest.mark.board
def test_the_heap_has_room_for_tls_again_and_again(tls_broker: Broker, certificates: Path, tmp_path: Path) -> None:
    """Mbed TLS allocates large blocks on MicroPython's heap, so long-lived objects must not fragment it."""
    flash = Flash(tmp_path / "flash")
    mqtt = {"host": "localhost", "port": tls_broker.port, "tls": True, "ca": "ca.der"}
    flash.install(bundle(mqtt=mqtt, confirm="broker"), find_sources(), Changes(ca=certificates / "ca.der"))
    command: list[str | Path] = [micropython_program(), "-X", f"heapsize={TLS_HEAP}", TLS, RUNTIME, str(CONNECTIONS)]
    run = subprocess.run(command, cwd=flash.folder, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr
    largest, faults = zip(*(map(int, found) for found in LARGEST.findall(run.stdout)), strict=True)
    assert (len(faults), faults[-1]) == (CONNECTIONS, CONNECTIONS // 2), "no fault but those of the test"
    assert min(largest) > TLS_BLOCKS, largest
    assert median(largest[20:]) > 0.8 * median(largest[:10]), largest
