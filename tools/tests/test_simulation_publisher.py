# SPDX-License-Identifier: MIT
"""Simulated devices at a broker that does not acknowledge: like real ones they connect anew, and send again."""

from __future__ import annotations

import socket
import time

import pytest

from peel_tools.network import PUBACK, Endpoint, Line, Relay, Splitter, kind, receive, send
from peel_tools.servers.broker import Broker
from peel_tools.simulation import publisher as module
from peel_tools.simulation.publisher import BrokerAddress, Publisher
from peel_tools.simulation.truth import Outgoing


class _Swallowing(Line):
    """A line on which acknowledgements get lost, and nothing else: what a cluster does that has no leader at the moment."""

    def carry_to_near(self) -> None:
        splitter = Splitter()
        while data := receive(self.far):
            for packet in splitter.feed(data):
                if kind(packet) != PUBACK:
                    send(self.near, packet)


class _Leaderless(Relay[Line]):
    """Of all connections only the first is without acknowledgements."""

    def __init__(self, target: Endpoint) -> None:
        super().__init__(target)
        self.calls = 0

    def line(self, near: socket.socket, far: socket.socket) -> Line:
        self.calls += 1
        return _Swallowing(near, far) if self.calls == 1 else Line(near, far)


def test_what_is_not_acknowledged_is_sent_again_over_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.5)
    with Broker() as broker, _Leaderless((broker.host, broker.port)) as relay:
        host, port = relay.endpoint
        sender = Publisher(BrokerAddress(host=host, port=port), connections=1)
        sender.start()
        sender.publish([Outgoing(7, 1, "peel/v1/demo/01/00000001/report", b"frame", 1, (1,))])
        acknowledged: list[int] = []
        deadline = time.monotonic() + 15
        while sender.outstanding and time.monotonic() < deadline:
            acknowledged += sender.pump(0.05)
        sender.stop()
    assert acknowledged == [7]
    assert relay.calls == 2
