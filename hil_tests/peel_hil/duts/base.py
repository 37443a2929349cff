# SPDX-License-Identifier: MIT
"""The interface and common code of all devices under test."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import tty
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from peel_hil.duts.console import Console

__all__ = ["DEVICE_CODE", "Dut", "DutError", "Endpoint"]

Endpoint = tuple[str, int]

DEVICE_CODE = Path(__file__).parent / "device"

_FILE_CHUNK = 512


class DutError(Exception):
    """The device under test raised an exception or could not be started."""


class Dut(ABC):
    """An emulated board: an emulator process, a console on a pseudo-terminal, state in a folder."""

    name: str
    """The name for --board."""
    processor: str
    """A description of the emulator, for people."""
    native_architectures: tuple[str, ...] = ()
    """Architectures of the native modules that this board loads."""
    boot_timeout = 20.0

    def __init__(self, folder: Path, link: Endpoint | None = None) -> None:
        self.folder = folder
        self.link = link
        self._process: subprocess.Popen[bytes] | None = None
        self._terminal: tuple[int, int] | None = None
        self._console: Console | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the emulator's command line. Called at each start, to prepare the folder."""

    @abstractmethod
    def boot(self) -> None:
        """Bring a newly started board to the raw REPL with a file system."""

    # ---- power ----

    def start(self) -> None:
        """Power on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = self.command()
        emulator_end, our_end = pty.openpty()
        for end in (emulator_end, our_end):
            tty.setraw(end)
        with (self.folder / "emulator.log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=emulator_end, stdout=emulator_end, stderr=log, cwd=self.folder, start_new_session=True
            )
        self._terminal = (emulator_end, our_end)
        self._console = Console(our_end)
        self.boot()

    def kill(self) -> None:
        """Pull the plug: SIGKILL. The board's flash stays in the folder; `start` powers on again."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        terminal, self._terminal = self._terminal, None
        for end in terminal or ():
            os.close(end)
        self._console = None

    def reset(self) -> None:
        """Power off and on."""
        self.kill()
        self.start()

    def wait_for_exit(self, timeout: float) -> int:
        """Wait until the emulator ends by itself (machine.reset() on QEMU's boards), and return its exit status."""
        if self._process is None:
            raise DutError(f"{self.name} is not running")
        return self._process.wait(timeout)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    # ---- console ----

    @property
    def console(self) -> Console:
        if self._console is None:
            raise DutError(f"{self.name} is not running")
        return self._console

    @property
    def port(self) -> str:
        """Return the console as a serial port for mpremote. Do not use the console meanwhile."""
        if self._terminal is None:
            raise DutError(f"{self.name} is not running")
        return os.ttyname(self._terminal[1])

    def hand_over(self) -> str:
        """Leave the raw REPL to mpremote, and return the port for it."""
        self.console.write(b"\x02")
        self.expect(rb">>> ")
        return self.port

    def expect(self, pattern: str | bytes, timeout: float = 10.0) -> re.Match[bytes]:
        """Wait for a regular expression in the console's output."""
        return self.console.expect(pattern, timeout)

    def begin(self, code: str) -> None:
        """Start code without waiting for its end. Use `expect` for its output."""
        self.console.begin(code)

    def exec(self, code: str, timeout: float = 30.0) -> str:
        """Run code to its end and return its output. An exception on the board becomes a DutError with its traceback."""
        self.console.begin(code)
        output, error = self.console.finish(timeout)
        if error:
            raise DutError(f"on {self.name}: {error.strip()}")
        return output

    # ---- files ----

    def put(self, path: str, data: bytes) -> None:
        """Write a file on the board."""
        self.exec(f"f = open({path!r}, 'wb')")
        for start in range(0, len(data), _FILE_CHUNK):
            self.exec(f"f.write({data[start : start + _FILE_CHUNK]!r})")
        self.exec("f.close()\ndel f")

    def remove(self, path: str) -> None:
        """Remove a file on the board."""
        self.exec(f"import os\nos.remove({path!r})")

    def load(self, name: str, file: Path) -> None:
        """Import a module (.py or .mpy) on the board from a host file, and leave no file behind."""
        path = name + file.suffix
        self.put(path, file.read_bytes())
        self.exec(f"import {name}")
        self.remove(path)

    def get(self, path: str) -> bytes:
        """Read a file from the board."""
        text = self.exec(
            f"from binascii import hexlify\nwith open({path!r}, 'rb') as f:\n"
            f" while True:\n  b = f.read({_FILE_CHUNK})\n  if not b: break\n  print(hexlify(b).decode(), end='')"
        )
        return bytes.fromhex(text)
