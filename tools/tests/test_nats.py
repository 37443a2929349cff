# SPDX-License-Identifier: MIT
"""NATS JetStream as the broker: alone, and as a cluster of three of which one is killed, with its disk lost."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from peel_gateway.mqtt.connection import gateway_topic
from peel_research.soak.run import soak
from peel_research.soak.schedule import Fault
from peel_research.soak.stage import Stage
from peel_tools.servers.broker import NatsBroker
from peel_tools.simulation.session import Plan, SimulatedSite

REPORTS = 4000
PATIENCE = 120.0
FAULTS = [
    Fault(at=0.5, seconds=2.0, kind="broker_kill", target=0, amount=0.0),
    Fault(at=3.5, seconds=1.5, kind="gateway_kill", target=0, amount=0.0),
    Fault(at=4.0, seconds=1.0, kind="broker_forget", target=0, amount=0.0),
    Fault(at=6.0, seconds=0.5, kind="device_line_cut", target=0, amount=0.0),
    Fault(at=6.5, seconds=1.0, kind="broker_freeze", target=0, amount=0.0),
]


@pytest.mark.parametrize("servers", [1, 3])
def test_everything_arrives_once_whichever_server_dies(tmp_path: Path, servers: int) -> None:
    """Without receipts: what NATS has acknowledged is as good as stored."""
    plan = Plan(rate=1000, seed=5, shares={"replay": 0.02, "forgery": 0.02, "budget": 0.05}, confirm="broker")
    with SimulatedSite(tmp_path, numeric=60, broker=NatsBroker(folder=tmp_path / "nats", servers=servers)) as rig:
        with rig.session(plan) as session:
            struck = threading.Timer(1.0, rig.broker.strike)
            struck.start()
            back = threading.Timer(3.0, rig.broker.start)
            back.start()
            session.simulation.run(reports=REPORTS)
            back.join()
            assert session.simulation.drain(PATIENCE)
        found = rig.settled(PATIENCE)
        assert found.published >= REPORTS
        assert found.exact, found.faults()


@pytest.mark.parametrize("broker", ["nats", "nats-cluster"])
def test_a_short_soak_loses_nothing(tmp_path: Path, broker: str) -> None:
    stage = Stage(tmp_path / "soak", seed=1, boards=2, devices=20, rate=100.0, broker=broker)
    try:
        stage.start()
        result = soak(stage, FAULTS, seconds=8.0, drain_seconds=90.0, say=print, progress=lambda seconds: None)
    finally:
        stage.close()
    assert result.faults.total() == len(FAULTS)
    assert result.outcome.made > 300
    assert result.outcome.good, result.outcome


def test_workers_hear_all_lanes_of_their_partitions(tmp_path: Path) -> None:
    """Each session has sixteen filters, and NATS a limit for all of them together."""
    stage = Stage(tmp_path / "soak", seed=1, boards=1, devices=40, rate=100.0, broker="nats", store="postgres")
    try:
        stage.start()
        result = soak(stage, [], seconds=2.0, drain_seconds=60.0, say=print, progress=lambda seconds: None)
    finally:
        stage.close()
    assert result.outcome.made > 100
    assert result.outcome.good, result.outcome


def wait_kept(rig: SimulatedSite, topic: str, what: bytes, seconds: float = 30.0) -> None:
    """Wait until a new subscriber receives this as the retained message."""
    kept: list[bytes] = []
    deadline = time.monotonic() + seconds
    while what not in kept:
        assert time.monotonic() < deadline, kept
        client = paho.Client(CallbackAPIVersion.VERSION2)
        client.on_message = lambda client, data, message: (
            kept.append(bytes(message.payload)) if message.retain else None
        )
        client.connect(rig.broker.host, rig.broker.port)
        client.subscribe(topic)
        listening_until = time.monotonic() + 0.5
        while time.monotonic() < listening_until:
            client.loop(0.1)
        client.disconnect()


def test_what_is_kept_outlives_a_killed_server_the_will_of_a_killed_gateway_too(tmp_path: Path) -> None:
    settings = {"mqtt_receipt_seconds": 0.5}
    with SimulatedSite(tmp_path, numeric=10, broker=NatsBroker(folder=tmp_path / "nats"), settings=settings) as rig:
        status = gateway_topic(rig.fleet.name, "main", "status")
        wait_kept(rig, status, b'{"state": "online"}')
        rig.gateway.kill()
        wait_kept(rig, status, b'{"state": "offline"}')
        rig.broker.kill()
        rig.broker.start()
        wait_kept(rig, status, b'{"state": "offline"}')
        rig.gateway.start()
        wait_kept(rig, status, b'{"state": "online"}')
        with rig.session(Plan(rate=200, seed=5, resend_seconds=30.0)) as session:
            session.simulation.run(reports=200)
            assert session.simulation.drain(PATIENCE)
            assert session.simulation.confirm(PATIENCE), "by receipts"
        assert rig.settled(PATIENCE).exact
