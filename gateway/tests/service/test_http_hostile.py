# SPDX-License-Identifier: MIT
"""Hostile HTTP clients over plain sockets: slow, oversized, numerous, or not reading."""

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
from helpers import wait_until

from peel_gateway.estimation.estimate import Choice
from peel_gateway.metrics import Metrics
from peel_gateway.queries import estimates
from peel_gateway.queries.exposed import Cases
from peel_gateway.queries.parameters import QueryError
from peel_gateway.queries.responses import Summary
from peel_gateway.queries.views import Views
from peel_gateway.settings import Settings
from peel_gateway.web.app import build_app
from peel_gateway.web.limits import Patience
from peel_gateway.web.server import HttpServer
from peel_tools.servers import free_port
from peel_tools.servers.gateway import GatewayProcess

HALF_A_REQUEST = b"GET /api/summary HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
EVENTS = b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
TOKEN = b"0123456789abcdef-token"
HALF_A_LOGIN = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\ntoken="
PAGES = b"GET /page/panels.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, start_field: MakeField) -> GatewayProcess:
    return start_field(tmp_path_factory.mktemp("hostile")).new_gateway().start()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory, start_field: MakeField) -> GatewayProcess:
    """A gateway with a token."""
    gateway = start_field(tmp_path_factory.mktemp("guarded")).new_gateway(http_token=TOKEN.decode())
    gateway.start(until="started").wait_for(lambda: gateway.ask("/healthz"))
    return gateway


@contextlib.contextmanager
def connections(port: int, count: int, source: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    """Open `count` connections from one address, and close them at the end."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0)))
            for _ in range(count)
        ]


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
        return client.recv(65536) == b""  # what is left of an answer is read
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


@pytest.mark.parametrize("request_bytes", [HALF_A_LOGIN, PAGES], ids=["slow writers", "slow readers"])
def test_slow_strangers_take_no_room_from_the_api(guarded: GatewayProcess, request_bytes: bytes) -> None:
    port, token = port_of(guarded), b"Authorization: Bearer " + TOKEN + b"\r\n"
    with connections(port, 70) as clients:
        for client in clients:
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):  # the gateway reads no more requests than it has answered
                client.send(request_bytes)
        assert [ask(port, b"/api/summary", token) for _ in range(50)] == [200] * 50
        assert ask(port, b"/") == 200


def test_a_login_that_is_cut_leaves_no_traceback(field: Field) -> None:
    gateway = field.new_gateway(http_token=TOKEN.decode()).start(until="started")
    gateway.wait_for(lambda: gateway.ask("/healthz"))
    with connections(port_of(gateway), 3) as clients:
        for client in clients:
            client.sendall(HALF_A_LOGIN)
    assert ask(port_of(gateway), b"/healthz") == 200
    assert gateway.stop() == 0
    assert "Traceback" not in gateway.log_path.read_text()


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
        (b"/api/estimates?name=" + b"x" * 5000, b"", (414,)),
        (b"/" + b"x" * 5000, b"", (414,)),
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


@contextlib.contextmanager
def served(app: Any, patience: Patience, **settings: Any) -> Iterator[int]:
    """Serve an application on a free port."""
    port = free_port()
    server = HttpServer(Settings(http_port=port, **settings), patience=patience)
    server.start(app)
    try:
        wait_until(lambda: listens(port))
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


BIG = b"x" * 4_000_000


async def answer_big(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
    """Answer every request with `BIG`."""
    length = str(len(BIG)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": BIG})


def test_a_slow_reader_who_goes_on_reading_gets_everything() -> None:
    with served(answer_big, Patience(ask_seconds=0.5, read_seconds=3)) as port, connections(port, 1) as (client,):
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = 0
        while received < len(BIG):
            part = client.recv(500_000, socket.MSG_WAITALL)
            assert part, "cut off while it was reading"
            received += len(part)
            time.sleep(0.2)


def test_pipelined_requests_wait_for_the_reader() -> None:
    begun = 0

    async def counted(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        nonlocal begun
        begun += 1
        await answer_big(scope, receive, send)

    with served(counted, Patience()) as port, connections(port, 1) as (client,):
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        wait_until(lambda: begun > 0)
        assert ask(port, b"/other") == 200
        assert begun == 2, "one on each connection"
        received = 0
        while received < 3 * len(BIG):
            received += len(client.recv(1_000_000))
        assert begun == 4


def test_one_address_cannot_take_all_connections() -> None:
    patience = Patience(connections=10, per_address=4)
    with served(answer_big, patience) as port, connections(port, 1, "127.0.0.2") as (other,):
        with connections(port, 20) as clients:
            wait_until(lambda: sum(map(is_closed, clients)) == 16)
            assert not any(map(is_closed, clients[-4:])), "the newest have room"
            assert not is_closed(other)
        other.setblocking(True)
        other.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert code_of(other) == 200


def test_a_proxy_may_have_more_connections_than_other_addresses() -> None:
    patience = Patience(connections=10, per_address=4)
    with served(answer_big, patience, http_proxy="127.0.0.1") as port, connections(port, 8) as clients:
        assert ask(port, b"/") == 200
        assert not any(map(is_closed, clients))


async def _disconnected(receive: Callable[[], Any]) -> bool:
    try:
        return bool((await asyncio.wait_for(receive(), 0.001))["type"] == "http.disconnect")
    except TimeoutError:
        return False


def test_health_is_answered_while_all_are_busy() -> None:
    release = threading.Event()

    def slow() -> Summary:
        release.wait(30)
        return cast(Summary, {})

    app = build_app(
        cast(Views, None),
        cast(Cases, None),
        Metrics(),
        summary=slow,
        alerts=list,
        health=lambda: {"causes": [], "dead_letters": 0, "lag_seconds": 0.0, "receipt_lag_seconds": 0.0},
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
