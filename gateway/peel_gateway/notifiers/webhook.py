# SPDX-License-Identifier: MIT
"""Post exposures and alarms to an HTTP server, with retries, on a separate thread that never delays reports."""

from __future__ import annotations

import http.client
import json
import queue
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import IO

from peel_gateway.logs import Log
from peel_gateway.metrics import Metrics
from peel_gateway.settings import Settings

__all__ = ["Webhook"]

_MOST_WAITING = 1000
_ATTEMPTS = 8
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0
_STOP_SECONDS = 5.0
_WORTH_ANOTHER_TRY = (408, 425, 429)
"""Client errors (4xx) worth a retry; server errors (5xx) always are."""

_log = Log("webhook")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: the token is only for the server in the settings."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


class Webhook:
    """A thread that posts JSON documents to one URL, one after the other. Without a URL it does nothing."""

    def __init__(self, settings: Settings, fleet: str, metrics: Metrics) -> None:
        self._settings = settings
        self._whose = {"fleet": fleet, "gateway": settings.gateway_name}
        self._server = urllib.parse.urlsplit(settings.webhook_url).netloc
        """The only part of the URL that is logged. For many services the rest is a secret that permits posting."""
        self._metrics = metrics
        self._waiting: queue.Queue[bytes | None] = queue.Queue(_MOST_WAITING)
        self._stopping = threading.Event()
        self._opener = urllib.request.build_opener(_NoRedirect())
        self._thread = threading.Thread(target=self._run, name="webhook", daemon=True)

    def start(self) -> None:
        if self._settings.webhook_url:
            self._thread.start()

    def stop(self) -> None:
        """Try each waiting document once, for a few seconds, and drop the rest."""
        if not self._thread.is_alive():
            return
        self._stopping.set()
        self.post_end()
        self._thread.join(_STOP_SECONDS)
        if lost := self._waiting.qsize():
            _log.warning("webhook calls were dropped on shutdown", count=lost)

    def post_end(self) -> None:
        """Let the thread end after the waiting documents."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return  # the thread ends with the process

    def post(self, about: str, document: Mapping[str, object]) -> None:
        """Queue a document and return at once. If the queue is full, the document is counted and dropped."""
        if not self._settings.webhook_url:
            return
        try:
            self._waiting.put_nowait(json.dumps({"about": about, **self._whose, **document}).encode())
        except queue.Full:
            self._metrics.webhook_called("dropped")

    def _run(self) -> None:
        while (body := self._waiting.get()) is not None:
            self._metrics.webhook_called("delivered" if self._deliver(body) else "failed")

    def _deliver(self, body: bytes) -> bool:
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(1, _ATTEMPTS + 1):
            cause = self._try(body)
            if cause is None:
                return True
            lasting = isinstance(cause, urllib.error.HTTPError) and not _may_pass(cause.code)
            if lasting or attempt == _ATTEMPTS or self._stopping.wait(pause):
                _log.error("the webhook call failed", server=self._server, attempts=attempt, cause=cause)
                return False
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        return False

    def _try(self, body: bytes) -> Exception | None:
        """Post once; return the error, or None."""
        request = urllib.request.Request(  # noqa: S310 - the settings allow https, and http on this machine
            self._settings.webhook_url, data=body, headers={"Content-Type": "application/json"}, method="POST"
        )
        if self._settings.webhook_token is not None:
            request.add_unredirected_header("Authorization", f"Bearer {self._settings.webhook_token.reveal().decode()}")
        try:
            with self._opener.open(request, timeout=self._settings.webhook_seconds):
                return None
        except (OSError, http.client.HTTPException, ValueError) as error:
            return error


def _may_pass(code: int) -> bool:
    return code >= 500 or code in _WORTH_ANOTHER_TRY
