# SPDX-License-Identifier: MIT
"""One MQTT message, as it goes through the gateway."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Message"]


@dataclass(frozen=True, slots=True)
class Message:
    """One MQTT message."""

    topic: str
    payload: bytes
    received: float
    """Unix seconds."""
