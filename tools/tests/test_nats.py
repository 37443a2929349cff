# SPDX-License-Identifier: MIT
"""NATS JetStream as the broker: alone, and as a cluster of three of which one is killed, with its disk lost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from peel_tools.nats_broker import NatsBroker
from peel_tools.rig import Rig
from peel_tools.simulation.session import Plan
from peel_tools.soak.run import soak
from peel_tools.soak.schedule import Fault
from peel_tools.soak.stage import Stage

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
    with Rig(tmp_path, numeric=60, broker=NatsBroker(folder=tmp_path / "nats", servers=servers)) as rig:
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
