"""The socket that umqtt.simple sees: exact reads, whole writes, and a deadline on each.

umqtt.simple takes whatever `read` returns and indexes into it, and sets its socket to block for ever. Here a read
gives as many bytes as were asked for, or raises OSError: a slow, short or silent peer becomes one kind of error, in
bounded time.
"""

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from peel_device.interfaces import Board, Clock, Wire

READ_MAX = 4096  # no honest broker sends a device that much at once
_POLL_MS = 2


class Transport:
    """A wire with deadlines. Feeds the watchdog while it waits."""

    def __init__(self, wire: "Wire", board: "Board", clock: "Clock", timeout_ms: int) -> None:
        self._wire = wire
        self._board = board
        self._clock = clock
        self._timeout = timeout_ms
        self._blocking = True
        self.heard_at = clock.now()

    def connect(self, address: "Any") -> None:
        """umqtt.simple connects its socket; the wire was connected by the board."""

    def setblocking(self, flag: bool) -> None:
        """Non-blocking is used for one question only: is there anything to read?"""
        self._blocking = flag

    def read(self, count: int) -> bytes | None:
        """Read exactly count bytes. Not blocking and nothing there: None."""
        if count > READ_MAX:
            raise OSError(errno.EINVAL, "more than a broker should send")
        data = b""
        deadline = self._clock.now() + self._timeout
        while len(data) < count:
            some = self._wire.receive(count - len(data))
            if some:
                data += some
                self.heard_at = self._clock.now()
            elif some is not None:
                raise OSError(errno.ECONNRESET, "closed by the broker")
            elif not self._blocking and not data:
                return None
            else:
                self._wait(deadline)
        return data

    def write(self, data: "bytes | str", count: int = -1) -> int:
        """Write all of data, or its first count bytes."""
        raw = data.encode() if isinstance(data, str) else data
        view = memoryview(raw)[: len(raw) if count < 0 else count]
        deadline = self._clock.now() + self._timeout
        sent = 0
        while sent < len(view):
            taken = self._wire.send(view[sent:])
            sent += taken
            if not taken:
                self._wait(deadline)
        return sent

    def close(self) -> None:
        """Close the wire."""
        self._wire.close()

    def _wait(self, deadline: int) -> None:
        if self._clock.now() >= deadline:
            raise OSError(errno.ETIMEDOUT, "no answer in time")
        self._board.feed()
        self._board.pause(_POLL_MS)
