# SPDX-License-Identifier: MIT
"""Lines with weather: what goes in comes out, later or not at all, and is heard."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from peel_research.soak.weather import Weather
from peel_tools.network import Endpoint, Publish

MESSAGE = Publish(b"peel/v1/lab/2a/0000002a/report", 7, bytes(100))


@pytest.fixture
def echo() -> Iterator[Endpoint]:
    """A server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(4096):
                connection.sendall(data)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[:2]
    listener.close()


def call(line: Weather) -> socket.socket:
    return socket.create_connection(line.endpoint, timeout=10)


def echoed(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    found = b""
    while len(found) < len(data) and (some := connection.recv(4096)):
        found += some
    return found


def test_a_line_carries_both_ways_and_hears_messages_however_they_are_chopped(echo: Endpoint) -> None:
    heard: list[Publish] = []
    with Weather(echo, heard.append) as line, call(line) as connection:
        packet = MESSAGE.packet()
        for piece in (packet[:1], packet[1:40], packet[40:] + packet):
            assert echoed(connection, piece) == piece
    assert heard == [MESSAGE, MESSAGE]
    assert line.errors == []


def test_a_cut_ends_connections_and_admits_nobody_until_it_is_healed(echo: Endpoint) -> None:
    with Weather(echo) as line:
        with call(line) as connection:
            assert echoed(connection, b"before") == b"before"
            line.cut()
            assert connection.recv(10) == b""
        with call(line) as connection:
            assert connection.recv(10) == b""
        line.heal()
        with call(line) as connection:
            assert echoed(connection, b"after") == b"after"


def test_a_slow_line_takes_its_time_in_both_directions(echo: Endpoint) -> None:
    with Weather(echo) as line, call(line) as connection:
        line.delay = 0.2
        started = time.monotonic()
        assert echoed(connection, b"slow") == b"slow"
        assert time.monotonic() - started >= 0.4
        line.heal()
        assert line.delay == 0.0
