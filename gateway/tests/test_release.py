# SPDX-License-Identifier: MIT
"""Releases of stalled devices, and the recount of held reports, on the real engine and a real database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from databases import PostgresSchema
from lab import START, Lab, MakeLab, harmony_profile
from verified import Talker, coins_of, verified

from peel_gateway.engine.pardon import pardon
from peel_gateway.engine.recount import recount
from peel_gateway.engine.release import ReleaseError, release
from peel_gateway.model.coins import BATCH, WAITING, CoinTable, Ragged
from peel_gateway.model.exposure import RELEASE, AuditEntry
from peel_gateway.model.tables import Difference
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.counting import count_opened
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
    assert lab.store.unanswered().keys() == {device}
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
    stored = coins_of(lab.store)
    assert (stored.held, len(stored.batches.records), stored.asked) == (0, 0, 0)
    assert lab.store.unanswered() == {}
    assert lab.store.counts().verdicts[Verdict.VOID] == HELD
    assert lab.store.generation() == before + 1, "caches must notice"
    assert differences(lab) == []


def test_a_released_device_goes_on_with_new_batches(lab: Lab) -> None:
    stalled(lab)
    let_go(lab, 1)
    lab.issued[1] = (FURTHER, lab.now)
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
        assert lab.send([lab.sealed(2, max(talker.coins.free()), rule=1)])["rule"] == 1
        assert pardon(lab.store, [2], restore=False, reason="firmware", who="ada", clock=lab.clock)[0].cause
        assert differences(lab) == [], step
        stalled(lab, 1, first)
        let_go(lab, 1)
        for device in (1, 2):
            lab.issued[device] = (first + FURTHER - 1, lab.now)
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
    assert coins_of(lab.store).held == HELD


def test_a_device_is_released_once(lab: Lab) -> None:
    stalled(lab)
    assert len(let_go(lab, 1, 1)) == 1
    with pytest.raises(ReleaseError):
        let_go(lab, 1)
    assert len(lab.store.audit()) == 1


@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        ("held", "DELETE FROM waiting", "stored 20, the log says 0"),
        ("held", "UPDATE progress SET held = held - 1", "stored 19, the log says 20"),
        ("device_report", "UPDATE progress SET held = held - 1", "stored (19,), the log says (20,)"),
        ("held_report", "DELETE FROM coin", "of an unknown device"),
        ("coin_batch", "DELETE FROM coin", "roots without their batch"),
        ("coin_batch", "DELETE FROM coin_batch", "a batch without its roots"),
        ("coin_batch", "UPDATE coin_batch SET first = first + 1", "roots without their batch"),
    ],
)
def test_recount_notices_coins_that_do_not_agree(lab: Lab, table: str, change: str, said: str) -> None:
    stalled(lab)
    assert differences(lab) == []
    lab.database.execute(change)
    assert any(each.table == table and said in str(each) for each in differences(lab))


def test_recount_notices_a_held_report_that_is_not_in_the_log(lab: Lab) -> None:
    talker = stalled(lab)
    with lab.store.begin() as transaction:
        (device,), data = transaction.waiting(np.array([1]))
        reports = Ragged.of(data, WAITING)
        unused = max(talker.coins.free_approved())
        reports.records["number"][-1] = unused
        transaction.put_waiting(np.array([device]), reports)
    (found,) = differences(lab)
    assert (found.table, found.key, found.recounted) == ("held_report", f"00000001/{unused}", "not in the log")


def test_recount_notices_a_coin_that_counted_twice(lab: Lab) -> None:
    talker = stalled(lab)
    with lab.store.begin() as transaction:
        kept = transaction.waiting(np.array([1]))
    assert talker.finish()["accepted"] == HELD
    assert differences(lab) == []
    with lab.store.begin() as transaction:
        reports = Ragged.of(kept[1], WAITING)
        reports.records["outcome"] = 1
        effects, _ = count_opened(lab.cache, kept[0][reports.at], reports.records, transaction.clock())
        transaction.write(effects)
    found = differences(lab)
    assert sum(each.stored == "opened once" for each in found) == HELD
    assert lab.now > START


def test_devices_of_several_partitions_are_released_together(new_schema: Callable[[], PostgresSchema]) -> None:
    schema = new_schema()
    for partition, device in ((0, 2), (1, 3)):
        store = schema.open(partition=partition, partitions=2)
        with store.begin() as transaction:
            table = CoinTable.new(np.array([device], np.int64))
            batch = np.array([(1, 255, 1)], BATCH).tobytes()
            transaction.put_coins(replace(table, asked=np.array([5]), batches=np.array([batch], np.object_)))
        store.close()
    archive = schema.archive(partitions=2)
    assert archive.unanswered() == {2: 5, 3: 5}
    with pytest.raises(ReleaseError, match="device 00000004"):
        release(archive, [2, 3, 4], reason="x", who="ada")
    assert archive.audit() == []
    assert [entry.device for entry in release(archive, [3, 2], reason="x", who="ada")] == [2, 3]
    assert archive.unanswered(np.array([2, 3])) == {}
    assert sorted(entry.action for entry in archive.audit()) == [RELEASE, RELEASE]
    assert archive.counts().pardons == 0
    archive.close()
