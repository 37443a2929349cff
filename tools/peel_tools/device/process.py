# SPDX-License-Identifier: MIT
"""A device as a process: starting it switches the power on, killing it is a power cut."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from peel_tools.device.flash import Flash

__all__ = ["DeviceProcess", "launch_command"]

_LAUNCH = Path(__file__).with_name("launch.py")


def launch_command(*, micropython: bool, verbose: bool = False) -> list[str]:
    """Return the command that starts the application, under CPython or MicroPython's unix port (built if needed)."""
    words = [str(_LAUNCH), *(["--verbose"] if verbose else [])]
    if not micropython:
        return [sys.executable, *words]
    from peel_tools.boards.firmware import micropython_program  # here, because an installed package cannot build

    return [str(micropython_program()), *words]


class DeviceProcess:
    """One device. Its output goes to a file beside its flash."""

    def __init__(self, flash: Flash, *, micropython: bool = False) -> None:
        self.flash = flash
        self.log_path = flash.folder.with_name(flash.folder.name + ".log")
        self._command = launch_command(micropython=micropython)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Switch the power on."""
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.flash.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Pull the plug."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def log(self) -> str:
        """Return its output since it was first started."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""
