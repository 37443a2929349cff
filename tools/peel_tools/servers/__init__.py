# SPDX-License-Identifier: MIT
"""Servers that this project starts on this machine for demonstrations, tests and benchmarks: brokers, PostgreSQL, gateways.

Here are their base class, a restartable process with a log, and free ports.
"""

from __future__ import annotations

import abc
import itertools
import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from peel_gateway.exits import Exit

__all__ = ["NoPortError", "Server", "ServerProcess", "free_port"]

_STOP_SECONDS = 10.0
_LOG_LINES = 15


class Server(abc.ABC):
    """A server that runs inside a `with` block."""

    @abc.abstractmethod
    def start(self) -> None:
        """Start it and wait until it is ready."""

    @abc.abstractmethod
    def close(self) -> None:
        """Stop it and remove its temporary files."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ServerProcess:
    """A process that can be restarted. Its output goes to one log."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self, command: Sequence[str]) -> None:
        with self._log.open("ab") as log:
            # A separate session, so that Ctrl-C reaches only this process, which stops it in order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def end(self, *, kill: bool) -> None:
        """Kill it, or terminate it and wait some seconds before killing it."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.kill() if kill else process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_SECONDS)

    def log_tail(self) -> str:
        """Return the end of its log."""
        try:
            return "\n".join(self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
        except FileNotFoundError:
            return "(no log)"


_PORTS = range(15_000, 32_000)
"""These are below the ports of outgoing connections on Linux and macOS, which could take the port of a stopped server."""
_PORTS_APART = 10_507
"""The golden section of the ports, so that processes with consecutive ids begin far apart. A port that was given out may not be in use
yet, and only the process that gave it out knows."""
_ports_given = itertools.count()


class NoPortError(Exception):
    """No free port was found."""

    exit_code = Exit.MISSING


def free_port() -> int:
    """Return a TCP port on loopback that is not in use now, a different one at each call."""
    for _ in _PORTS:
        place = os.getpid() * _PORTS_APART + next(_ports_given)
        port = _PORTS[place % len(_PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise NoPortError(
        f"every port from {_PORTS.start} to {_PORTS.stop - 1} is taken. Stop some servers on this machine."
    )
