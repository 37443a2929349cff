# SPDX-License-Identifier: MIT
"""The serial console of a board: write bytes, wait for patterns, and use MicroPython's raw REPL."""

from __future__ import annotations

import os
import re
import select
import time

__all__ = ["Console", "ConsoleError", "ConsoleTimeoutError"]

_RAW_PROMPT = rb"raw REPL; CTRL-B to exit\r\n>"
_CHUNK = 1024  # bytes written at once: less than a pseudo-terminal holds


class ConsoleError(Exception):
    """The board's console did not respond as expected. Contains the last output."""


class ConsoleTimeoutError(ConsoleError):
    """A pattern did not come in time."""


class Console:
    """Reads and writes one file descriptor. `expect` consumes the output it matched; `log` keeps everything."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._unread = b""
        self.log = bytearray()

    def write(self, data: bytes) -> None:
        """Write all of data, reading meanwhile, so that a board that echoes never blocks."""
        while data:
            self._read(0)
            _, ready, _ = select.select([], [self._descriptor], [], 1.0)
            if ready:
                data = data[os.write(self._descriptor, data[:_CHUNK]) :]

    def expect(self, pattern: str | bytes, timeout: float = 10.0) -> re.Match[bytes]:
        """Wait for a regular expression in the output, and skip the output before it."""
        expression = re.compile(pattern if isinstance(pattern, bytes) else pattern.encode(), re.DOTALL)
        deadline = time.monotonic() + timeout
        while True:
            match = expression.search(self._unread)
            if match:
                self._unread = self._unread[match.end() :]
                return match
            left = deadline - time.monotonic()
            if left <= 0:
                raise ConsoleTimeoutError(
                    f"no {expression.pattern!r} within {timeout:g} s; the last output was {self._unread[-400:]!r}"
                )
            self._read(left)

    def _read(self, timeout: float) -> None:
        ready, _, _ = select.select([self._descriptor], [], [], timeout)
        if not ready:
            return
        try:
            data = os.read(self._descriptor, 65536)
        except OSError:
            data = b""
        if not data:
            raise ConsoleError(f"the board went away; its last output was {bytes(self.log[-400:])!r}")
        self._unread += data
        self.log += data

    def enter_raw(self, timeout: float = 10.0) -> None:
        """Enter the raw REPL from a prompt."""
        self.write(b"\r\x03\x01")
        self.expect(_RAW_PROMPT, timeout)

    def begin(self, code: str, timeout: float = 10.0) -> None:
        """Start code and return once the board has taken it; its output can then be expected."""
        self.write(code.encode() + b"\x04")
        self.expect(rb"OK", timeout)

    def finish(self, timeout: float) -> tuple[str, str]:
        """Wait for the end of the code that `begin` started; return its output and its traceback."""
        match = self.expect(rb"([^\x04]*)\x04([^\x04]*)\x04>", timeout)
        return match[1].decode(errors="replace").replace("\r\n", "\n"), match[2].decode(errors="replace").replace(
            "\r\n", "\n"
        )
