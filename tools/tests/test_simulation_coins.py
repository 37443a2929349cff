# SPDX-License-Identifier: MIT
"""Simulated devices with verified coins, honest and not, on an engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from peel_gateway.engine.clock import Reading
from peel_gateway.engine.engine import Engine
from peel_gateway.engine.recount import recount
from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import take_snapshot
from peel_gateway.model.messages import Message, Senders
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_tools.simulation.attackers import ATTACKS, check_shares, default_shares, target_of
from peel_tools.simulation.fleet import SimulatedFleet
from peel_tools.simulation.referee import Findings, judge
from peel_tools.simulation.traces import BuiltInTraces
from peel_tools.simulation.truth import Outgoing, Truth

BUCKET = 60
PROFILE = """
name = "climate"
epsilon = 1.0
width = 48
seed = 1
quota = 1200
period = 60
verify = true
offline = 3
bucket = 60
[[attribute]]
name = "temperature"
kind = "mean"
low = -10
high = 50
[[attribute]]
name = "door"
kind = "category"
categories = ["open", "shut", "ajar"]
[[attribute]]
name = "error"
kind = "hashed"
domain = 100
"""


class CoinRun:
    """A simulated fleet with verified coins that talks to an engine, without a broker."""

    def __init__(self, folder: Path, shares: dict[str, float], devices: int = 4, unverified: int = 0) -> None:
        self.folder = folder
        (folder / "climate.toml").write_text(PROFILE)
        other = PROFILE.replace('"climate"', '"plain"').replace(
            "verify = true\noffline = 3\nbucket = 60\n", "verify = false\n"
        )
        (folder / "plain.toml").write_text(other)
        profiles = [folder / "climate.toml", folder / "plain.toml"]
        fleet = Fleet.create(folder / "fleet", "demo", profiles, simulated=True)
        fleet.enrol("climate", count=devices)
        if unverified:
            fleet.enrol("plain", count=unverified)
        self.snapshot = take_snapshot(fleet)
        self.profile = next(profile for profile in self.snapshot.profiles if profile.verified)
        self.store = SqliteStore(folder / "peel.sqlite", bucket_seconds=BUCKET)
        self._begin = self.now = time.time() // BUCKET * BUCKET + BUCKET
        self.engine = Engine(self.store, clock=self._clock)
        self.engine.load(self.snapshot)
        self.boot(shares)

    def _clock(self) -> Reading:
        return Reading(round(self.now * 1000), 1, round(self.now * 1000))

    def boot(self, shares: dict[str, float]) -> None:
        """Start the devices, with what they have stored."""
        self.truth = Truth(self.folder / "truth.sqlite")
        traces = {profile.name: BuiltInTraces(profile, 1) for profile in self.snapshot.profiles}
        self.fleet = SimulatedFleet(
            self.snapshot, traces, self.truth, shares=shares, seed=1, burst=3, now=self.now - self._begin
        )

    def send(self, messages: list[Outgoing]) -> int:
        """Process messages, and give the receipts to the devices. Return how many there are."""
        report = self.engine.process([Message(each.topic, each.payload, self.now) for each in messages])
        self.truth.acknowledge([each.id for each in messages if each.id])
        receipts = self.engine.receipts(report.senders) or []
        for device, payload in receipts:
            if device in self.fleet.coins:
                self.fleet.coins.receive(device, payload)
        return len(receipts)

    def talk(self, rounds: int = 30) -> None:
        """Let the devices exchange messages of verified coins for some seconds."""
        for _ in range(rounds):
            self.now += 1.0
            if not self.send(self.fleet.coins.messages(self.now)):
                return

    def report(self, count: int = 60) -> list[Outgoing]:
        """Let the devices report."""
        sent = self.fleet.reports(count, self.now - self._begin)
        self.send(sent)
        return sent

    def end_bucket(self) -> None:
        """Let the time bucket end, and the devices open their coins."""
        self.now += BUCKET
        self.talk()

    def findings(self) -> Findings:
        return judge(self.truth.path, self.store)

    def close(self) -> None:
        self.truth.close()
        self.store.close()


@pytest.fixture
def run(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CoinRun]:
    """A fleet in which half of the devices play the attack that is the test's parameter."""
    kind = getattr(request, "param", None)
    run = CoinRun(tmp_path, {kind: 0.5} if kind else {})
    yield run
    run.close()


def test_honest_reports_count_once_the_bucket_has_ended(run: CoinRun) -> None:
    assert run.report() == [], "without approved numbers the devices wait"
    run.talk()
    for _ in range(5):
        run.report()
        run.talk(3)
    assert run.fleet.coins.unopened == run.findings().held > 40
    assert run.findings().accepted == 0
    run.end_bucket()
    found = run.findings()
    assert found.exact, found.faults()
    assert found.accepted == found.honest > 40
    assert run.fleet.coins.unopened == 0
    assert recount(run.store, run.snapshot).agrees


def test_a_fleet_may_have_profiles_with_and_without_verified_coins(tmp_path: Path) -> None:
    run = CoinRun(tmp_path, {"wrong_opening": 0.25, "budget": 0.25}, unverified=4)
    found = _play(run)
    assert found.exact, found.faults()
    assert found.attacks["wrong_opening"].exposed_devices == 1
    assert found.attacks["budget"].exposed_devices == 2
    assert found.accepted == found.honest > 40
    run.close()


def _play(run: CoinRun, buckets: int = 2) -> Findings:
    run.talk()
    for _ in range(buckets):
        for _ in range(4):
            run.report()
            run.talk(3)
        run.end_bucket()
    return run.findings()


@pytest.mark.parametrize("run", ["malformed_table", "wrong_opening"], indirect=True)
def test_a_cheated_coin_exposes_its_device(run: CoinRun) -> None:
    found = _play(run)
    assert found.exact, found.faults()
    (kind,) = found.attacks.values()
    assert (kind.devices, kind.exposed_devices, kind.pieces, kind.exposed) == (2, 2, 2, 2)
    assert found.exposed["coin"] == 2
    devices = run.store.devices()
    assert devices.cause[devices.withdrawn == 1].tolist() == [Verdict.COIN] * 2
    assert found.accepted == found.honest > 40
    assert recount(run.store, run.snapshot).agrees


@pytest.mark.parametrize("run", ["withheld_opening", "refused_audit"], indirect=True)
def test_a_device_that_keeps_messages_back_stalls_without_blame(run: CoinRun) -> None:
    found = _play(run)
    assert found.exact, found.faults()
    (kind,) = found.attacks.values()
    assert (kind.devices, kind.exposed_devices) == (2, 0)
    assert (kind.stalled > 0) == ("withheld_opening" in found.attacks), (
        "without an audit it has no number to report under"
    )
    assert found.accepted == found.honest > 40, "nothing of the others counts"
    assert "coin" not in found.exposed


@pytest.mark.parametrize("run", ["withheld_opening"], indirect=True)
def test_late_openings_count(run: CoinRun) -> None:
    before = _play(run)
    run.fleet.switch("withheld_opening", on=False)
    run.now += 3600
    run.talk()
    run.end_bucket()
    found = run.findings()
    assert found.exact, found.faults()
    assert found.accepted == before.accepted + before.attacks["withheld_opening"].stalled
    assert found.attacks["withheld_opening"].stalled == 0


@pytest.mark.parametrize("kind", ["malformed_table", "wrong_opening", "withheld_opening", "refused_audit"])
def test_a_device_is_turned_while_its_reports_are_held(run: CoinRun, kind: str) -> None:
    run.talk()
    run.report()
    run.fleet.switch(kind, on=True)
    found = _play(run)
    assert found.exact, found.faults()
    assert found.attacks[kind].devices == 1
    assert found.attacks[kind].exposed_devices == (0 if ATTACKS[kind].stalls else 1)


def test_a_referee_notices_a_held_report_that_counts(run: CoinRun) -> None:
    _play(run, buckets=1)
    run.truth._connection.execute("UPDATE report SET opened = 0 WHERE rowid = 1")
    found = run.findings()
    assert (found.double_counted, found.held) == (1, 1)
    assert not found.settled


@pytest.mark.parametrize(
    "run",
    ["reuse", "budget", "target", "encoder", "noise", "replay", "forgery", "tampering", "loss", "burst"],
    indirect=True,
)
def test_attacks_on_frames_work_with_verified_coins(run: CoinRun) -> None:
    found = _play(run)
    assert found.exact, found.faults()
    for name, kind in found.attacks.items():
        assert kind.exposed == kind.pieces, name
        assert kind.exposed_devices == (kind.devices if ATTACKS[name].causes else 0), name


@pytest.mark.parametrize("when", ["committed", "reported", "challenged"])
def test_devices_continue_after_a_restart(run: CoinRun, when: str) -> None:
    """A device that forgot its coins could never open them: nothing of it would count again."""
    if when == "committed":
        run.send(run.fleet.coins.messages(run.now))
    else:
        run.talk()
        run.report()
    if when == "challenged":
        run.now += BUCKET
        run.engine.process([])
        receipts = run.engine.receipts(Senders.of(np.array([1, 2, 3, 4]), np.ones(4, np.int64))) or ()
        for device, payload in receipts:
            run.fleet.coins.receive(device, payload)
        run.fleet.coins.messages(run.now)  # stored, and lost on the way
    run.truth.close()
    run.boot({})
    found = _play(run)
    assert found.exact, found.faults()
    assert found.accepted == found.honest > 40


def test_messages_are_resent_after_growing_pauses(run: CoinRun) -> None:
    first = run.fleet.coins.messages(0.0)
    assert {len(each.payload) for each in first} == {536}
    assert run.fleet.coins.messages(29.0) == []
    assert len(run.fleet.coins.messages(60.0)) == 4
    assert run.fleet.coins.messages(60.0 + 59.0) == []
    run.fleet.coins.wake()
    assert len(run.fleet.coins.messages(60.0 + 59.6)) == 4


def test_payloads_stay_short(run: CoinRun) -> None:
    run.talk()
    for _ in range(10):
        run.report()
        run.talk(3)
    run.now += BUCKET
    run.send([])
    run.send(run.fleet.coins.messages(run.now))
    receipts = run.engine.receipts(Senders.of(np.array([1, 2, 3, 4]), np.ones(4, np.int64))) or ()
    for device, payload in receipts:
        run.fleet.coins.receive(device, payload)
    assert all(len(each.payload) <= 1400 for each in run.fleet.coins.messages(run.now))


def test_attacks_on_the_coin_are_offered_where_they_make_sense(run: CoinRun) -> None:
    verified = target_of(run.profile)
    plain = verified._replace(verified=False)
    only_verified = {"malformed_table", "wrong_opening", "withheld_opening", "refused_audit"}
    assert only_verified <= default_shares({verified}).keys()
    assert only_verified.isdisjoint(default_shares({plain}))
    assert {"stuck", "biased", "overreport", "hide_minus"}.isdisjoint(default_shares({verified}))
    with pytest.raises(
        ValueError, match=r"stuck=0.1: .* attacks numbers without verified coins, and the profiles have only"
    ):
        check_shares({"stuck": 0.1}, {verified})
    with pytest.raises(ValueError, match=r"refused_audit=0.1: .* with verified coins, and"):
        check_shares({"refused_audit": 0.1}, {plain})
    check_shares({"stuck": 0.1, "refused_audit": 0.1}, {plain, verified})
