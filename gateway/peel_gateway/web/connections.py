# SPDX-License-Identifier: MIT
"""Connections that cannot be held for nothing: who asks too slowly, or does not read the answer, is cut off.

uvicorn waits for ever for the rest of a request and for a client that has stopped reading. Here a connection that is not being
answered has `ask_seconds` to bring a whole request, and one that is being answered must read something within `read_seconds`.
When there are too many, the one that has been waiting longest without asking makes room: whoever asks at once is heard.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Patience", "patient_protocol"]

_BUFFER_BYTES = 32 * 1024
"""What waits here for a slow reader, beside what the system keeps."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long clients may take, and how many of them there may be."""

    ask_seconds: float = 10.0
    read_seconds: float = 20.0
    connections: int = 256


class _PatientProtocol(H11Protocol):
    """One connection."""

    patience: Patience

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        self._reading: asyncio.TimerHandle | None = None
        self._wait()
        if len(self.connections) > self.patience.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._asking.cancel()
        self.resume_writing()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._asking.cancel()
        self._wait()

    def pause_writing(self) -> None:
        """More waits for the client than it should."""
        super().pause_writing()
        self._reading = self.loop.call_later(self.patience.read_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _wait(self) -> None:
        """For the next request, whole: a byte now and then is not enough."""
        self._waiting_since = self.loop.time()
        self._asking = self.loop.call_later(self.patience.ask_seconds, self._end_waiting)

    def _is_waiting(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _end_waiting(self) -> None:
        if self._is_waiting():
            self.transport.abort()

    def _make_room(self) -> None:
        waiting = [each for each in self.connections if isinstance(each, _PatientProtocol) and each._is_waiting()]
        min(waiting, key=lambda each: each._waiting_since).transport.abort()


def patient_protocol(patience: Patience) -> type[Any]:
    """The protocol for uvicorn to make connections of."""
    return type("PatientProtocol", (_PatientProtocol,), {"patience": patience})
