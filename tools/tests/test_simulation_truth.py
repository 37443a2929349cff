# SPDX-License-Identifier: MIT
"""The truth survives the death of the process that writes it, and the referee holds a gateway's database against it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from databases import SqliteFile, change_log

from peel_gateway.engine.engine import Engine
from peel_gateway.fleet.snapshot import FleetSnapshot, take_snapshot
from peel_gateway.model.messages import Message
from peel_gateway.model.verdict import Verdict
from peel_gateway.storage.records import read_log
from peel_gateway.storage.sqlite.store import SqliteStore
from peel_tools.simulation.fleet import SimulatedFleet
from peel_tools.simulation.referee import Findings, judge
from peel_tools.simulation.session import make_fleet, true_history, true_means
from peel_tools.simulation.traces import BuiltInTraces
from peel_tools.simulation.truth import MOMENT_SECONDS, Truth, TruthError


@pytest.fixture
def snapshot(tmp_path: Path) -> FleetSnapshot:
    return take_snapshot(make_fleet(tmp_path / "fleet", greenhouse=30, vents=10))


def _simulated(snapshot: FleetSnapshot, truth: Truth, **shares: float) -> SimulatedFleet:
    traces = {profile.name: BuiltInTraces(profile, 1) for profile in snapshot.profiles}
    return SimulatedFleet(snapshot, traces, truth, shares=shares, seed=1, burst=2)


def test_what_nobody_has_confirmed_is_there_after_a_crash(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    truth = Truth(tmp_path / "truth.sqlite")
    sent = _simulated(snapshot, truth).reports(60, now=0.0)
    truth.acknowledge([message.id for message in sent[:10]])
    truth.finish([message.id for message in sent[:4]], confirmed=True)
    # Nothing is closed: this is what the next process finds on disk.
    later = Truth(tmp_path / "truth.sqlite")
    assert later.waiting() == sent[4:], "acknowledged or not"
    assert later.waiting()[0].numbers
    assert sum(later.published().values()) == sum(message.pieces for message in sent[:10])
    assert later.confirmed() == sum(message.pieces for message in sent[:4])
    rest = [message.id for message in later.waiting()]
    later.acknowledge(rest)
    later.finish(rest, confirmed=False)
    assert later.waiting() == []
    assert sum(later.published().values()) == sum(message.pieces for message in sent)
    assert later.confirmed() == sum(message.pieces for message in sent[:4])


def test_means_are_of_what_was_acknowledged_alone(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    truth = Truth(tmp_path / "truth.sqlite")
    sent = _simulated(snapshot, truth, stuck=0.3).reports(60, now=0.0)
    assert np.isnan(list(true_means(truth, snapshot.profiles[0]).values())).all()
    truth.acknowledge([message.id for message in sent[::2]])
    profile = snapshot.profiles[0]
    traces = BuiltInTraces(profile, 1)
    query = "SELECT device, number FROM report WHERE kind = 'honest' AND profile = ? AND message % 2 = ?"
    rows = np.array(truth._connection.execute(query, (profile.id, sent[0].id % 2)).fetchall())
    expected = [traces.values(each, rows[:, 0], rows[:, 1]).mean() for each in profile.attributes]
    found = list(true_means(truth, profile).values())
    scale = [attribute.high - attribute.low for attribute in profile.attributes]
    assert np.allclose((np.array(found) - expected) / scale, 0, atol=1e-4)
    again = Truth(tmp_path / "truth.sqlite")
    assert list(true_means(again, profile).values()) == found


def test_the_truth_moves(tmp_path: Path, snapshot: FleetSnapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over time it is what was read in that time; from a moment on, what was read since; of all of it, the mean of all."""
    clock = 1_000_003.0
    monkeypatch.setattr("peel_tools.simulation.truth.time.time", lambda: clock)
    truth = Truth(tmp_path / "truth.sqlite")
    fleet, (numeric, categorical) = _simulated(snapshot, truth), snapshot.profiles
    for _ in range(4):
        truth.acknowledge([message.id for message in fleet.reports(60, now=clock)])
        clock += MOMENT_SECONDS
    for profile in (numeric, categorical):
        later = list(true_means(truth, profile, since=1_000_010).values())
        whole = list(true_means(truth, profile).values())
        assert later != whole
        for place in range(profile.size):
            fine = true_history(truth, profile, place, MOMENT_SECONDS)
            assert [start for start, _ in fine] == [1_000_000, 1_000_005, 1_000_010, 1_000_015]
            ((start, mean),) = true_history(truth, profile, place, 10, since=1_000_010)
            assert start == 1_000_010
            assert mean == pytest.approx(later[place])
            ((start, mean),) = true_history(truth, profile, place, 1_000_000)
            assert start == 1_000_000
            assert mean == pytest.approx(whole[place])
    assert len({mean for _, mean in true_history(truth, numeric, 0, MOMENT_SECONDS)}) == 4


def test_roles_seed_and_numbers_are_continued(tmp_path: Path, snapshot: FleetSnapshot) -> None:
    first = Truth(tmp_path / "truth.sqlite")
    fleet = _simulated(snapshot, first, stuck=0.3)
    while not all(reserved for _, reserved in first.devices().values()):
        fleet.reports(200, now=0.0)
    roles = {device: role for device, (role, _) in first.devices().items()}
    assert first.settle("seed", "5") == "5"
    first.close()
    second = Truth(tmp_path / "truth.sqlite")
    assert second.settle("seed", "6") == "5"
    fleet = _simulated(snapshot, second, stuck=0.9)
    assert {device: role for device, (role, _) in second.devices().items()} == roles
    assert fleet.reports(200, now=0.0) == []  # no quota saved up: the process before may have spent it
    fleet.reports(200, now=60.0)
    query = "SELECT COUNT(*), COUNT(DISTINCT device || '/' || number) FROM report"
    total, distinct = second._connection.execute(query).fetchone()
    assert total == distinct > 100


def test_other_databases_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "precious.sqlite"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE precious (x)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(TruthError, match="not the truth of a simulation"):
        Truth(path)
    assert path.read_bytes() == before
    path.write_bytes(b"not a database at all, and long enough to be looked at" * 100)
    with pytest.raises(TruthError, match="cannot be used"):
        Truth(path)


@pytest.fixture
def play(tmp_path: Path, snapshot: FleetSnapshot) -> Callable[..., tuple[Truth, SqliteStore]]:
    """Run a fleet through an engine; `skip` messages never get there."""

    def run(*, skip: int = 0, rounds: int = 20, kept: int = 100_000, **shares: float) -> tuple[Truth, SqliteStore]:
        truth = Truth(tmp_path / "truth.sqlite")
        store = SqliteStore(tmp_path / "peel.sqlite", quarantine_limit=kept)
        engine = Engine(store)
        engine.load(snapshot)
        fleet = _simulated(snapshot, truth, **shares)
        sent = [message for second in range(rounds) for message in fleet.reports(40, now=float(second))]
        engine.process([Message(message.topic, message.payload, 1_700_000_000.0) for message in sent[skip:]])
        truth.acknowledge([message.id for message in sent])
        return truth, store

    return run


def _findings(truth: Truth, store: SqliteStore) -> Findings:
    return judge(truth.path, store)


def test_the_referee_is_content_with_a_gateway_that_heard_everything(
    play: Callable[..., tuple[Truth, SqliteStore]],
) -> None:
    found = _findings(*play(forgery=0.2, replay=0.1, budget=0.2))
    assert found.exact
    assert found.settled
    assert found.accepted == found.honest > 200
    assert found.attacks["forgery"].exposed == found.attacks["forgery"].pieces > 0
    assert found.attacks["budget"].exposed_devices == found.attacks["budget"].devices == 8


def test_the_referee_sees_loss(play: Callable[..., tuple[Truth, SqliteStore]]) -> None:
    found = _findings(*play(skip=7))
    assert found.lost == 14
    assert not found.exact
    assert not found.settled


def test_the_referee_sees_attacks_that_nobody_heard_of(play: Callable[..., tuple[Truth, SqliteStore]]) -> None:
    found = _findings(*play(skip=100, forgery=0.5))
    assert found.attacks["forgery"].unheard > 0
    assert not found.settled
    assert any(fault.startswith("forgery: ") and "not heard of" in fault for fault in found.faults())


def test_the_referee_counts_what_was_exposed_and_is_kept_no_more(
    play: Callable[..., tuple[Truth, SqliteStore]],
) -> None:
    """A long demonstration outgrows the quarantine; the gateway's own count of what it dropped vouches for that much, and no more."""
    truth, store = play(kept=10, forgery=0.3)
    found = _findings(truth, store)
    assert found.exact and found.settled, found.faults()
    forged = found.attacks["forgery"]
    assert forged.exposed == forged.pieces == forged.dropped + 10
    _cook(store.path, "UPDATE counter SET value = value - 3 WHERE kind = 'dropped'")
    assert _findings(truth, store).faults() == ["forgery: 3 pieces that the gateway has not heard of"]


def test_the_referee_is_not_content_with_nothing(tmp_path: Path) -> None:
    found = _findings(Truth(tmp_path / "truth.sqlite"), SqliteStore(tmp_path / "peel.sqlite"))
    assert not found.exact
    assert found.faults() == ["nothing was published, so nothing is shown"]


def test_the_referee_wants_everything_acknowledged(play: Callable[..., tuple[Truth, SqliteStore]]) -> None:
    truth, store = play()
    assert _findings(truth, store).exact
    _cook(truth.path, "UPDATE message SET acknowledged = 0 WHERE id = 3")
    found = _findings(truth, store)
    assert (found.unacknowledged, found.lost, found.exact) == (2, 0, False)


def _cook(path: Path, *changes: str) -> None:
    connection = sqlite3.connect(path)
    for change in changes:
        assert connection.execute(change).rowcount > 0
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("change", "field", "count"),
    [
        ("UPDATE tally SET plus = plus + 3 WHERE rowid_ = 1", "double_counted", 3),
        ("UPDATE tally SET plus = plus - 3 WHERE rowid_ = 1", "lost", 3),
        ("UPDATE device SET cause = 13 WHERE device = 2", "honest_devices_exposed", 1),
    ],
)
def test_the_referee_sees_cooked_books(
    play: Callable[..., tuple[Truth, SqliteStore]], change: str, field: str, count: int
) -> None:
    truth, store = play()
    cook = sqlite3.connect(store.path)
    row = "(profile, bucket, idx) = (SELECT profile, bucket, idx FROM tally LIMIT 1)"
    changed = cook.execute(change.replace("rowid_ = 1", row)).rowcount
    assert changed > 0
    cook.commit()
    cook.close()
    found = _findings(truth, store)
    assert getattr(found, field) == count
    assert not found.exact


def _turned(events: Any) -> Any:
    """One report with the other sign."""
    events["marks"][(events["device"] == 2) & (events["number"] == 1)] ^= 1
    return events


def _refused(events: Any) -> Any:
    """All reports of one device, refused."""
    events["verdict"][events["device"] == 2] = Verdict.STRUCTURE
    return events


def test_the_referee_sees_a_cooked_log(play: Callable[..., tuple[Truth, SqliteStore]]) -> None:
    truth, store = play()
    change_log(SqliteFile(store.path), _turned)
    assert _findings(truth, store).altered == 1
    change_log(SqliteFile(store.path), _refused)
    found = _findings(truth, store)
    assert found.honest_exposed == len(read_log(store, 2)) > 0
    assert not found.exact


def test_the_referee_sees_a_wrong_verdict(play: Callable[..., tuple[Truth, SqliteStore]]) -> None:
    truth, store = play(forgery=0.3, budget=0.2)
    assert _findings(truth, store).exact
    _cook(store.path, "UPDATE exposure SET verdict = 2 WHERE verdict = 7")
    found = _findings(truth, store)
    assert found.attacks["forgery"].mistaken == found.attacks["forgery"].pieces > 0
    assert not found.exact
    _cook(
        store.path,
        "UPDATE exposure SET verdict = 7 WHERE verdict = 2",
        "UPDATE device SET cause = 12 WHERE cause = 11",
    )
    found = _findings(truth, store)
    assert found.attacks["budget"].mistaken_devices == found.attacks["budget"].devices == 8
    assert found.faults() == ["budget: 8 devices exposed for another reason"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["budget", "stuck"])
def test_the_referee_sees_who_got_away(play: Callable[..., tuple[Truth, SqliteStore]], kind: str) -> None:
    """One bad piece is enough for the first kind, many reports are needed for the second."""
    truth, store = play(rounds=150, **{kind: 0.1})
    found = _findings(truth, store)
    assert found.exact, found.faults()
    assert found.attacks[kind].exposed_devices == found.attacks[kind].devices > 0
    _cook(store.path, "UPDATE device SET cause = 0 WHERE device = (SELECT MIN(device) FROM device WHERE cause)")
    assert _findings(truth, store).faults() == [f"{kind}: 1 devices not exposed although they have sent enough"]


def test_the_referee_blames_no_device_for_what_others_forged_in_its_name(
    play: Callable[..., tuple[Truth, SqliteStore]],
) -> None:
    """A device that turns during a demonstration was honest before, so reports may have been forged in its name."""
    truth, store = play(forgery=0.5)
    _cook(truth.path, "UPDATE device SET role = 'burst' WHERE device = (SELECT MIN(device) FROM report WHERE bad)")
    found = _findings(truth, store)
    assert found.attacks["burst"].devices == 1
    assert found.exact, found.faults()


def test_the_referee_grants_the_statistics_their_time(play: Callable[..., tuple[Truth, SqliteStore]]) -> None:
    found = _findings(*play(rounds=10, stuck=0.1))
    assert found.attacks["stuck"].exposed_devices < found.attacks["stuck"].devices
    assert found.exact, found.faults()
