# SPDX-License-Identifier: MIT
"""A board at a serial port, reached through mpremote: run code, copy files, find out what it is.

Files are passed by path. Secrets are never arguments, which every user of this computer could read.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peel_tools.boards.table import BOARDS, Board, architecture_of
from peel_tools.flashing import FlashError

__all__ = ["Facts", "Remote", "check_board", "probe"]

_TIMEOUT_S = 180.0
_HINTS = {
    "failed to access": "cannot open {port}. Check that the board is plugged in, that it is this port, and that no other program uses it",
    "no device found": "no board was found. Plug it in, or name its port with --port",
    "could not enter raw repl": "{port} answers, but not like MicroPython. Flash MicroPython first with `peel firmware flash`",
    "no space left": "the board's flash is full. Remove files from it, or erase it, and try again",
    "ENOSPC": "the board's flash is full. Remove files from it, or erase it, and try again",
    "device disconnected": "the board was unplugged or rebooted meanwhile. Plug it in and try again",
    "write timeout": "the board accepts no data. Unplug it, plug it in and try again",
}


class Remote:
    """Runs mpremote on one port, without resetting the board between calls."""

    def __init__(self, port: str) -> None:
        self.port = port

    def execute(self, code: str) -> str:
        """Run Python on the board and return its output."""
        return self._call("exec", code)

    def ask(self, code: str) -> Any:
        """Run Python on the board and return the JSON value in the last line of its output."""
        lines = self.execute(code).strip().splitlines()
        try:
            return json.loads(lines[-1])
        except (IndexError, ValueError):
            raise FlashError(
                f"{self.port}: unexpected answer of the board: {lines[-1:]}. Unplug it and try again"
            ) from None

    def make_folder(self, folder: str) -> None:
        """Make a folder unless it exists."""
        self.execute(f"import os\ntry:\n os.mkdir({folder!r})\nexcept OSError:\n os.stat({folder!r})")

    def copy(self, sources: Sequence[Path], target: str) -> None:
        """Copy one file to a path, or several into a folder (which ends in /)."""
        self._call("fs", "cp", "-f", *(str(source) for source in sources), ":" + target)

    def reset(self) -> None:
        """Boot the board."""
        self._call("reset")

    def _call(self, *words: str) -> str:
        command = [sys.executable, "-m", "mpremote", "connect", self.port, "resume", *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise FlashError(
                f"{self.port}: no answer within {_TIMEOUT_S:.0f} s. Unplug the board and try again"
            ) from None
        if done.returncode != 0:
            raise FlashError(self._explain(done.stdout + done.stderr))
        return done.stdout

    def _explain(self, output: str) -> str:
        if "No module named mpremote" in output:
            return "mpremote is not installed. Run: pip install 'peel-telemetry[firmware]'"
        for sign, hint in _HINTS.items():
            if sign.lower() in output.lower():
                return hint.format(port=self.port)
        last = "\n".join(output.strip().splitlines()[-3:])
        return f"{self.port}: mpremote failed:\n{last}"


OLDEST = (1, 25)
NEWEST = (2, 0)
MPY_VERSION = 6

_PROBE = """
import sys, os, json
def tried(name):
    try:
        return "file" if hasattr(__import__(name), "__file__") else "built in"
    except ImportError:
        return ""
    except ValueError as error:
        return "unfit: " + str(error)
try:
    room = os.statvfs("/")
    free = room[0] * room[3]
except OSError:
    free = -1
i = sys.implementation
print(json.dumps({"platform": sys.platform, "version": i.version[:3], "machine": getattr(i, "_machine", ""),
    "mpy": getattr(i, "_mpy", 0), "network": bool(tried("network")), "core": tried("peelcore"), "free": free}))
"""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts that a board reports about itself."""

    platform: str
    version: tuple[int, ...]
    machine: str
    mpy: int
    network: bool
    core: str
    free: int

    @property
    def release(self) -> str:
        """MicroPython's version as text."""
        return ".".join(str(part) for part in self.version)

    @property
    def architecture(self) -> str:
        """MicroPython's name of the board's processor core, or "none" if no native module runs there."""
        found = architecture_of(self.mpy)
        return found.cores[self.mpy >> 10] if found else "none"

    @property
    def module(self) -> str:
        """The architecture of its native module, or "" if it needs the pure-Python core."""
        found = architecture_of(self.mpy)
        return found.name if found else ""


def probe(remote: Remote) -> Facts:
    """Return the board's facts."""
    answer = remote.ask(_PROBE)
    return Facts(**{**answer, "version": tuple(answer["version"])})


def check_board(facts: Facts, board: Board) -> None:
    """Raise FlashError unless this is the named board and its MicroPython is supported."""
    if facts.platform != board.platform:
        raise FlashError(
            f"this is not a {board.name}: MicroPython's platform is {facts.platform!r} ({facts.machine}). "
            "Name the right board with --board"
        )
    if board.network and not facts.network:
        raise FlashError(
            f"its MicroPython has no network: this is not a {board.title}, or it runs another board's firmware. "
            f"Flash the one for {board.title}"
            + "".join(f", or use --board {other.name}" for other in _without_network(board))
        )
    if not OLDEST <= facts.version[:2] < NEWEST:
        raise FlashError(
            f"MicroPython {facts.release} is on the board, and Peel needs {OLDEST[0]}.{OLDEST[1]} or newer (below {NEWEST[0]}.0). "
            "Flash that first with `peel firmware flash`"
        )
    if facts.core != "built in" and facts.module and facts.mpy & 0xFF != MPY_VERSION:
        raise FlashError(
            f"this MicroPython takes native modules of version {facts.mpy & 0xFF}, and Peel's have version {MPY_VERSION}. "
            f"Flash MicroPython {OLDEST[0]}.{OLDEST[1]} with `peel firmware flash`"
        )
    if facts.free < 0:
        raise FlashError("the board has no file system. Erase its flash, boot it and try again")


def _without_network(board: Board) -> list[Board]:
    """Return the boards of the same platform without a network."""
    return [other for other in BOARDS.values() if other.platform == board.platform and not other.network]
