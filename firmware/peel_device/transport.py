# SPDX-License-Identifier: MIT
"""The socket that umqtt.simple sees: exact reads, whole writes, and a deadline on each.

umqtt.simple indexes into the result of `read` without checking its length, and sets its socket to block for ever. Here a
read returns exactly as many bytes as were asked for, or raises OSError. So a slow, short or silent peer always becomes
the same kind of error, in bounded time. umqtt.simple also writes a packet in five small pieces; here they are gathered
until the next read.
"""

import errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from peel_device.interfaces import Board, Clock, Wire

READ_MAX = 4096  # no honest broker sends a device that much at once
WRITE_MAX = 1400  # about what one TCP segment carries
_POLL_MS = 2


class Transport:
    """A wire with deadlines. Feeds the watchdog while it waits."""

    def __init__(self, wire: "Wire", board: "Board", clock: "Clock", timeout_ms: int) -> None:
        self._wire = wire
        self._board = board
        self._clock = clock
        self._timeout = timeout_ms
        self._blocking = True
        self._unsent = bytearray()
        self.heard_at = clock.now()

    def connect(self, address: "Any") -> None:
        """Do nothing: the board has connected the wire."""

    def setblocking(self, flag: bool) -> None:
        """Set blocking mode. umqtt.simple uses non-blocking only to ask whether there is anything to read."""
        self._blocking = flag

    def read(self, count: int) -> bytes | None:
        """Read exactly count bytes, or return None if not blocking and nothing is there."""
        if count > READ_MAX:
            raise OSError(errno.EINVAL, "more than a broker should send")
        self._flush()
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
        """Write data, or its first count bytes. It is sent before the next read."""
        raw = data.encode() if isinstance(data, str) else data
        self._unsent.extend(raw if count < 0 else raw[:count])
        if len(self._unsent) > WRITE_MAX:
            self._flush()
        return len(raw) if count < 0 else count

    def close(self) -> None:
        """Send buffered bytes and close the wire."""
        try:
            self._flush()
        finally:
            self._wire.close()

    def abort(self) -> None:
        """Close the wire without sending buffered bytes."""
        self._wire.close()

    def _flush(self) -> None:
        deadline = self._clock.now() + self._timeout
        view = memoryview(self._unsent)
        sent = 0
        while sent < len(view):
            taken = self._wire.send(view[sent:])
            sent += taken
            if not taken:
                self._wait(deadline)
        self._unsent = bytearray()

    def _wait(self, deadline: int) -> None:
        if self._clock.now() >= deadline:
            raise OSError(errno.ETIMEDOUT, "no answer in time")
        self._board.feed()
        self._board.pause(_POLL_MS)
