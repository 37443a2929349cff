# SPDX-License-Identifier: MIT
"""One MQTT message, as it goes through the gateway."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LONGEST_TOPIC", "Message"]

LONGEST_TOPIC = 128
"""Bytes kept of a topic. Ours have half as many; it is a hint and proves nothing, but it is stored with each refused piece."""


@dataclass(frozen=True, slots=True)
class Message:
    """One MQTT message."""

    topic: str
    payload: bytes
    received: float
    """Unix seconds."""

    @property
    def size(self) -> int:
        """What it counts for in limits."""
        return len(self.topic) + len(self.payload)
