# SPDX-License-Identifier: MIT
"""Connections with deadlines: a client that sends or reads too slowly is cut off.

uvicorn waits without limit for the rest of a request, and for a client that has stopped reading. Here

- a request must arrive whole, body included, within `ask_seconds`;
- a client must read `LEAST_READ_BYTES` of its answer, or all that is left of it, in each `read_seconds`;
- a request starts only when the client has read the answers before it, so that a slow reader keeps no request busy;
- where there are too many connections, of one address or of all, the one that has waited longest for a request is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from peel_gateway.web.addresses import address_group, is_within

__all__ = ["LEAST_READ_BYTES", "Patience", "patient_protocol"]

LEAST_READ_BYTES = 128 * 1024
_BUFFER_BYTES = 32 * 1024
"""Unread bytes in this process from which a client counts as slow; the kernel's buffer comes on top."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Deadlines of a connection, and how many connections there may be."""

    ask_seconds: float = 10.0
    read_seconds: float = 20.0
    connections: int = 256
    per_address: int = 128


class _PatientProtocol(H11Protocol):
    """One connection."""

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
        """Start the next request, but not before the client has read the last answer."""
        if self.flow.write_paused and self._is_waiting():
            self.flow.pause_reading()
        elif not self.transport.is_closing():
            super().handle_events()

    def on_response_complete(self) -> None:
        self._asking.cancel()
        self._wait()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Give the client a deadline: it has left much of its answer unread."""
        super().pause_writing()
        self._watch_reading()

    def resume_writing(self) -> None:
        """Go on: the client has read what was waiting for it."""
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
        """Set the deadline for the next request. It must be whole by then: a byte now and then is not enough."""
        self._waiting_since = self.loop.time()
        self._asking = self.loop.call_later(self.patience.ask_seconds, self._end_waiting)

    def _is_waiting(self) -> bool:
        """Whether no request is being answered, or the one that is has not arrived whole."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _end_waiting(self) -> None:
        if self._is_waiting() and not self.flow.write_paused:
            self._cut()

    def _cut(self) -> None:
        self._is_cut = True
        self.transport.abort()

    def _make_room(self) -> None:
        """Close one connection of this address, or one of all, where there are too many. This one waits too: it may be it."""
        others = [each for each in self.connections if isinstance(each, _PatientProtocol) and not each._is_cut]
        neighbours = [each for each in others if each._group == self._group]
        if len(neighbours) > self.patience.per_address and not self._is_proxy:
            _cut_longest_waiting(neighbours)
        elif len(others) > self.patience.connections:
            _cut_longest_waiting(others)


def _cut_longest_waiting(connections: Iterable[_PatientProtocol]) -> None:
    min((each for each in connections if each._is_waiting()), key=lambda each: each._waiting_since)._cut()


def patient_protocol(patience: Patience, proxy: str) -> type[Any]:
    """Make the protocol class for uvicorn; `proxy` is an address, or network, that `per_address` does not bound."""
    return type("PatientProtocol", (_PatientProtocol,), {"patience": patience, "proxy": proxy})
