# SPDX-License-Identifier: MIT
"""A relay: listens on a loopback port, connects every caller to a target, and carries both directions of each connection."""

from __future__ import annotations

import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

__all__ = ["Endpoint", "Line", "LineCutError", "Relay", "receive", "send"]

Endpoint = tuple[str, int]


class LineCutError(Exception):
    """The connection is gone; nothing more can be sent over it."""


def receive(end: socket.socket) -> bytes:
    """Some bytes; none when the connection has ended."""
    try:
        return end.recv(65536)
    except OSError:
        return b""


def send(end: socket.socket, data: bytes) -> None:
    """Send all of it; LineCutError when the connection is gone."""
    try:
        end.sendall(data)
    except OSError as error:
        raise LineCutError from error


class Line(ABC):
    """One connection: `near` is the caller, `far` the target. Each direction has a thread of its own."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near = near
        self.far = far

    @abstractmethod
    def carry_to_far(self) -> None:
        """Pass on what the caller sends until the connection ends."""

    @abstractmethod
    def carry_to_near(self) -> None:
        """Pass on what the target sends until the connection ends."""

    def close(self) -> None:
        """End the connection on both sides."""
        for end in (self.near, self.far):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


_Line = TypeVar("_Line", bound=Line)


class Relay(ABC, Generic[_Line]):
    """Carries connections between `__enter__` and `__exit__`; what happens on a line is the deriver's."""

    def __init__(self, target: Endpoint) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lines: list[_Line] = []
        self.errors: list[BaseException] = []
        """What went wrong in a line's own code; a test looks here."""

    @abstractmethod
    def line(self, near: socket.socket, far: socket.socket) -> _Line:
        """What a new connection becomes."""

    @property
    def endpoint(self) -> Endpoint:
        """Where to connect to."""
        host, port = self._listener.getsockname()[:2]
        return host, port

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()

    def admits(self) -> bool:
        """Whether callers get through at the moment."""
        return True

    def hang_up(self) -> None:
        """End every connection."""
        lines, self._lines = self._lines, []
        for line in lines:
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                far = socket.create_connection(self._target) if self.admits() else None
            except OSError:
                far = None
            if far is None:
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line = self.line(near, far)
            self._lines.append(line)
            for carry in (line.carry_to_near, line.carry_to_far):
                threading.Thread(target=self._run, args=(line, carry), daemon=True).start()

    def _run(self, line: _Line, carry: Callable[[], None]) -> None:
        try:
            carry()
        except LineCutError:
            pass
        except BaseException as error:
            self.errors.append(error)
        finally:
            line.close()
