# SPDX-License-Identifier: MIT
"""Many faults at once, under load, with attackers: afterwards every report is accounted for."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from peel_tools.servers.gateway import GatewayProcess
from peel_tools.simulation.attackers import ATTACKS
from peel_tools.simulation.referee import Findings
from peel_tools.simulation.runner import Progress
from peel_tools.simulation.session import Plan, SimulatedSite

SHARES = {
    "garbage": 0.03, "stranger": 0.03, "forgery": 0.03, "tampering": 0.03, "negation": 0.03, "replay": 0.05, "loss": 0.02,
    "reuse": 0.05, "flood": 0.05, "budget": 0.05, "target": 0.05, "encoder": 0.05, "stuck": 0.05,
}  # fmt: skip

PATIENCE = 300.0
"""Seconds, for a machine that has other things to do: a guard against hanging, no promise."""


def _assert_exact(found: Findings) -> None:
    assert found.exact, found.faults()


class Storm:
    """A fleet that reports from a process of its own, and faults all around it."""

    def __init__(self, rig: SimulatedSite) -> None:
        self._rig = rig
        self._fleet: subprocess.Popen[bytes] | None = None

    def report(self) -> None:
        """Start the simulated fleet; it continues from its truth."""
        command = [sys.executable, "-m", "peel_tools", "simulate", "--fleet", str(self._rig.fleet.folder)]
        command += ["--broker", f"127.0.0.1:{self._rig.broker.port}"]
        command += ["--rate", "1500", "--burst", "2", "--seed", "11", "--power-cut", "0.02"]
        for kind, share in SHARES.items():
            command += ["--attack", f"{kind}={share}"]
        before = self._messages()
        self._fleet = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + PATIENCE
        while self._messages() == before:  # it insists on a broker only until it is connected
            assert self._fleet.poll() is None, self._fleet.stderr and self._fleet.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def _messages(self) -> int:
        if not self._rig.truth_path.exists():
            return 0
        truth = sqlite3.connect(self._rig.truth_path)
        try:
            return int(truth.execute("SELECT COUNT(*) FROM message").fetchone()[0])
        except sqlite3.OperationalError:  # its tables are just being made
            return 0
        finally:
            truth.close()

    def kill_gateway(self) -> None:
        self._rig.gateway.kill()
        self._rig.gateway.start(until="started")

    def restart_broker(self) -> None:
        """In order: what it has queued it saves."""
        self._rig.broker.stop()
        time.sleep(0.7)
        self._rig.broker.start()

    def lock_database(self) -> None:
        holder = sqlite3.connect(self._rig.gateway.store_path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        time.sleep(0.7)
        holder.execute("ROLLBACK")
        holder.close()

    def kill_fleet(self) -> None:
        assert self._fleet is not None
        assert self._fleet.poll() is None, self._fleet.stderr and self._fleet.stderr.read()
        self._fleet.kill()
        self._fleet.wait()
        self.report()

    def calm(self) -> None:
        """End the fleet in order: it waits until everything is acknowledged."""
        assert self._fleet is not None
        self._fleet.terminate()
        assert self._fleet.wait(PATIENCE) == 0, self._fleet.stderr and self._fleet.stderr.read()

    def close(self) -> None:
        if self._fleet is not None and self._fleet.poll() is None:
            self._fleet.kill()
            self._fleet.wait()


@pytest.mark.parametrize("storm_number", [1, 2])
def test_a_storm_of_faults(tmp_path: Path, storm_number: int, rng: np.random.Generator) -> None:
    """Twice, because no two are alike: the run's seed says what fails when."""
    settings = {"store_lock_seconds": 0.2, "batch_seconds": 0.05}
    with SimulatedSite(tmp_path, numeric=80, persistent=True, settings=settings) as rig:
        storm = Storm(rig)
        try:
            storm.report()
            time.sleep(2)
            faults = [storm.kill_gateway, storm.restart_broker, storm.lock_database, storm.kill_fleet] * 2
            for place in rng.permutation(len(faults)):
                faults[place]()
                time.sleep(rng.uniform(0.2, 1.2))
            storm.calm()
        finally:
            storm.close()
        found = rig.settled(PATIENCE)
        _assert_exact(found)
        assert found.honest > 2000
        assert {name for name in SHARES if name != "loss"} == set(found.attacks)
        assert rig.gateway.stop() == 0
        assert rig.gateway.command("recount").returncode == 0


class Witness:
    """Asks a gateway now and then whether it is well, and keeps what it says."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway
        self._next = 0.0
        self.codes: list[int] = []

    def look(self, _: Progress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + 0.5
            self.codes.append(self.code())

    def code(self) -> int:
        try:
            with urllib.request.urlopen(f"{self._gateway.url}/healthz", timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refusal:
            return refusal.code


AWAY_SECONDS = 15
LONGEST_PAUSE = 1.5


def test_a_broker_away_until_the_pauses_have_stopped_growing(tmp_path: Path) -> None:
    """Devices and gateway both wait, and both go on where they were.

    An hour is like this: the pauses (0.2, 0.4, ... seconds) reach their limit, lowered here, long before the end; the health's patience
    likewise.
    """
    settings = {"mqtt_backoff_seconds": LONGEST_PAUSE, "health_broker_seconds": 4}
    with SimulatedSite(tmp_path, numeric=60, persistent=True, settings=settings) as rig:
        witness = Witness(rig.gateway)
        with rig.session(Plan(rate=1500, shares=SHARES, seed=5), on_progress=witness.look) as session:
            session.simulation.run(seconds=1.5)
            assert set(witness.codes) == {200}
            rig.broker.stop()
            session.simulation.run(seconds=AWAY_SECONDS)
            assert session.simulation.progress.acknowledged < session.simulation.progress.published
            assert sorted(witness.codes) == witness.codes, "well, then unwell until the broker is back"
            assert witness.code() == 503
            lines = rig.gateway.log_path.read_text().count('event="broker away"')
            attempts = lines / 2  # of each connection: one for reports, one for statuses
            assert AWAY_SECONDS / LONGEST_PAUSE / 2 < attempts < 10 + AWAY_SECONDS / LONGEST_PAUSE
            rig.broker.start()
            assert session.simulation.drain(PATIENCE)
        _assert_exact(rig.settled(PATIENCE))
        # The connection for statuses has pauses of its own, and may be the last to return.
        rig.gateway.wait_for(lambda: witness.code() == 200, what="good health")
        assert rig.gateway.stop() == 0
        assert rig.gateway.command("recount").returncode == 0


def test_a_forgetful_broker_loses_what_it_had_taken_over_and_nothing_else(tmp_path: Path) -> None:
    """Without persistence an acknowledgement is a promise that a restart breaks: reports between broker and gateway are gone.

    None is counted twice, nobody is exposed for the loss, and from then on everything is exact again.
    """
    with SimulatedSite(tmp_path, numeric=60) as rig:
        with rig.session(Plan(rate=1500, shares=SHARES, seed=6, confirm="broker")) as session:
            session.simulation.run(reports=2000)
            rig.gateway.kill()
            session.simulation.run(reports=1000)
            # What was acknowledged to the devices is now the broker's to keep.
            assert session.simulation.drain(PATIENCE)
            rig.broker.stop()
            rig.broker.start()
            rig.gateway.start()
            session.simulation.run(reports=2000)
            assert session.simulation.drain(PATIENCE)
        broken = rig.settled(5)
        assert broken.lost > 0
        assert (broken.double_counted, broken.altered) == (0, 0)
        assert (broken.honest_exposed, broken.honest_devices_exposed) == (0, 0)
        with rig.session(Plan(rate=500, seed=6, confirm="broker")) as session:
            session.simulation.run(reports=1000)
            assert session.simulation.drain(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while (after := rig.settled(0)).lost > broken.lost and time.monotonic() < deadline:
            time.sleep(0.2)
        assert after.accepted > broken.accepted
        assert 0 < after.lost <= broken.lost
        assert (after.double_counted, after.altered) == (0, 0)


def test_a_gateway_killed_again_and_again(tmp_path: Path, rng: np.random.Generator) -> None:
    """Restarts shorter than a start: it makes progress between the kills, and never loses or doubles."""
    with SimulatedSite(tmp_path, numeric=60, settings={"batch_seconds": 0.02}) as rig:
        with rig.session(
            Plan(rate=3000, shares=dict.fromkeys(ATTACKS.keys() & SHARES.keys(), 0.03), seed=7)
        ) as session:
            session.simulation.run(seconds=2)
            for _ in range(12):
                rig.gateway.kill()
                rig.gateway.start(until="started")
                before = session.simulation.progress.published
                session.simulation.run(seconds=rng.uniform(0.6, 1.4))
                assert session.simulation.progress.published > before
            assert session.simulation.drain(PATIENCE)
        _assert_exact(rig.settled(PATIENCE))
