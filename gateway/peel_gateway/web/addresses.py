# SPDX-License-Identifier: MIT
"""Addresses of HTTP clients: which are this machine, which belong together."""

from __future__ import annotations

import ipaddress

__all__ = ["address_group", "is_loopback", "is_within"]


def address_group(host: str) -> str:
    """Return what limits per address count by: an IPv4 address, or the /64 network of an IPv6 address.

    One IPv6 client has a whole /64 network to send from.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))


def is_within(host: str, network: str) -> bool:
    """Whether an address lies within a network, which may be a single address; False where either is empty or a name."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network)
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether a host's name or address means this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
