# SPDX-License-Identifier: MIT
"""A subscriber that collects the messages of a device."""

from __future__ import annotations

import json
from typing import Any

from peel_hil.listener import Listener

from peel_core.frame import frame_bytes, split
from peel_tools.servers.broker import Broker

WIDTH = 48  # of the profile in host_board.bundle
FRAME_BYTES = frame_bytes(WIDTH)


class Inbox(Listener):
    """Subscribes to the lab fleet on a broker."""

    def __init__(self, broker: Broker) -> None:
        super().__init__((broker.host, broker.port), "peel/v1/lab/#")

    def next(self, timeout: float = 10) -> tuple[str, bytes]:
        """Return the next message: the last level of its topic, and its payload."""
        topic, payload = super().next(timeout)
        return topic.rsplit("/", 1)[1], payload

    def status(self, timeout: float = 10) -> dict[str, Any]:
        """Return the next status, skipping reports and cleared statuses."""
        while True:
            kind, payload = self.next(timeout)
            if kind == "status" and payload:
                found: dict[str, Any] = json.loads(payload)
                return found

    def frames(self, count: int, timeout: float = 10) -> list[bytes]:
        """Return the next `count` frames, skipping statuses."""
        found: list[bytes] = []
        while len(found) < count:
            kind, payload = self.next(timeout)
            if kind == "report":
                found += split(payload, WIDTH)
        return found
