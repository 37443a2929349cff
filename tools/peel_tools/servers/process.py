# SPDX-License-Identifier: MIT
"""What all servers have in common: they run between `start` and `close`, as a process with a log."""

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
    """Runs inside a `with`."""

    @abc.abstractmethod
    def start(self) -> None:
        """Start it and wait until it can be used."""

    @abc.abstractmethod
    def close(self) -> None:
        """End it and remove what is its own."""

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
    """A process that may be started again and again; what it says goes to one log."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self, command: Sequence[str]) -> None:
        with self._log.open("ab") as log:
            # In a session of its own: Ctrl-C is for us, and we stop it in order.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def end(self, *, kill: bool) -> None:
        """End it at once, or in order, for which it has some seconds."""
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
        """The end of its log."""
        try:
            return "\n".join(self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
        except FileNotFoundError:
            return "(no log)"


_PORTS = range(15_000, 32_000)
"""Below those that Linux and macOS give to outgoing connections, which could take the port of a server that is away."""
_PORTS_APART = 10_507
"""The golden section of the ports: however many processes follow each other, each begins far from all others. A port that was given is not
always listened on, and only its giver knows that it is taken."""
_ports_given = itertools.count()


class NoPortError(Exception):
    """Every port is taken."""

    exit_code = Exit.MISSING


def free_port() -> int:
    """A TCP port on loopback that nobody listens on right now; another one each time."""
    for _ in _PORTS:
        place = os.getpid() * _PORTS_APART + next(_ports_given)
        port = _PORTS[place % len(_PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise NoPortError(f"every port from {_PORTS.start} to {_PORTS.stop - 1} is taken")
