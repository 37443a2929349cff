# SPDX-License-Identifier: MIT
"""The HTTP server: uvicorn in a thread, on a socket that is bound in the constructor."""

from __future__ import annotations

import socket
import threading

import uvicorn
from starlette.types import ASGIApp

from peel_gateway.logs import Log
from peel_gateway.settings import Settings
from peel_gateway.web.limits import MOST_HEAD_BYTES, Patience, is_loopback, patient_protocol

__all__ = ["HttpError", "HttpServer"]

_LEAST_TOKEN_BYTES = 16
_STOP_SECONDS = 5.0
_SEND_BUFFER_BYTES = 64 * 1024
_SILENT_MILLISECONDS = 30_000

_log = Log("http")


class HttpError(Exception):
    """The HTTP settings cannot be used; the message says what to change."""


class HttpServer:
    """uvicorn on a socket that is bound in the constructor, so that a taken port is an error at start."""

    def __init__(self, settings: Settings, *, patience: Patience | None = None) -> None:
        self._settings = settings
        self._patience = patience or Patience(
            connections=settings.http_streams + 256, per_address=settings.http_streams + 128
        )
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._check_token()
        self._socket = self._bind()

    @property
    def port(self) -> int:
        """The port it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    def start(self, app: ASGIApp) -> None:
        proxy = self._settings.http_proxy
        config = uvicorn.Config(
            app,
            http=patient_protocol(self._patience, proxy),
            proxy_headers=bool(proxy),
            forwarded_allow_ips=proxy,
            ws="none",
            h11_max_incomplete_event_size=2 * MOST_HEAD_BYTES,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="http", daemon=True
        )
        self._thread.start()
        _log.info("listening", host=self._settings.http_host, port=self.port)

    def stop(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(_STOP_SECONDS)
        self._socket.close()

    def _check_token(self) -> None:
        token, host = self._settings.http_token, self._settings.http_host
        if token is None and not is_loopback(host):
            raise HttpError(f"http.host: {host} is reachable from other machines; set http.token or http.token_file")
        if token is not None and len(token) < _LEAST_TOKEN_BYTES:
            raise HttpError(
                f"http.token: has {len(token)} characters, which can be guessed; use at least {_LEAST_TOKEN_BYTES}"
            )

    def _bind(self) -> socket.socket:
        host, port = self._settings.http_host, self._settings.http_port
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            bound = socket.socket(family, kind, protocol)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Connections inherit this. A slow client is noticed by the bytes that wait in this process, so the kernel may hold few.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
            # Linux closes the connection of a peer that has vanished, because it acknowledges nothing.
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MILLISECONDS)
            bound.bind(address)
        except OSError as error:
            raise HttpError(
                f"http.host, http.port: cannot listen on {host}:{port}: {error.strerror}. Set another http.port."
            ) from None
        return bound
