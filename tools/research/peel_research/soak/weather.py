# SPDX-License-Identifier: MIT
"""Lines on which the weather is made by us: open, cut, or slow; and an ear on what callers send."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from peel_tools.network import Endpoint, Line, Publish, Relay, Splitter, receive, send

__all__ = ["Weather"]

Hear = Callable[[Publish], None]


class _ExposedLine(Line):
    """A connection out in the weather."""

    def __init__(self, near: socket.socket, far: socket.socket, weather: Weather) -> None:
        super().__init__(near, far)
        self._weather = weather

    def carry_to_far(self) -> None:
        splitter = Splitter()
        while data := receive(self.near):
            if self._weather.hear is not None:
                for packet in splitter.feed(data):
                    message = Publish.parse(packet)
                    if message is not None:
                        self._weather.hear(message)
            self._pass(self.far, data)

    def carry_to_near(self) -> None:
        while data := receive(self.far):
            self._pass(self.near, data)

    def _pass(self, end: socket.socket, data: bytes) -> None:
        time.sleep(self._weather.delay)
        send(end, data)


class Weather(Relay[_ExposedLine]):
    """A relay that can be cut and slowed down.

    Parameters
    ----------
    hear : callable, optional
        Gets every PUBLISH at QoS 1 that a caller sends, before the target does; called in the line's thread.
    """

    def __init__(self, target: Endpoint, hear: Hear | None = None) -> None:
        super().__init__(target)
        self.hear = hear
        self.delay = 0.0
        """Seconds that each piece of traffic waits, in either direction."""
        self._open = True

    def cut(self) -> None:
        """End all connections, and admit nobody."""
        self._open = False
        self.hang_up()

    def heal(self) -> None:
        """Fine again."""
        self._open = True
        self.delay = 0.0

    def admits(self) -> bool:
        return self._open

    def line(self, near: socket.socket, far: socket.socket) -> _ExposedLine:
        return _ExposedLine(near, far, self)
