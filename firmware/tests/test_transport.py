# SPDX-License-Identifier: MIT
"""The transport turns a bad wire into OSError, in bounded time."""

from __future__ import annotations

import errno

import pytest

from host_board import PacedBoard
from peel_device.transport import READ_MAX, Transport


class ScriptedWire:
    """A wire that follows a script, one entry per call."""

    def __init__(self, *script: bytes | None, takes: int = 3) -> None:
        self._script = list(script)
        self._takes = takes
        self.sent = b""

    def receive(self, limit: int) -> bytes | None:
        if not self._script:
            return None
        entry = self._script.pop(0)
        if entry and len(entry) > limit:
            self._script.insert(0, entry[limit:])
            return entry[:limit]
        return entry

    def send(self, data: bytes | memoryview) -> int:
        taken = bytes(data[: self._takes])
        self.sent += taken
        return len(taken)

    def close(self) -> None:
        pass


def transport(wire: ScriptedWire, timeout_ms: int = 1000) -> tuple[Transport, PacedBoard]:
    board = PacedBoard()
    return Transport(wire, board, board.clock, timeout_ms), board


def test_reads_are_exact() -> None:
    link, _ = transport(ScriptedWire(b"a", None, b"bc", b"def"))
    assert link.read(4) == b"abcd"
    assert link.read(2) == b"ef"


@pytest.mark.slow
def test_a_silent_peer_is_a_timeout_and_the_watchdog_is_fed() -> None:
    link, board = transport(ScriptedWire(b"a"))
    with pytest.raises(OSError) as caught:
        link.read(2)
    assert caught.value.errno == errno.ETIMEDOUT
    assert board.fed > 100


def test_a_closed_peer_is_a_reset() -> None:
    link, _ = transport(ScriptedWire(b"a", b""))
    with pytest.raises(OSError) as caught:
        link.read(2)
    assert caught.value.errno == errno.ECONNRESET


def test_nothing_to_read_is_none_only_without_blocking() -> None:
    link, _ = transport(ScriptedWire(None, None, b"x"))
    link.setblocking(False)
    assert link.read(1) is None
    link.setblocking(True)
    assert link.read(1) == b"x"


def test_a_hostile_length_is_refused() -> None:
    link, _ = transport(ScriptedWire())
    with pytest.raises(OSError):
        link.read(READ_MAX + 1)


def test_writes_are_whole() -> None:
    wire = ScriptedWire(takes=3)
    link, _ = transport(wire)
    assert link.write(b"0123456789", 7) == 7
    link.write("äb")
    assert wire.sent == b"", "small pieces wait for each other"
    link.close()
    assert wire.sent == b"0123456" + "äb".encode()


@pytest.mark.slow
def test_a_stuck_peer_is_a_timeout() -> None:
    link, _ = transport(ScriptedWire(takes=0))
    link.write(b"x")
    with pytest.raises(OSError) as caught:
        link.read(1)
    assert caught.value.errno == errno.ETIMEDOUT
