# SPDX-License-Identifier: MIT
"""Server-sent events: the summary, built once for all listeners."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from peel_gateway.queries.responses import Summary
from peel_gateway.storage.store import StoreError
from peel_gateway.web.limits import refusal

__all__ = ["Streams"]

_EVENT_SECONDS = 1.0
_AGAIN_SECONDS = 5.0


@dataclass
class _Places:
    """Open streams and their limit."""

    most: int
    taken: int = 0


class _Stream(StreamingResponse):
    """A stream that counts as open from before its first await until it ends, however it ends."""

    def __init__(self, events: AsyncIterator[str], places: _Places) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"cache-control": "no-store"})
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._places.taken >= self._places.most:
            error = f"{self._places.most} event streams are open, the limit; close one or raise http.streams"
            await refusal(503, error)(scope, receive, send)
            return
        self._places.taken += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.taken -= 1


class Streams:
    """All event streams of a server.

    A stream sends one event at once, then at most one per second while batches arrive, and one every five seconds otherwise.

    Parameters
    ----------
    summary : callable
        Returns the content of an event.
    generation : callable
        Returns a number that grows with every batch. An event is sent when it has grown.
    stopping : Event
        Set to end all streams.
    most : int
        Largest number of open streams.
    """

    def __init__(
        self, summary: Callable[[], Summary], generation: Callable[[], int], *, stopping: threading.Event, most: int
    ) -> None:
        self._summary = summary
        self._generation = generation
        self._stopping = stopping
        self._places = _Places(most)
        self._making = asyncio.Lock()
        self._made: tuple[int, str] = (-1, "")
        self._made_at = 0.0

    def response(self) -> Response:
        """Return a new stream, or a refusal where too many are open."""
        return _Stream(self._events(), self._places)

    async def _events(self) -> AsyncIterator[str]:
        """Yield events. Those without news tell listeners that the broker has gone, and find listeners that have gone."""
        loop = asyncio.get_running_loop()
        seen, spoke = -1, loop.time()
        while not self._stopping.is_set():
            if self._generation() != seen or loop.time() - spoke >= _AGAIN_SECONDS:
                seen, event = await self._newest()
                spoke = loop.time()
                yield event
            await asyncio.sleep(_EVENT_SECONDS)

    async def _newest(self) -> tuple[int, str]:
        """Return the newest event with its generation. The first caller builds it for all."""
        async with self._making:
            current, now = self._generation(), asyncio.get_running_loop().time()
            if current != self._made[0] or now - self._made_at >= _EVENT_SECONDS:
                self._made, self._made_at = (current, await self._make(current)), now
            return self._made

    async def _make(self, current: int) -> str:
        try:
            data = json.dumps(await asyncio.to_thread(self._summary))
        except StoreError as error:
            return f"event: trouble\ndata: {json.dumps({'error': str(error)})}\n\n"
        return f"id: {current}\nevent: summary\ndata: {data}\n\n"
