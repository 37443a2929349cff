# SPDX-License-Identifier: MIT
"""Login in a browser: the page without a token, the session cookie, and wrong tokens."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import re
import socket
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import pytest
from field import Field, MakeField
from helpers import wait_until

from peel_core import Secret
from peel_gateway.web.access import COOKIE, SESSION_SECONDS, Attempts, has_session, new_session
from peel_gateway.web.app import PAGE_FOLDER
from peel_gateway.web.limits import address_group, is_within
from peel_tools.servers.gateway import GatewayProcess

TOKEN = "0123456789abcdef-token"


def start_guarded(field: Field, proxy: str = "") -> GatewayProcess:
    """Start a gateway with a token."""
    gateway = field.new_gateway(http_token=TOKEN, http_proxy=proxy)
    gateway.start(until="started")
    gateway.wait_for(lambda: gateway.ask("/healthz"))
    return gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, start_field: MakeField) -> GatewayProcess:
    return start_guarded(start_field(tmp_path_factory.mktemp("login")))


def send(
    gateway: GatewayProcess,
    method: str,
    path: str,
    body: Mapping[str, str] | None = None,
    source: str = "127.0.0.1",
    **headers: str,
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"), timeout=10, source_address=(source, 0))
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, urlencode(body) if body is not None else None, sent)
    answer = connection.getresponse()
    content = b"" if path == "/api/events" and answer.status == 200 else answer.read()
    connection.close()
    return answer, content


def cookie_of(answer: http.client.HTTPResponse) -> str:
    return str(answer.getheader("set-cookie")).partition(";")[0]


def test_the_token_becomes_a_cookie(gateway: GatewayProcess) -> None:
    answer, _ = send(gateway, "POST", "/login", {"token": TOKEN})
    assert answer.status == 200
    given = str(answer.getheader("set-cookie"))
    assert re.search(r"; HttpOnly", given) and re.search(r"; SameSite=strict", given, re.IGNORECASE)
    assert "Secure" not in given and TOKEN not in given
    cookie = cookie_of(answer)
    for path in ("/api/summary", "/api/events", "/metrics"):
        assert send(gateway, "GET", path)[0].status == 401
        assert send(gateway, "GET", path, Cookie=cookie)[0].status == 200
    assert json.loads(send(gateway, "GET", "/login", Cookie=cookie)[1]) == {"open": True, "session": True}
    assert json.loads(send(gateway, "GET", "/login")[1]) == {"open": False, "session": False}
    answer, _ = send(gateway, "POST", "/logout", {}, Cookie=cookie)
    assert cookie_of(answer) == f'{COOKIE}=""'


@pytest.mark.parametrize(
    "change", [lambda c: c[:-1] + "0", lambda c: "9" + c, lambda c: c.partition(".")[0], lambda c: ""]
)
def test_another_cookie_opens_nothing(gateway: GatewayProcess, change: Any) -> None:
    value = change(new_session(Secret(TOKEN.encode())).rstrip("0"))
    assert send(gateway, "GET", "/api/summary", Cookie=f"{COOKIE}={value}")[0].status == 401


def test_a_session_ends() -> None:
    token, now = Secret(TOKEN.encode()), time.time()
    cookies = {COOKIE: new_session(token, now)}
    assert has_session(cookies, token, now + SESSION_SECONDS - 1)
    assert not has_session(cookies, token, now + SESSION_SECONDS + 1)
    assert not has_session(cookies, Secret(b"another-token-of-16"), now)


def test_other_sites_cannot_log_anybody_in_or_out(gateway: GatewayProcess) -> None:
    host = gateway.url.removeprefix("http://")
    for path in ("/login", "/logout"):
        assert send(gateway, "POST", path, {"token": TOKEN}, Origin="https://evil.example")[0].status == 403
        assert send(gateway, "POST", path, {"token": TOKEN}, Origin="null")[0].status == 403
        assert send(gateway, "POST", path, {"token": TOKEN}, Origin=f"http://{host}")[0].status == 200


def test_guessing_has_an_end() -> None:
    attempts = Attempts(most=3, seconds=2.0, addresses=2)
    for _ in range(3):
        assert attempts.may_try("a")
        attempts.failed("a")
    assert not attempts.may_try("a") and attempts.may_try("b")
    wait_until(lambda: attempts.may_try("a"))
    for address in ("c", "d", "e"):
        attempts.failed(address)
    assert len(attempts._failed) == 2


def test_a_wrong_token_is_refused_and_then_has_to_wait(field: Field) -> None:
    gateway = start_guarded(field)
    codes = [send(gateway, "POST", "/login", {"token": TOKEN[:-1]})[0].status for _ in range(6)]
    assert codes == [401] * 5 + [429]
    assert send(gateway, "POST", "/login", {"token": TOKEN})[0].status == 429
    assert send(gateway, "GET", "/api/summary", Authorization=f"Bearer {TOKEN}")[0].status == 200
    assert send(gateway, "POST", "/login", {"token": "x" * 5000})[0].status in (413, 429)


def test_forged_addresses_do_not_pass_the_limit(field: Field) -> None:
    gateway = start_guarded(field)
    codes = [
        send(gateway, "POST", "/login", {"token": "wrong"}, X_Forwarded_For=f"192.0.2.{n}", X_Forwarded_Proto="https")[
            0
        ]
        for n in range(7)
    ]
    assert [answer.status for answer in codes] == [401] * 5 + [429] * 2


def test_a_proxy_that_is_named_says_who_asks_and_how(field: Field) -> None:
    gateway = start_guarded(field, proxy="127.0.0.1")

    def log_in(token: str, address: str, source: str = "127.0.0.1") -> http.client.HTTPResponse:
        headers = {"X_Forwarded_For": f"198.51.100.1, {address}", "X_Forwarded_Proto": "https"}
        return send(gateway, "POST", "/login", {"token": token}, source, **headers)[0]

    assert [log_in("wrong", "192.0.2.1").status for _ in range(6)] == [401] * 5 + [429]
    answer = log_in(TOKEN, "192.0.2.2")
    assert answer.status == 200
    assert "; Secure" in str(answer.getheader("set-cookie"))
    stranger = [log_in("wrong", f"192.0.2.{n}", source="127.0.0.2").status for n in range(10, 17)]
    assert stranger == [401] * 5 + [429] * 2
    answer = log_in(TOKEN, "192.0.2.20", source="127.0.0.3")
    assert "Secure" not in str(answer.getheader("set-cookie")), "only the proxy is believed"


def test_guesses_at_the_bearer_token_are_limited(field: Field) -> None:
    gateway = start_guarded(field)
    cookie = cookie_of(send(gateway, "POST", "/login", {"token": TOKEN})[0])

    def ask(token: str, source: str = "127.0.0.1") -> http.client.HTTPResponse:
        return send(gateway, "GET", "/api/layers", source=source, Authorization=f"Bearer {token}")[0]

    assert ask(TOKEN).status == 200
    assert [ask(f"wrong-{n}").status for n in range(22)] == [401] * 19 + [429] * 3
    answer = ask(TOKEN)
    assert (answer.status, answer.getheader("retry-after")) == (429, "60")
    assert ask(TOKEN, source="127.0.0.2").status == 200
    assert send(gateway, "GET", "/api/layers", Cookie=cookie)[0].status == 200
    assert send(gateway, "GET", "/")[0].status == 200
    assert send(gateway, "GET", "/healthz", Authorization=f"Bearer {TOKEN}")[0].status == 200


@pytest.mark.parametrize(
    ("host", "group"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("2001:db8::9", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
    ],
)
def test_addresses_of_one_client_count_together(host: str, group: str) -> None:
    assert address_group(host) == group


def test_a_proxy_is_an_address_or_a_network() -> None:
    assert is_within("10.1.2.3", "10.0.0.0/8") and is_within("::1", "::1")
    assert not any(is_within(*pair) for pair in [("10.1.2.3", ""), ("", "10.0.0.0/8"), ("::1", "10.0.0.0/8")])


def test_guesses_that_come_at_once_are_no_more_than_others(field: Field) -> None:
    """A client that opens many requests first, and sends its guesses after all were admitted, gets no extra guesses."""
    gateway = start_guarded(field)
    body = urlencode({"token": TOKEN[:-1]}).encode()
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    head = f"POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(socket.create_connection((host, int(port)), 10)) for _ in range(20)]
        for line in lines:
            line.sendall(head.encode())
        assert all(line.recv(1000).startswith(b"HTTP/1.1 100") for line in lines), "the bodies are waited for"
        for line in lines:
            line.sendall(body)
        codes = Counter(int(line.recv(1000).split()[1]) for line in lines)
    assert codes == {401: 5, 429: 15}


def test_the_page_is_open_and_says_nothing(gateway: GatewayProcess) -> None:
    answer, content = send(gateway, "GET", "/")
    assert answer.status == 200
    assert answer.getheader("content-type") == "text/html; charset=utf-8"
    policy = str(answer.getheader("content-security-policy"))
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert answer.getheader("x-content-type-options") == "nosniff"
    assert answer.getheader("referrer-policy") == "no-referrer"
    assert content == (PAGE_FOLDER / "index.html").read_bytes()
    again, nothing = send(gateway, "GET", "/", If_None_Match=str(answer.getheader("etag")))
    assert (again.status, nothing) == (304, b"")
    for file in re.findall(rb'(?:href|src)="(/page/[^"]+)"', content):
        assert send(gateway, "GET", file.decode())[0].status == 200


def test_the_page_is_small_and_alone() -> None:
    files = list(PAGE_FOLDER.iterdir())
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < 60_000, "a proxy sends it compressed"
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), file.name
        assert not re.search(r"\bon\w+=\"|style=\"|<script>|innerHTML|eval\(", text), file.name
