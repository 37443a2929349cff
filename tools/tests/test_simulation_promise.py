# SPDX-License-Identifier: MIT
"""The promise in a simulation: what can be exposed is, by its layer; what cannot is bounded; and estimates cover the truth."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import numpy as np

from peel_core import Profile
from peel_gateway.engine.clock import Reading
from peel_gateway.engine.engine import Engine
from peel_gateway.engine.recount import recount
from peel_gateway.estimation.estimate import estimates
from peel_gateway.fleet.folder import Fleet, key_mark
from peel_gateway.fleet.snapshot import FleetSnapshot, take_snapshot
from peel_gateway.model.messages import Message
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.bucketing import NO_BUCKET, bucket_capacity
from peel_gateway.storage.records import read_log
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_tools.simulation.fleet import SimulatedFleet
from peel_tools.simulation.referee import Findings, judge
from peel_tools.simulation.session import true_means
from peel_tools.simulation.traces import BuiltInTraces
from peel_tools.simulation.truth import Truth

STEP = 5.0
BUCKET = 60

CLIMATE = """
name = "climate"
epsilon = 1.0
verify = false
seed = 1
quota = 24
period = 60
""" + "".join(f'[[attribute]]\nname = "a{i}"\nkind = "mean"\nlow = -1\nhigh = 1\n' for i in range(8))

STREETS = """
name = "streets"
epsilon = 1.0
verify = false
seed = 1
quota = 24
period = 60
[[attribute]]
name = "street"
kind = "hashed"
domain = 300
"""


ROOM = """
name = "room"
epsilon = 1.0
verify = false
seed = 1
quota = 96
period = 60
[[attribute]]
name = "temperature"
kind = "mean"
low = -10
high = 50
[[attribute]]
name = "temperature"
kind = "above"
thresholds = [26, 30]
[[attribute]]
name = "door"
kind = "category"
categories = ["open", "shut", "ajar"]
weight = 2
[[attribute]]
name = "error"
kind = "hashed"
domain = 300
weight = 2
"""


class Run:
    """A fleet of one profile that reports to an engine, attackers among it."""

    def __init__(
        self, folder: Path, profile: str, shares: dict[str, float], *, devices: int, rounds: int, burst: int = 1
    ) -> None:
        path = folder / "profile.toml"
        path.write_text(profile)
        Fleet.create(folder / "fleet", "demo", [path])
        (folder / "fleet" / "master.key").write_text("07" * 32)  # the same coins and hashes in every run
        (folder / "fleet" / "fleet.toml").write_text(
            f'name = "demo"\nkey_mark = "{key_mark(bytes([7] * 32), "demo")}"\n'
        )
        fleet = Fleet(folder / "fleet")
        fleet.enrol(fleet.profiles().popitem()[0], count=devices)
        self.snapshot: FleetSnapshot = take_snapshot(fleet)
        (self.profile,) = self.snapshot.profiles
        self.truth = Truth(folder / "truth.sqlite")
        self.store = SqliteStore(folder / "peel.sqlite", bucket_seconds=BUCKET)
        self._begin = self._now = time.time() // BUCKET * BUCKET + BUCKET  # after the enrolment, at a bucket's start
        engine = Engine(self.store, clock=self._clock)
        engine.load(self.snapshot)
        traces = {self.profile.name: BuiltInTraces(self.profile, 1)}
        simulated = SimulatedFleet(self.snapshot, traces, self.truth, shares=shares, seed=1, burst=burst)
        for _ in range(rounds):
            self._now += STEP
            sent = simulated.reports(devices * 2 * burst, now=self._now - self._begin)
            engine.process([Message(each.topic, each.payload, self._now) for each in sent])
            self.truth.acknowledge([each.id for each in sent])

    def _clock(self) -> Reading:
        return Reading(round(self._now * 1000), 1, round(self._now * 1000))

    @property
    def findings(self) -> Findings:
        return judge(self.truth.path, self.store)

    def close(self) -> None:
        self.truth.close()
        self.store.close()


def covered(run: Run, profile: Profile) -> float:
    """Share of published intervals that hold the truth."""
    (answer,) = estimates(profile, run.store.device_tallies(profile.id))
    truth = true_means(run.truth, profile)
    within = [
        row.published.within.low <= truth[row.name] <= row.published.within.high
        for row in answer.estimates
        if row.published.within.low is not None and row.published.within.high is not None
    ]
    return sum(within) / len(within)


def test_mixed_signs_and_sleepers_are_exposed_and_a_burst_is_spread(tmp_path: Path) -> None:
    run = Run(tmp_path, CLIMATE, {"mixed": 0.1, "sleeper": 0.1, "burst": 0.1}, devices=40, rounds=240)
    found = run.findings
    assert found.exact, found.faults()
    for kind in ("mixed", "sleeper"):
        assert found.attacks[kind].exposed_devices == found.attacks[kind].devices == 4
    assert found.attacks["burst"].devices == 4
    log = read_log(run.store)
    counted = (log.verdict == Verdict.ACCEPTED) & (log.bucket != NO_BUCKET)
    held = Counter(zip(log.device[counted].tolist(), log.bucket[counted].tolist(), strict=True))
    most = int(bucket_capacity(np.array([run.profile.quota]), np.array([run.profile.period]), BUCKET)[0])
    assert max(held.values()) == most, "a hoard fills buckets, and never more than that"
    assert recount(run.store, run.snapshot).agrees
    run.close()


def test_hashed_categories_are_judged_and_estimated(tmp_path: Path) -> None:
    run = Run(tmp_path, STREETS, {"overreport": 0.1}, devices=40, rounds=240)
    found = run.findings
    assert found.exact, found.faults()
    assert found.attacks["overreport"].exposed_devices == found.attacks["overreport"].devices == 4
    assert covered(run, run.profile) >= 0.95 - 3 * (0.95 * 0.05 / 50) ** 0.5, "50 shares are listed"
    assert recount(run.store, run.snapshot).agrees
    run.close()


def test_every_form_of_question_in_one_profile_is_attacked_judged_and_estimated(tmp_path: Path) -> None:
    shares = dict.fromkeys(("stuck", "hide_attribute", "subset", "overreport", "target", "budget", "reuse"), 0.05)
    run = Run(tmp_path, ROOM, shares, devices=60, rounds=360, burst=4)
    found = run.findings
    assert found.exact, found.faults()
    for name in shares:
        assert found.attacks[name].exposed_devices == found.attacks[name].devices == 3, name
    assert covered(run, run.profile) >= 0.95 - 3 * (0.95 * 0.05 / 50) ** 0.5
    truth = true_means(run.truth, run.profile)
    assert truth["temperature > 26"] >= truth["temperature > 30"]
    assert recount(run.store, run.snapshot).agrees
    run.close()
