# SPDX-License-Identifier: MIT
"""Ports that nobody uses."""

from __future__ import annotations

import itertools
import os
import socket

from peel_gateway.exits import Exit

__all__ = ["NoPortError", "free_port"]

_PORTS = range(15_000, 32_000)
"""Below those that Linux and macOS give to outgoing connections, which could take the port of a server that is away."""
_PORTS_APART = 10_507
"""The golden section of the ports: however many processes follow each other, each begins far from all others. A port that was given is not
always listened on, and only its giver knows that it is taken."""
_ports_given = itertools.count()


class NoPortError(Exception):
    """Every port is taken."""

    exit_code = Exit.MISSING


def free_port() -> int:
    """A TCP port on loopback that nobody listens on right now; another one each time."""
    for _ in _PORTS:
        place = os.getpid() * _PORTS_APART + next(_ports_given)
        port = _PORTS[place % len(_PORTS)]
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise NoPortError(f"every port from {_PORTS.start} to {_PORTS.stop - 1} is taken")
