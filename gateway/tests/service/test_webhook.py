# SPDX-License-Identifier: MIT
"""The webhook, against an HTTP server that succeeds, fails, or does not answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from field import Field

from peel_gateway.settings import SettingsError, load_settings
from peel_tools.servers.gateway import GatewayProcess

TOKEN = "a-token-of-ours"


class Hook(ThreadingHTTPServer):
    """Answers with these codes, one after the other, the last one for ever."""

    def __init__(self, codes: Sequence[int]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.codes = list(codes)
        self.calls: list[tuple[str, str | None, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls.append((self.path, self.headers["Authorization"], json.loads(body)))
        code = self.server.codes.pop(0) if len(self.server.codes) > 1 else self.server.codes[0]
        self.send_response(code)
        if code == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def hook(*codes: int) -> Iterator[Hook]:
    server = Hook(codes)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def expose(field: Field, device: int) -> None:
    field.publish(field.reports(1, devices=[device], odds=(5, 1)))


def calls(gateway: GatewayProcess, result: str) -> float:
    (line,) = [x for x in gateway.fetch("/metrics").splitlines() if f'webhook_calls_total{{result="{result}"}}' in x]
    return float(line.split()[-1])


def test_an_exposure_is_posted_and_tried_again(field: Field) -> None:
    with hook(500, 429, 204) as server:
        gateway = field.new_gateway(webhook_url=server.url, webhook_token=TOKEN).start()
        expose(field, 3)
        gateway.wait_for(lambda: calls(gateway, "delivered") == 1)
        assert len(server.calls) == 3
        (path, token, told) = server.calls[-1]
        assert (path, token) == ("/hook", f"Bearer {TOKEN}")
        assert (told["about"], told["fleet"], told["gateway"], told["device"], told["cause"]) == (
            *("exposure", "field", "main"),
            *("00000003", "rule"),
        )
        assert "odds" in told["evidence"]
        assert gateway.stop() == 0
        assert TOKEN not in gateway.log_tail(1000)


def test_an_alert_is_posted(field: Field) -> None:
    field.write_alerts('name = "warm"\nprofile = "climate"\nfigure = "temperature"\nabove = 0\nwindow = "1h"')
    with hook(204) as server:
        gateway = field.new_gateway(webhook_url=server.url, publish_seconds=0.5).start()
        field.publish(field.reports(1000))
        gateway.wait_for(lambda: calls(gateway, "delivered") == 1)
        ((_, _, told),) = server.calls
        assert (told["about"], told["fleet"], told["alert"], told["state"]) == ("alert", "field", "warm", "active")
        assert told["sentence"].startswith("temperature of climate is above 0 degC; ")
        assert gateway.stop() == 0


@pytest.mark.parametrize("code", [302, 400, 403, 410])
def test_what_will_not_change_is_tried_once_and_no_redirect_is_followed(field: Field, code: int) -> None:
    with hook(code) as server:
        gateway = field.new_gateway(webhook_url=server.url, webhook_token=TOKEN).start()
        expose(field, 3)
        gateway.wait_for(lambda: calls(gateway, "failed") == 1)
        assert [path for path, *_ in server.calls] == ["/hook"]
        assert "the webhook call failed" in gateway.log_tail()
        assert gateway.stop() == 0
        assert "/hook" not in gateway.log_path.read_text(), "it may be all that it takes to post there"


def test_a_server_that_never_answers_holds_up_nobody(field: Field) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        gateway = field.new_gateway(webhook_url=url, webhook_seconds=60.0).start()
        expose(field, 3)
        sent = field.reports(200, devices=range(4, 20))
        field.publish(sent)
        field.wait_accepted(gateway, 200, seconds=20)
        assert gateway.get("/healthz")["status"] == "ok"
        assert gateway.stop() == 0, "nor the end"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://example.org/hook", "example.org is another machine"),
        ("ftp://example.org/", "must be an address such as https://"),
        ("https://user:secret@example.org/", "without a user name"),
        ("example.org", "must be an address such as https://"),
    ],
)
def test_only_safe_addresses_are_taken(url: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load_settings(None, {"PEEL_GATEWAY_WEBHOOK_URL": url})
    assert load_settings(None, {"PEEL_GATEWAY_WEBHOOK_URL": "https://example.org/hook"}).webhook_url
