# SPDX-License-Identifier: MIT
"""MQTT topics (SPEC section 11). Host code makes topics only here."""

from __future__ import annotations

from urllib.parse import quote

__all__ = ["LANES", "device_topic", "fleet_topic", "lane_of", "topic_level"]

LANES = 64


def fleet_topic(fleet: str, *levels: str) -> str:
    """Return a topic of a fleet, or a filter with ``+`` and ``#``.

    >>> fleet_topic("plant-7", "+", "+", "report")
    'peel/v1/plant-7/+/+/report'
    """
    return "/".join(("peel/v1", fleet, *levels))


def lane_of(device: int) -> str:
    """Return the lane of a device: its low six bits.

    >>> lane_of(0x2A7F)
    '3f'
    """
    return f"{device % LANES:02x}"


def device_topic(fleet: str, device: int, about: str) -> str:
    """Return a device's topic; ``about`` is its last level.

    >>> device_topic("plant-7", 42, "report")
    'peel/v1/plant-7/2a/0000002a/report'
    """
    return fleet_topic(fleet, lane_of(device), f"{device:08x}", about)


def topic_level(text: str) -> str:
    """Return any text as one level of a topic: percent-encoded UTF-8, ``.`` included, which some brokers cannot carry.

    >>> topic_level("Gewächshaus 2.1")
    'Gew%C3%A4chshaus%202%2E1'
    """
    return quote(text, safe="").replace(".", "%2E")
