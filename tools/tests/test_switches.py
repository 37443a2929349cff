# SPDX-License-Identifier: MIT
"""Attacks are started and stopped during a demonstration: by the file, in the fleet, and over HTTP."""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from peel_gateway.fleet.snapshot import take_snapshot
from peel_tools.demo.demonstration import Demonstration
from peel_tools.demo.gateway import Switches
from peel_tools.servers.gateway import GatewayProcess
from peel_tools.simulation.fleet import SimulatedFleet
from peel_tools.simulation.piece import HONEST
from peel_tools.simulation.session import Plan, make_fleet
from peel_tools.simulation.traces import BuiltInTraces
from peel_tools.simulation.truth import Truth


def test_switches_are_passed_on_once(tmp_path: Path) -> None:
    ours, theirs = Switches(tmp_path / "switches.json"), Switches(tmp_path / "switches.json")
    assert theirs.states() == {}
    ours.begin({"stuck": True, "noise": False})
    theirs.set("noise", True)
    assert ours.changes() == {"noise": True}
    assert ours.changes() == {}
    with pytest.raises(ValueError, match="unknown attack 'sabotage'; known: stuck, noise"):
        theirs.set("sabotage", True)


class FleetUnderAttack:
    """A fleet of honest devices, and what has become of their reports."""

    def __init__(self, folder: Path) -> None:
        snapshot = take_snapshot(make_fleet(folder / "fleet", greenhouse=8, vents=0))
        self.truth = Truth(folder / "truth.sqlite")
        traces = {profile.name: BuiltInTraces(profile, 1) for profile in snapshot.profiles}
        self.fleet = SimulatedFleet(snapshot, traces, self.truth, shares={}, seed=1, burst=3)
        self.now = 0.0

    def kinds(self) -> dict[tuple[str, int], int]:
        """Return the number of new reports by kind and by whether they are bad."""
        (before,) = self.truth._connection.execute("SELECT COUNT(*) FROM report").fetchone()
        self.now += 3600.0  # the quota is full again
        for _ in range(20):
            self.fleet.reports(24, now=self.now)
        query = "SELECT kind, bad, COUNT(*) FROM (SELECT * FROM report LIMIT -1 OFFSET ?) GROUP BY kind, bad"
        return {(kind, bad): count for kind, bad, count in self.truth._connection.execute(query, (before,))}


@pytest.fixture
def under_attack(tmp_path: Path) -> Iterator[FleetUnderAttack]:
    under_attack = FleetUnderAttack(tmp_path)
    yield under_attack
    under_attack.truth.close()


def test_an_attack_on_the_line_comes_and_goes(under_attack: FleetUnderAttack) -> None:
    assert set(under_attack.kinds()) == {(HONEST, 0)}
    under_attack.fleet.switch("forgery", on=True)
    assert ("forgery", 1) in under_attack.kinds()
    under_attack.fleet.switch("forgery", on=False)
    assert set(under_attack.kinds()) == {(HONEST, 0)}


def test_a_device_is_turned_and_behaves_again(under_attack: FleetUnderAttack) -> None:
    under_attack.fleet.switch("budget", on=True)
    roles = [role for role, _ in under_attack.truth.devices().values()]
    assert sorted(roles) == ["budget"] + [HONEST] * 7
    assert set(under_attack.kinds()) == {(HONEST, 0), ("budget", 1)}
    under_attack.fleet.switch("budget", on=False)
    assert set(under_attack.kinds()) == {(HONEST, 0), ("budget", 0)}
    under_attack.fleet.switch("budget", on=True)
    assert [role for role, _ in under_attack.truth.devices().values()].count("budget") == 2


def test_there_are_only_so_many_to_turn(under_attack: FleetUnderAttack) -> None:
    for _ in range(10):
        under_attack.fleet.switch("stuck", on=True)
    assert {role for role, _ in under_attack.truth.devices().values()} == {"stuck"}


def post(url: str, fields: dict[str, str], **headers: str) -> int:
    request = urllib.request.Request(url, urlencode(fields).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


@pytest.mark.broker
def test_a_demonstration_listens(tmp_path: Path) -> None:
    plan = Plan(rate=300, shares={"forgery": 0.05}, seed=3)
    demonstration = Demonstration(folder=tmp_path, devices=20, plan=plan)
    demonstration.start()
    seen = threading.Event()

    def watch() -> None:
        try:
            _switch_and_see(demonstration.gateway)
            seen.set()
        finally:
            demonstration.session.simulation.stop()

    watcher = threading.Thread(target=watch)
    try:
        watcher.start()
        demonstration.run(None)
        watcher.join(60)
        assert seen.is_set()
        assert demonstration.settle().faults == []
    finally:
        demonstration.stop()


def _switch_and_see(gateway: GatewayProcess) -> None:
    switch = gateway.url + "/api/demo/attacks"
    assert post(switch, {"name": "budget", "on": "yes"}, Origin="https://evil.example") == 403
    assert post(switch, {"name": "sabotage", "on": "yes"}) == 400
    assert post(switch, {"name": "budget", "on": "maybe"}) == 400
    assert gateway.get("/api/exposed")["total"] == 0
    assert post(switch, {"name": "budget", "on": "yes"}) == 200
    gateway.wait_for(lambda: gateway.get("/api/exposed")["total"] == 1, 30, "an exposed device")
    (device,) = gateway.get("/api/exposed")["items"]
    told = gateway.get("/api/demo")
    assert told["roles"] == {device["device"]: "budget"}
    false, right = (
        r"\d+:\d+ \(epsilon 1\.9\d\)",
        r"\d+:\d+ \(epsilon 0\.9\d+\)",
    )  # they depend on the question of the report
    pattern = rf"It randomized its report with odds of {false}; its profile requires {right}\."
    assert re.fullmatch(pattern, device["sentence"]), device["sentence"]
    assert {attack["name"]: attack["on"] for attack in told["attacks"]}["budget"]
    estimates = gateway.get("/api/estimates?profile=room&devices=no")["items"][0]["estimates"]
    assert told["truth"]["room"].keys() >= {row["name"] for row in estimates}
    assert post(switch, {"name": "forgery", "on": "no"}) == 200
