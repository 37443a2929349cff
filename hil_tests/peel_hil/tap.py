# SPDX-License-Identifier: MIT
"""A subscriber that parses messages: every frame and every status of a fleet."""

from __future__ import annotations

from peel_core.frame import split
from peel_hil.duts import Endpoint
from peel_hil.listener import Listener

__all__ = ["Tap"]


class Tap(Listener):
    """Listens to devices whose profile has one width."""

    def __init__(self, broker: Endpoint, width: int) -> None:
        super().__init__(broker)
        self._width = width
        self.frames: list[bytes] = []

    def hear(self, topic: str, payload: bytes) -> None:
        super().hear(topic, payload)
        if topic.endswith("/report"):
            self.frames += split(payload, self._width)

    def statuses(self, device: str) -> list[bytes]:
        """Return the statuses of a device, including its will, oldest first."""
        return [payload for topic, payload in self.messages if topic.endswith(f"/{device}/status")]
