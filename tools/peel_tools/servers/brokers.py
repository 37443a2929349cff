# SPDX-License-Identifier: MIT
"""Brokers by name: the kinds that sites and soaks can be run with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from peel_tools.servers.broker import AnyBroker, Broker
from peel_tools.servers.nats import NatsBroker

__all__ = ["BROKERS"]

BROKERS: Mapping[str, Callable[[Path, int], AnyBroker]] = {
    "mosquitto": lambda folder, filters: Broker(folder=folder, persistent=True, embedded=False),
    "nats": lambda folder, filters: NatsBroker(folder=folder, filters=filters),
    "nats-cluster": lambda folder, filters: NatsBroker(folder=folder, servers=3, filters=filters),
}
"""Each makes one that keeps sessions and messages in a folder, for gateways that subscribe to so many filters per session."""
