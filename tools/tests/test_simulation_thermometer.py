# SPDX-License-Identifier: MIT
"""A profile of one attribute, a plain thermometer, from simulated devices through the gateway's engine to its estimate."""

from __future__ import annotations

from pathlib import Path

from peel_gateway.engine.engine import Engine
from peel_gateway.estimation.estimate import estimates
from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.model.messages import Message
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_tools.simulation.fleet import SimulatedFleet
from peel_tools.simulation.referee import judge
from peel_tools.simulation.session import true_means
from peel_tools.simulation.traces import BuiltInTraces
from peel_tools.simulation.truth import Truth

THERMOMETER = """
name = "thermometer"
epsilon = 1.0
verify = false
seed = 1
quota = 100000
period = 60

[[attribute]]
name = "temperature"
kind = "mean"
unit = "°C"
low = -20
high = 40
"""


def test_one_attribute_end_to_end(tmp_path: Path) -> None:
    path = tmp_path / "thermometer.toml"
    path.write_text(THERMOMETER)
    fleet = Fleet.create(tmp_path / "fleet", "demo", [path])
    fleet.enrol("thermometer", count=20)
    snapshot = take_snapshot(fleet)
    (profile,) = snapshot.profiles
    assert profile.k == profile.units == 1
    truth, store = Truth(tmp_path / "truth.sqlite"), SqliteStore(tmp_path / "peel.sqlite")
    engine = Engine(store)
    engine.load(snapshot)
    simulated = SimulatedFleet(
        snapshot,
        {profile.name: BuiltInTraces(profile, 1)},
        truth,
        shares={"stuck": 0.1, "budget": 0.1},
        seed=1,
        burst=20,
    )
    for step in range(50):
        sent = simulated.reports(400, now=float(step))
        engine.process([Message(message.topic, message.payload, 1_700_000_000.0 + step) for message in sent])
        truth.acknowledge([message.id for message in sent])

    found = judge(truth.path, store)
    assert found.exact, found.faults()
    assert found.accepted == found.honest == 8_000
    assert found.attacks["stuck"].exposed_devices == found.attacks["budget"].exposed_devices == 2
    (answer,) = estimates(profile, store.device_tallies(profile.id))
    (temperature,) = answer.estimates
    low, high = temperature.published.within.low, temperature.published.within.high
    assert low is not None
    assert high is not None
    assert low < true_means(truth, profile)["temperature"] < high
    truth.close()
    store.close()
