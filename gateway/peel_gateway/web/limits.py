# SPDX-License-Identifier: MIT
"""Limits of requests and connections. /healthz is exempt from the limit on concurrent requests.

uvicorn waits without limit for the rest of a request, and for a client that has stopped reading. Here

- a request must arrive whole, body included, within `ask_seconds`;
- a client must read `LEAST_READ_BYTES` of its response, or the rest of it, in each `read_seconds`;
- a request starts only when the client has read the responses before it, so that a slow reader keeps no request busy;
- where there are too many connections, from one address or in all, the one that has waited longest for a request is closed.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from peel_gateway.queries.responses import Error

__all__ = [
    "HEALTH",
    "LEAST_READ_BYTES",
    "MOST_HEAD_BYTES",
    "MOST_QUERY_BYTES",
    "Limits",
    "Patience",
    "address_group",
    "is_loopback",
    "is_within",
    "patient_protocol",
    "refusal",
]

HEALTH = "/healthz"
MOST_QUERY_BYTES = 4096
"""Path and query of a request together. All parameters of a path fit, each at its longest and percent-encoded."""
MOST_HEAD_BYTES = 8192
LEAST_READ_BYTES = 128 * 1024
_MOST_AT_ONCE = 64
"""Concurrent requests. A few have a thread, the others wait for one."""
_BUFFER_BYTES = 32 * 1024
"""Unread bytes in this process from which a client counts as slow; the kernel's buffer comes on top."""


def address_group(host: str) -> str:
    """Return the key of limits per address: an IPv4 address, or the /64 network of an IPv6 address.

    One IPv6 client has a whole /64 network to send from.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))


def is_within(host: str, network: str) -> bool:
    """Whether an address lies within a network, which may be a single address; False where either is empty or a name."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network)
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether a host's name or address means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Limits:
    """Middleware that refuses requests that are too long or too many, before any work is done for them.

    It runs after the guard, so that clients without the token cannot use up the limit.

    Parameters
    ----------
    unlimited : tuple of str
        Paths that do not count, because they need no thread: each connection has at most one request at a time.
    """

    def __init__(self, app: ASGIApp, unlimited: tuple[str, ...] = ()) -> None:
        self._app = app
        self._unlimited = (HEALTH, *unlimited)
        self._answering = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (length := len(scope["raw_path"]) + len(scope["query_string"])) > MOST_QUERY_BYTES:
            await refusal(414, f"path and query have {length} bytes; send at most {MOST_QUERY_BYTES}")(
                scope, receive, send
            )
        elif (length := sum(len(name) + len(value) for name, value in scope["headers"])) > MOST_HEAD_BYTES:
            await refusal(431, f"the headers have {length} bytes; send at most {MOST_HEAD_BYTES}")(scope, receive, send)
        elif scope["path"] in self._unlimited:
            await self._app(scope, receive, send)
        elif self._answering >= _MOST_AT_ONCE:
            error = f"{_MOST_AT_ONCE} requests are running; try again later"
            await refusal(503, error, {"retry-after": "1"})(scope, receive, send)
        else:
            self._answering += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._answering -= 1


def refusal(status: int, error: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response to a request that is refused."""
    body: Error = {"error": error}
    return JSONResponse(body, status, headers)


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Deadlines of a connection, and the largest number of connections."""

    ask_seconds: float = 10.0
    read_seconds: float = 20.0
    connections: int = 256
    per_address: int = 128


class _PatientProtocol(H11Protocol):
    """One connection, with deadlines.

    uvicorn has no setting for these deadlines and no hook to add them, so this subclass uses `flow` and `cycle`, which are not
    documented. pyproject.toml therefore bounds uvicorn's version, and test_http_hostile.py shows that slow clients are cut off.
    """

    patience: Patience
    proxy: str

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        self._reading: asyncio.TimerHandle | None = None
        self._is_cut = False
        host = self.client[0] if self.client else ""
        self._group = address_group(host)
        self._is_proxy = is_within(host, self.proxy)
        self._wait()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        self._asking.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Start the next request, but not before the client has read the last response."""
        if self.flow.write_paused and self._is_waiting():
            self.flow.pause_reading()
        elif not self.transport.is_closing():
            super().handle_events()

    def on_response_complete(self) -> None:
        self._asking.cancel()
        self._wait()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Set a deadline for the client, which has left much of its response unread."""
        super().pause_writing()
        self._watch_reading()

    def resume_writing(self) -> None:
        """Cancel the deadline: the client has read the waiting bytes."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        if self._is_waiting():
            self._asking.cancel()
            self._wait()
            self.flow.resume_reading()
            self.handle_events()

    def _watch_reading(self) -> None:
        unread = self.transport.get_write_buffer_size()
        self._reading = self.loop.call_later(self.patience.read_seconds, self._check_reading, unread)

    def _check_reading(self, unread: int) -> None:
        if unread - self.transport.get_write_buffer_size() < LEAST_READ_BYTES:
            self._cut()
        else:
            self._watch_reading()

    def _wait(self) -> None:
        """Set the deadline by which the next request must be whole, so that a byte now and then does not extend it."""
        self._waiting_since = self.loop.time()
        self._asking = self.loop.call_later(self.patience.ask_seconds, self._end_waiting)

    def _is_waiting(self) -> bool:
        """Whether no request is running, or the running one has not arrived whole."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _end_waiting(self) -> None:
        if self._is_waiting() and not self.flow.write_paused:
            self._cut()

    def _cut(self) -> None:
        self._is_cut = True
        self.transport.abort()

    def _make_room(self) -> None:
        """Close one waiting connection where there are too many: one of this address, or one of all. It may be this one."""
        others = [each for each in self.connections if isinstance(each, _PatientProtocol) and not each._is_cut]
        neighbours = [each for each in others if each._group == self._group]
        if len(neighbours) > self.patience.per_address and not self._is_proxy:
            _cut_longest_waiting(neighbours)
        elif len(others) > self.patience.connections:
            _cut_longest_waiting(others)


def _cut_longest_waiting(connections: Iterable[_PatientProtocol]) -> None:
    min((each for each in connections if each._is_waiting()), key=lambda each: each._waiting_since)._cut()


def patient_protocol(patience: Patience, proxy: str) -> type[Any]:
    """Return the protocol class for uvicorn. `per_address` does not apply to `proxy`, an address or a network."""
    return type("PatientProtocol", (_PatientProtocol,), {"patience": patience, "proxy": proxy})
