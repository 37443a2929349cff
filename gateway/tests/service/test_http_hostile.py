# SPDX-License-Identifier: MIT
"""Clients that do HTTP harm, over plain sockets: slow ones, long ones, many, and those that do not read."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from field import Field, MakeField

from peel_gateway.answers import estimates
from peel_gateway.answers.exposed import Cases
from peel_gateway.answers.table import QueryError
from peel_gateway.answers.views import Views
from peel_gateway.estimation.estimate import Choice
from peel_gateway.metrics import Metrics
from peel_gateway.settings import Settings
from peel_gateway.web.app import build_app
from peel_gateway.web.connections import Patience
from peel_gateway.web.server import HttpServer
from peel_tools.servers.gateway import GatewayProcess
from peel_tools.servers.ports import free_port

HALF_A_REQUEST = b"GET /api/summary HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
EVENTS = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, start_field: MakeField) -> GatewayProcess:
    return start_field(tmp_path_factory.mktemp("hostile")).new_gateway().start()


@contextlib.contextmanager
def connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    """So many open ones, closed at the end."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)) for _ in range(count)]


def port_of(gateway: GatewayProcess) -> int:
    return int(gateway.url.rpartition(":")[2])


def ask(port: int, target: bytes, head: bytes = b"") -> int | None:
    """The code that is answered; none when the connection was closed instead."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        with contextlib.suppress(ConnectionError):  # refused while it was still being sent
            client.sendall(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + head + b"\r\n")
        return code_of(client)


def code_of(client: socket.socket) -> int | None:
    try:
        line = client.recv(4096).split()
    except ConnectionResetError:
        return None
    return int(line[1]) if line else None


def is_closed(client: socket.socket) -> bool:
    """Whether the server has ended the connection."""
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_half_requests_do_not_keep_others_out(gateway: GatewayProcess) -> None:
    with connections(port_of(gateway), 500) as clients:
        for client in clients:
            with contextlib.suppress(ConnectionError):  # some have had to make room already
                client.sendall(HALF_A_REQUEST)
        assert ask(port_of(gateway), b"/healthz") == 200
        assert gateway.summary()["broker"]["connected"]


def test_a_request_that_trickles_is_cut_off(gateway: GatewayProcess) -> None:
    with connections(port_of(gateway), 2) as (silent, trickling):
        trickling.sendall(HALF_A_REQUEST)
        deadline = time.monotonic() + 20
        while not (is_closed(silent) and is_closed(trickling)):
            assert time.monotonic() < deadline
            with contextlib.suppress(OSError):
                trickling.send(b"x")
            time.sleep(0.5)


def test_a_second_request_must_not_trickle_either(gateway: GatewayProcess) -> None:
    with connections(port_of(gateway), 1) as (client,):
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert code_of(client) == 200
        deadline = time.monotonic() + 20
        while not is_closed(client):
            assert time.monotonic() < deadline
            with contextlib.suppress(OSError):
                client.send(b"G")
            time.sleep(0.5)


@pytest.mark.parametrize(
    ("target", "head", "code"),
    [
        (b"/api/estimates?" + b"&".join(b"a%d=1" % n for n in range(5000)), b"", (None, 400, 414)),
        (b"/api/estimates?name=" + b"x" * 3000, b"", (414,)),
        (b"/" + b"x" * 3000, b"", (414,)),
        (b"/api/estimates?top=" + b"9" * 1000, b"", (400,)),
        (b"/api/exposures/" + b"9" * 1000, b"", (404,)),
        (b"/api/exposures/9223372036854775807", b"", (404,)),
        (b"/api/summary", b"".join(b"X-%d: 1\r\n" % n for n in range(2000)), (431,)),
    ],
    ids=["parameters", "value", "path", "number", "id", "largest id", "headers"],
)
def test_huge_questions_are_refused(
    gateway: GatewayProcess, target: bytes, head: bytes, code: tuple[int | None, ...]
) -> None:
    assert ask(port_of(gateway), target, head) in code
    assert ask(port_of(gateway), b"/healthz") == 200


def test_streams_are_bounded_even_when_asked_for_at_once(field: Field) -> None:
    gateway = field.new_gateway(http_streams=2).start()
    with connections(port_of(gateway), 10) as clients:
        gateway.signal(signal.SIGSTOP)  # all requests are there when it goes on
        for client in clients:
            client.sendall(EVENTS)
        gateway.signal(signal.SIGCONT)
        codes = [code_of(client) for client in clients]
    assert (codes.count(200), codes.count(503)) == (2, 8)


def test_places_of_streams_come_back(field: Field) -> None:
    gateway = field.new_gateway(http_streams=2).start()
    for _ in range(6):
        with connections(port_of(gateway), 2) as clients:
            for client in clients:
                client.sendall(EVENTS)
                assert code_of(client) == 200
        gateway.wait_for(lambda: _opens(gateway), 10, "a place for a stream")


def _opens(gateway: GatewayProcess) -> bool:
    """Whether there is room for two streams."""
    with connections(port_of(gateway), 2) as clients:
        for client in clients:
            client.sendall(EVENTS)
        return all(code_of(client) == 200 for client in clients)


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextlib.contextmanager
def served(app: Any, patience: Patience) -> Iterator[int]:
    """A server of our own on a free port."""
    port = free_port()
    server = HttpServer(Settings(http_port=port), patience=patience)
    server.start(app)
    try:
        wait_for(lambda: listens(port))
        yield port
    finally:
        server.stop()


def test_who_does_not_read_is_cut_off() -> None:
    ended = threading.Event()

    async def flood(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(2000):
                await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
                if await _disconnected(receive):
                    break
        finally:
            ended.set()

    with served(flood, Patience(read_seconds=0.5)) as port, connections(port, 1) as (client,):
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert ended.wait(10)


async def _disconnected(receive: Callable[[], Any]) -> bool:
    try:
        return bool((await asyncio.wait_for(receive(), 0.001))["type"] == "http.disconnect")
    except TimeoutError:
        return False


def test_health_is_answered_while_all_are_busy() -> None:
    release = threading.Event()

    def slow() -> dict[str, Any]:
        release.wait(30)
        return {}

    app = build_app(
        cast(Views, None),
        cast(Cases, None),
        Metrics(),
        summary=slow,
        health=list,
        generation=int,
        stopping=threading.Event(),
        token=None,
        streams=1,
    )
    with served(app, Patience()) as port, connections(port, 120) as clients:
        for client in clients:
            client.sendall(b"GET /api/summary HTTP/1.1\r\nHost: localhost\r\n\r\n")
        begun = time.monotonic()
        assert ask(port, b"/healthz") == 200
        assert time.monotonic() - begun < 5
        release.set()
        codes = [code_of(client) for client in clients]
    assert (codes.count(200), codes.count(503)) == (64, 56)


def test_the_log_is_not_read_for_an_answer_that_is_refused(field: Field, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = field.new_gateway(store_bucket_seconds=1).start()
    field.publish(field.reports(50))
    field.wait_accepted(gateway, 50)
    monkeypatch.setattr(estimates, "MOST_FIGURES", 1)
    with gateway.store() as store:
        monkeypatch.setattr(type(store), "device_tallies", lambda *_, **__: pytest.fail("the log was read"))
        question = estimates.EstimateQuestion(field.profile, None, None, 1, True, Choice())
        with pytest.raises(QueryError, match="ask for larger buckets"):
            estimates.estimate_tables(store, question, 1.0)
