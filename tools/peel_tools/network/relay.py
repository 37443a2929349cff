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

_CONNECT_SECONDS = 10.0

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


class Line:
    """One connection: `near` is the caller, `far` the target. Each direction has a thread of its own, and carries what it gets as it is."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near = near
        self.far = far

    def carry_to_far(self) -> None:
        """Pass on what the caller sends until the connection ends."""
        while data := receive(self.near):
            send(self.far, data)

    def carry_to_near(self) -> None:
        """Pass on what the target sends until the connection ends."""
        while data := receive(self.far):
            send(self.near, data)

    def close(self) -> None:
        """End the connection on both sides; whoever waits for it hears of it."""
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
        self._closed = False
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
        self._closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()

    def target(self) -> Endpoint:
        """Where the next caller gets to; OSError where there is none."""
        return self._target

    def admits(self) -> bool:
        """Whether callers get through at the moment."""
        return True

    def hang_up(self) -> None:
        """End every connection."""
        for line in list(self._lines):
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError as error:
                if self._closed:
                    return
                self.errors.append(error)  # and the next one may have more luck
                continue
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, suppress(OSError):  # a target that is away, a caller that has gone already
            if not self.admits():
                return
            with socket.create_connection(self.target(), timeout=_CONNECT_SECONDS) as far:
                far.settimeout(None)
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._carry(self.line(near, far))

    def _carry(self, line: _Line) -> None:
        """Both directions, until the connection has ended in both."""
        self._lines.append(line)
        if not self.admits():
            line.close()  # cut while it was being connected
        back = threading.Thread(target=self._run, args=(line, line.carry_to_near), daemon=True)
        back.start()
        self._run(line, line.carry_to_far)
        back.join()
        self._lines.remove(line)

    def _run(self, line: _Line, carry: Callable[[], None]) -> None:
        try:
            carry()
        except LineCutError:
            pass
        except BaseException as error:
            self.errors.append(error)
        finally:
            line.close()
