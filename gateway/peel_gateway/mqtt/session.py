# SPDX-License-Identifier: MIT
"""Session: under which name a connection is made, what comes over it, and what others are told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peel_core.topics import fleet_topic
from peel_gateway.model.share import Share
from peel_gateway.settings import Settings

__all__ = ["Session", "gateway_topic", "listening_session", "report_session"]


@dataclass(frozen=True, kw_only=True)
class Session:
    """What one connection to the broker is for."""

    client_id: str
    """The broker lets only one connection have it, and keeps a lasting session under it."""
    reports: Sequence[str]
    """Filters at QoS 1; empty where none come this way."""
    hears: Sequence[str]
    """Filters of all else, at QoS 0: it takes no place in the window of reports and needs no acknowledgement."""
    status: str | None
    """Where it says that the gateway is there, and the broker that it is not; None where another connection says so."""
    lasting: bool
    """Whether the broker keeps what comes while nobody is connected."""


def gateway_topic(fleet: str, name: str, about: str) -> str:
    """Where the gateway of this name tells others something (SPEC section 11)."""
    return fleet_topic(fleet, "gateway", name, about)


def _name(settings: Settings, fleet: str) -> str:
    return settings.mqtt_client_id or f"peel-gateway-{fleet}"


def report_session(settings: Settings, fleet: str, share: Share) -> Session:
    """Return a share's session, which carries reports, acknowledgements and receipts alone.

    The first share's session announces the whole gateway, so that a new owner's message follows the former owner's will.
    """
    return Session(
        client_id=share.session(_name(settings, fleet)),
        reports=share.filters(fleet, "report"),
        hears=(),
        status=gateway_topic(fleet, settings.gateway_name, "status") if share.first else None,
        lasting=True,
    )


def listening_session(settings: Settings, fleet: str, worker: str, hears: Sequence[str]) -> Session:
    """Return a process's session for statuses and all else that is no report. A flood there delays no report.

    Parameters
    ----------
    worker : str
        The name of the process among several; empty where there is only one.
    """
    client_id = f"{_name(settings, fleet)}-{worker or 'statuses'}"
    return Session(client_id=client_id, reports=(), hears=hears, status=None, lasting=False)
