# SPDX-License-Identifier: MIT
"""A board at the end of a serial port, reached through mpremote.

Files travel by path: nothing secret is ever an argument, where every user of this computer could read it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peel_tools.flashing.errors import FlashError

__all__ = ["Remote"]

_TIMEOUT_S = 180.0
_HINTS = {
    "failed to access": "{port} cannot be opened: is the board plugged in, is it this port, does another program use it?",
    "no device found": "no board was found: plug it in, or name its port with --port",
    "could not enter raw repl": "{port} answers, but not like MicroPython: flash MicroPython first (peel firmware flash)",
    "no space left": "the board's flash is full: remove files from it, or erase it, and try again",
    "ENOSPC": "the board's flash is full: remove files from it, or erase it, and try again",
    "device disconnected": "the board was unplugged, or booted, in the middle of it: plug it in and try again",
    "write timeout": "the board does not take any bytes: unplug it, plug it in and try again",
}


class Remote:
    """Runs mpremote against one port, without resetting the board in between."""

    def __init__(self, port: str) -> None:
        self.port = port

    def execute(self, code: str) -> str:
        """Run Python on the board and return what it printed."""
        return self._call("exec", code)

    def ask(self, code: str) -> Any:
        """Run Python on the board whose last line is JSON, and return that."""
        lines = self.execute(code).strip().splitlines()
        try:
            return json.loads(lines[-1])
        except (IndexError, ValueError):
            raise FlashError(
                f"{self.port}: the board's answer makes no sense: {lines[-1:]}; unplug it and try again"
            ) from None

    def make_folder(self, folder: str) -> None:
        """Make a folder that may be there already."""
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
                f"{self.port}: no answer within {_TIMEOUT_S:.0f} s: unplug the board and try again"
            ) from None
        if done.returncode != 0:
            raise FlashError(self._explain(done.stdout + done.stderr))
        return done.stdout

    def _explain(self, output: str) -> str:
        if "No module named mpremote" in output:
            return "mpremote is not installed: pip install 'peel-telemetry[firmware]'"
        for sign, hint in _HINTS.items():
            if sign.lower() in output.lower():
                return hint.format(port=self.port)
        last = "\n".join(output.strip().splitlines()[-3:])
        return f"{self.port}: mpremote failed:\n{last}"
