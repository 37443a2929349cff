# SPDX-License-Identifier: MIT
"""Simulated devices that hash their categories: what they send is what the truth says, and attackers speak for their target."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from peel_core import Profile, make_profile, open_many, parse_profile
from peel_core.hashing import hashed, supports
from peel_core.projection import reconstruct, reconstruction
from peel_gateway.fleet.folder import Fleet
from peel_gateway.fleet.snapshot import FleetSnapshot, take_snapshot
from peel_tools.profiles.dataset import Dataset, DatasetError
from peel_tools.simulation.fleet import SimulatedFleet
from peel_tools.simulation.session import true_means
from peel_tools.simulation.traces import BuiltInTraces, CsvTraces
from peel_tools.simulation.truth import Truth

VISITS = """
name = "visits"
epsilon = 2.0
verify = false
seed = 1
quota = 100000
period = 60

[[attribute]]
name = "place"
kind = "hashed"
domain = 5000
"""


@pytest.fixture
def snapshot(tmp_path: Path) -> FleetSnapshot:
    path = tmp_path / "visits.toml"
    path.write_text(VISITS)
    fleet = Fleet.create(tmp_path / "fleet", "demo", [path])
    fleet.enrol("visits", count=20)
    return take_snapshot(fleet)


class Sent:
    """A fleet's opened reports and the truth about them."""

    def __init__(self, folder: Path, snapshot: FleetSnapshot, **shares: float) -> None:
        (self.profile,) = snapshot.profiles
        self.truth = Truth(folder / "truth.sqlite")
        traces = {self.profile.name: BuiltInTraces(self.profile, 1)}
        fleet = SimulatedFleet(snapshot, traces, self.truth, shares=shares, seed=1, burst=50)
        messages = [message for round_ in range(8) for message in fleet.reports(1000, now=float(round_))]
        self.truth.acknowledge([message.id for message in messages])
        opened = open_many(snapshot.keyring, [message.payload for message in messages])
        assert not opened.code.any()
        symbol, _, _ = reconstruct(reconstruction(self.profile.seed, self.profile.width), opened.trits)
        self.hashes = opened.unit.astype(np.int64)
        self.cells = self.profile.cell(self.hashes, symbol)
        with sqlite3.connect(folder / "truth.sqlite") as connection:
            rows = connection.execute("SELECT idx, kind, value FROM report ORDER BY rowid").fetchall()
        self.told = np.array([row[0] for row in rows])
        self.kind = np.array([row[1] for row in rows])
        self.value = np.array([row[2] for row in rows])


def test_the_truth_says_what_is_in_the_frames(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    sent = Sent(tmp_path, snapshot)
    assert len(sent.cells) == 8000
    assert np.array_equal(sent.cells, sent.told)
    assert sent.cells.max() < sent.profile.cells
    assert sent.value.max() < sent.profile.size


def test_true_shares_are_those_of_the_categories(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    sent = Sent(tmp_path, snapshot)
    shares = true_means(sent.truth, sent.profile)
    assert list(shares) == [str(place) for place in range(5000)]
    assert np.allclose(list(shares.values()), np.bincount(sent.value, minlength=5000) / len(sent.value))


def test_supports_estimate_the_truth(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    sent = Sent(tmp_path, snapshot)
    n, keep = len(sent.cells), sent.profile.blocks[0].true_share * (1 - 1 / sent.profile.k)
    found = supports(sent.cells, np.ones(n), sent.profile.k, 5000)
    estimate = (found / n - 1 / sent.profile.k) / keep
    error = np.sqrt(1 / sent.profile.k / n) / keep
    assert np.abs(estimate - np.bincount(sent.value, minlength=5000) / n).max() < 5.5 * error


def test_an_overreporting_device_always_speaks_for_its_target(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    sent = Sent(tmp_path, snapshot, overreport=0.2)
    mine = sent.kind == "overreport"
    k = sent.profile.k
    speaks = hashed(sent.hashes, 1, k, 5000) == sent.cells % k
    assert mine.sum() > 1000
    assert speaks[mine].all()
    assert speaks[~mine].mean() < 0.3
    assert np.array_equal(sent.cells, sent.told)


def profile(domain: int) -> Profile:
    return parse_profile(VISITS.replace("domain = 5000", f"domain = {domain}"))


def test_a_large_domain_is_no_burden() -> None:
    """A table per report would take gigabytes."""
    readings = BuiltInTraces(profile(65535), 1).readings(np.repeat(1, 50_000), np.arange(50_000))
    assert readings.shape == (50_000, 1)
    assert 0 <= readings.min() < 10
    assert 60_000 < readings.max() < 65_535


def test_a_file_gives_indices_where_categories_have_no_names(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("place\n17\n4999\n")
    readings = CsvTraces(profile(5000), Dataset.read(path), 1).readings(np.array([1, 1]), np.array([1, 2]))
    assert set(readings[:, 0].tolist()) == {17, 4999}
    path.write_text("place\n5000\n")
    with pytest.raises(DatasetError, match="'5000' is not one of the categories 0 to 4999"):
        CsvTraces(profile(5000), Dataset.read(path), 1)


def test_a_file_gives_names_where_they_have_some(tmp_path: Path) -> None:
    table = {"name": "p", "epsilon": 1, "verify": False, "seed": 1, "quota": 1, "period": 1}
    named = make_profile(
        table | {"attribute": [{"name": "place", "kind": "hashed", "categories": ["hall", "attic", "0"]}]}
    )
    path = tmp_path / "trace.csv"
    path.write_text("place\nattic\n0\n")
    readings = CsvTraces(named, Dataset.read(path), 1).readings(np.array([1, 1]), np.array([1, 2]))
    assert set(readings[:, 0].tolist()) == {1, 2}
