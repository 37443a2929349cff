# SPDX-License-Identifier: MIT
"""A TCP relay: it listens on a loopback port and forwards each connection to a target, in both directions."""

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
    """The connection is closed."""


def receive(end: socket.socket) -> bytes:
    """Return some received bytes, empty if the connection is closed."""
    try:
        return end.recv(65536)
    except OSError:
        return b""


def send(end: socket.socket, data: bytes) -> None:
    """Send all data. Raise LineCutError if the connection is closed."""
    try:
        end.sendall(data)
    except OSError as error:
        raise LineCutError from error


class Line:
    """One connection between a client (`near`) and the target (`far`). One thread per direction forwards the bytes unchanged."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near = near
        self.far = far

    def carry_to_far(self) -> None:
        """Forward the client's bytes until the connection closes."""
        while data := receive(self.near):
            send(self.far, data)

    def carry_to_near(self) -> None:
        """Forward the target's bytes until the connection closes."""
        while data := receive(self.far):
            send(self.near, data)

    def close(self) -> None:
        """Close both sides of the connection, which also ends blocking reads."""
        for end in (self.near, self.far):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


_Line = TypeVar("_Line", bound=Line)


class Relay(ABC, Generic[_Line]):
    """Forwards connections while its `with` block runs. Subclasses decide what happens on a line."""

    def __init__(self, target: Endpoint) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lines: list[_Line] = []
        self._closed = False
        self.errors: list[BaseException] = []
        """Exceptions in a line's own code, for tests."""

    @abstractmethod
    def line(self, near: socket.socket, far: socket.socket) -> _Line:
        """Return the line for a new connection."""

    @property
    def endpoint(self) -> Endpoint:
        """The address to connect to."""
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
        """Return the target of the next connection. Raise OSError if the target is down."""
        return self._target

    def admits(self) -> bool:
        """Return whether new connections are accepted now."""
        return True

    def hang_up(self) -> None:
        """Close every connection."""
        for line in list(self._lines):
            line.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError as error:
                if self._closed:
                    return
                self.errors.append(error)  # the next connection may succeed
                continue
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        with near, suppress(OSError):  # the target is down, or the client has left
            if not self.admits():
                return
            with socket.create_connection(self.target(), timeout=_CONNECT_SECONDS) as far:
                far.settimeout(None)
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._carry(self.line(near, far))

    def _carry(self, line: _Line) -> None:
        """Forward both directions until both are closed."""
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
