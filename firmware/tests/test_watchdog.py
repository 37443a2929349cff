# SPDX-License-Identifier: MIT
"""Connecting feeds the watchdog, whatever the peer does: the longest gap between two feeds stays far below 8.3 s."""

from __future__ import annotations

import importlib
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from host_board import HostBoard, config
from peel_device import link as link_module
from peel_device import tcp
from peel_device.link import Link
from peel_device.outbox import Outbox
from peel_tools.servers.broker import Broker
from power_cut import MemoryFiles

GAP_S = 1.5
"""The longest allowed gap. The firmware feeds ten times a second; the rest allows for a busy computer."""
LONG_S = 3.0
"""The delay of each peer here: code that waits for it without feeding fails the test."""


class HungryBoard(HostBoard):
    """Records the longest gap between two feeds; none while a timer feeds."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0.0
        self.fed_by_timer = 0
        self._timer = False
        self._last = time.monotonic()

    def feed(self) -> None:
        now = time.monotonic()
        if not self._timer:
            self.longest = max(self.longest, now - self._last)
        self._last = now

    def feed_for(self, milliseconds: int) -> None:
        self.feed()
        self.fed_by_timer = max(self.fed_by_timer, milliseconds)
        self._timer = milliseconds > 0


def drain(port: int, ca: Path | None) -> tuple[int, HungryBoard]:
    mqtt: dict[str, Any] = {"host": "127.0.0.1", "port": port}
    settings = config(mqtt=mqtt | ({"tls": True, "ca": "ca.der"} if ca else {}))
    settings.mqtt.ca = str(ca)
    outbox = Outbox(MemoryFiles(), "out", 10)
    outbox.start()
    outbox.put(1, b"frame")
    board = HungryBoard()
    link = Link(settings, board, board.clock, os.urandom)
    sent = link.drain(outbox, {"state": "online"})
    board.feed()
    return sent, board


@pytest.fixture
def silent() -> Iterator[int]:
    """A peer that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_peer_that_never_shakes_hands(
    silent: int,
    certificates: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_module, "TIMEOUT_MS", int(1000 * LONG_S))
    started = time.monotonic()
    sent, board = drain(silent, certificates / "ca.der")
    assert sent == 0
    assert time.monotonic() - started >= LONG_S
    assert board.longest < GAP_S


def test_a_peer_that_never_takes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "CONNECT_MS", int(1000 * LONG_S))
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:  # fill the backlog: the next connection gets no answer
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        started = time.monotonic()
        sent, board = drain(server.getsockname()[1], None)
        for client in waiting:
            client.close()
    assert sent == 0
    assert time.monotonic() - started >= LONG_S
    assert board.longest < GAP_S


def test_a_slow_handshake_gets_through_and_is_fed(
    tls_broker: Broker,
    certificates: Path,
) -> None:
    with SlowProxy(tls_broker.port) as port:
        started = time.monotonic()
        sent, board = drain(port, certificates / "ca.der")
    assert sent == 1
    assert time.monotonic() - started >= LONG_S, "the proxy was slow indeed"
    assert board.longest < GAP_S


class SlowProxy:
    """Forwards bytes to a port in small pieces, the first of them late."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __enter__(self) -> int:
        self._server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._serve, daemon=True).start()
        port: int = self._server.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _serve(self) -> None:
        near, _ = self._server.accept()
        far = socket.create_connection(("127.0.0.1", self._port))
        threading.Thread(target=self._pass, args=(near, far, 0.0), daemon=True).start()
        self._pass(far, near, LONG_S)

    def _pass(self, source: socket.socket, target: socket.socket, delay: float) -> None:
        try:
            while data := source.recv(700):
                time.sleep(delay)
                target.sendall(data)
                delay = 0.0
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other direction has closed it


def test_a_slow_name_server_is_waited_for_with_a_timer(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    look_up = socket.getaddrinfo

    def slowly(*words: Any) -> Any:
        time.sleep(LONG_S)
        return look_up(*words)

    monkeypatch.setattr(link_module, "TIMEOUT_MS", 100)
    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    _, board = drain(silent, None)
    assert board.longest < GAP_S
    assert board.fed_by_timer == tcp.NAME_MS


def test_the_timer_of_a_pico_feeds_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ModuleType("machine")
    timers: list[SimpleNamespace] = []

    def timer(number: int, **settings: Any) -> SimpleNamespace:
        timers.append(SimpleNamespace(deinit=lambda: timers.pop(), **settings))
        return timers[-1]

    vars(timer)["PERIODIC"] = 1
    vars(machine)["Timer"] = timer
    monkeypatch.setitem(sys.modules, "machine", machine)
    monkeypatch.delitem(sys.modules, "boards.pico", raising=False)
    pico = importlib.import_module("boards.pico")
    meals: list[int] = []
    board = pico.Board.__new__(pico.Board)
    board._feeder, board._meals = None, 0
    board._watchdog = SimpleNamespace(feed=lambda: meals.append(1))
    board.feed_for(20_000)
    for _ in range(100):  # the call hangs
        timers[0].callback(timers[0])
    assert timers[0].period < 8300 / 2
    assert len(meals) == 1 + 20_000 // timers[0].period, "then the watchdog may bite"
    board.feed_for(0)
    assert timers == []
    del sys.modules["boards.pico"]
