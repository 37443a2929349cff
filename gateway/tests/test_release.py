# SPDX-License-Identifier: MIT
"""Releases of stalled devices, and the recount of held reports, on the real engine and a real database."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from databases import PostgresSchema
from lab import START, Lab, MakeLab, harmony_profile
from verified import Talker, verified

from peel_gateway.engine.pardon import pardon
from peel_gateway.engine.recount import recount
from peel_gateway.engine.release import ReleaseError, release
from peel_gateway.model.coins import CoinBatch, CoinDevice, CoinEffects, HeldReports
from peel_gateway.model.exposure import RELEASE, AuditEntry
from peel_gateway.model.tables import Difference
from peel_gateway.storage.store import Store

HELD = 20
FURTHER = 1001
"""The first number of a second bundle."""


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """A lab whose two devices have verified coins."""
    return make_lab(verified(harmony_profile(4)), devices=2)


def stalled(lab: Lab, device: int = 1, first: int = 1) -> Talker:
    """A device that has reported, was challenged, and does not answer."""
    talker = Talker(lab, device, first=first)
    talker.ready()
    talker.talk(talker.report(HELD, 0.5))
    talker.ready()  # no audit waits, so that the challenge does
    lab.now += lab.store.bucket_seconds
    lab.send([])
    assert lab.store.coin_waits().asked.keys() == {device}
    return talker


def let_go(lab: Lab, *devices: int, store: Store | None = None) -> list[AuditEntry]:
    return release(store or lab.store, devices, reason="lost its flash", who="ada", clock=lab.clock)


def differences(lab: Lab) -> list[Difference]:
    return recount(lab.store, lab).differences


def test_a_release_voids_batches_and_drops_held_reports(lab: Lab) -> None:
    stalled(lab)
    before = lab.store.generation()
    (entry,) = let_go(lab, 1)
    assert (entry.device, entry.action, entry.reports, entry.who) == (1, RELEASE, HELD, "ada")
    assert [each.action for each in lab.store.audit(device=1)] == [RELEASE]
    _, coins, held = lab.store.read_coins(np.array([1]))
    assert not len(held) and not coins[1].batches and coins[1].asked == 0
    assert lab.store.coin_waits().held == lab.store.coin_waits().asked == {}
    assert lab.store.generation() == before + 1, "caches must notice"
    assert differences(lab) == []


def test_a_released_device_goes_on_with_new_batches(lab: Lab) -> None:
    stalled(lab)
    let_go(lab, 1)
    lab.provision(1, FURTHER)  # its flash is lost, so it gets another bundle
    fresh = Talker(lab, first=FURTHER)
    fresh.ready()
    fresh.talk(fresh.report(HELD, 0.5))
    assert fresh.finish()["accepted"] == HELD
    assert lab.store.devices().cause.tolist() == [0]
    assert differences(lab) == []


def test_a_released_device_that_kept_its_flash_goes_on_after_its_void_numbers(lab: Lab) -> None:
    talker = stalled(lab)
    let_go(lab, 1)
    void = len(list(talker.coins.free()))
    assert talker.talk(talker.report(void, 0.5)) == {"uncommitted": void}
    talker.ready()
    talker.talk(talker.report(HELD, 0.5))
    assert talker.finish()["accepted"] == HELD
    assert lab.store.devices().cause.tolist() == [0], "no device is blamed"
    assert differences(lab) == []


def test_releases_are_not_pardons(lab: Lab) -> None:
    """Neither the counters, nor the limits of the quarantine, nor the recount take a release for a pardon."""
    stalled(lab)
    let_go(lab, 1)
    assert lab.store.counts().pardons == 0
    assert lab.store.forfeited_reports(np.array([1])) == {}
    (entry,) = lab.store.audit()
    assert (entry.arrival, entry.last_exposure, entry.restored) == (0, 0, True)
    assert lab.database.execute("SELECT pardoned, forfeited FROM device WHERE device = 1") in ([], [(0, 0)])


def test_a_release_between_two_pardons_changes_neither(lab: Lab) -> None:
    for step in range(2):
        first = 1 + step * (FURTHER - 1)
        talker = stalled(lab, 2, first)
        assert lab.send([lab.sealed(2, max(talker.coins.free()), rule=1)]) == {"rule": 1}
        assert pardon(lab.store, [2], restore=False, reason="firmware", who="ada", clock=lab.clock)[0].cause
        assert differences(lab) == [], step
        stalled(lab, 1, first)
        let_go(lab, 1)
        for device in (1, 2):
            lab.provision(device, first + FURTHER - 1)
    assert lab.store.counts().pardons == 2
    assert differences(lab) == []


def test_a_running_engine_notices_a_release(lab: Lab) -> None:
    talker = stalled(lab)
    talker.hear()
    openings = [message for message in talker.coins.messages() if message[1] == 3]
    assert len(openings) == HELD
    other = lab.database.open()
    let_go(lab, 1, store=other)
    other.close()
    assert lab.send(openings) == {}, "the challenge is over"
    assert lab.send(talker.report(1, 0.5)) == {"uncommitted": 1}
    assert differences(lab) == []


@pytest.mark.parametrize("devices", [(2,), (1, 2), (99,), (1, 99)])
def test_without_coins_nothing_is_released(lab: Lab, devices: tuple[int, ...]) -> None:
    stalled(lab)
    before = lab.store.generation()
    with pytest.raises(ReleaseError, match=f"device {devices[-1]:08x}: has no batch of verified coins"):
        let_go(lab, *devices)
    assert lab.store.generation() == before and lab.store.audit() == []
    assert lab.store.coin_waits().held == {1: HELD}


def test_a_device_is_released_once(lab: Lab) -> None:
    stalled(lab)
    assert len(let_go(lab, 1, 1)) == 1
    with pytest.raises(ReleaseError):
        let_go(lab, 1)
    assert len(lab.store.audit()) == 1


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("held_report", "UPDATE held SET number = number + 10000", "in no approved batch"),
        ("held_report", "DELETE FROM coin", "in no approved batch"),
        ("coin", "UPDATE coin SET reported = 1", "at least"),
    ],
)
def test_recount_notices_held_reports_that_no_batch_allows(lab: Lab, table: str, change: str, said: str) -> None:
    stalled(lab)
    assert differences(lab) == []
    lab.database.execute(change)
    assert any(each.table == table and said in str(each.recounted) for each in differences(lab))


def test_recount_notices_a_held_report_under_a_revealed_number(lab: Lab) -> None:
    stalled(lab)
    _, coins, held = lab.store.read_coins(np.array([1]))
    revealed = [number for batch in coins[1].batches for number in batch.revealed]
    number = next(number for number in revealed if number < held.number.max())
    lab.database.execute("UPDATE held SET number = ? WHERE number = ?", (number, int(held.number[0])))
    (found,) = differences(lab)
    assert (found.table, found.key) == ("held_report", f"00000001/{number}")
    assert found.recounted == "a number that an audit revealed"


def test_recount_notices_a_held_report_that_is_in_the_log(lab: Lab) -> None:
    talker = stalled(lab)
    kept = lab.database.execute("SELECT * FROM held ORDER BY number")
    assert talker.finish()["accepted"] == HELD
    assert differences(lab) == []
    marks = ", ".join("?" * len(kept[0]))
    lab.database.execute(f"INSERT INTO held VALUES ({marks})", kept[0])
    (found,) = differences(lab)
    assert (found.table, found.stored, found.recounted) == ("held_report", "held", "in the log")
    assert lab.now > START


def test_devices_of_several_partitions_are_released_together(new_schema: Callable[[], PostgresSchema]) -> None:
    schema = new_schema()
    for partition, device in ((0, 2), (1, 3)):
        store = schema.open(partition=partition, partitions=2)
        with store.begin() as transaction:
            state = CoinDevice(device, committed=32, reported=7, asked=5, batches=[CoinBatch(1, 255, approved=True)])
            held = HeldReports(*(np.array([each], np.int64) for each in (device, 20, 1, 0, 1, 5, 9, 0, -1)))
            transaction.write_coins(CoinEffects(devices=[state], held=[held]))
        store.close()
    archive = schema.archive(partitions=2)
    waits = archive.coin_waits()
    assert (waits.held, waits.asked) == ({2: 1, 3: 1}, {2: 5, 3: 5})
    with pytest.raises(ReleaseError, match="device 00000004"):
        release(archive, [2, 3, 4], reason="x", who="ada")
    assert archive.audit() == []
    assert [entry.device for entry in release(archive, [3, 2], reason="x", who="ada")] == [2, 3]
    assert archive.coin_waits(np.array([2, 3])).held == {}
    assert sorted(entry.action for entry in archive.audit()) == [RELEASE, RELEASE]
    assert archive.counts().pardons == 0
    archive.close()
