# SPDX-License-Identifier: MIT
"""Pardons: an exposure taken back, on the real engine and a real database; and insiders who count on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from databases import change_log
from lab import Lab, MakeLab, Makers

from peel_core import index_many
from peel_gateway.engine.pardon import PardonError, exposed_devices, pardon
from peel_gateway.engine.recount import recount
from peel_gateway.model.exposure import AuditEntry, ExposureFilter
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.layers import UNKNOWN_ALLOWANCE
from peel_gateway.storage.store import Store


def forgive(lab: Lab, *devices: int, restore: bool = False, store: Store | None = None) -> list[AuditEntry]:
    return pardon(store or lab.store, devices, restore=restore, reason="wrong firmware", who="ada", clock=lab.clock)


def counted(lab: Lab) -> int:
    """Reports that the estimates are made of, the same from the tallies, from the log and from what is kept of each device."""
    tallies = lab.store.tallies(lab.profiles[0].id)
    kept = tallies.plus + tallies.minus - tallies.withdrawn_plus - tallies.withdrawn_minus
    by_device = lab.store.device_tallies(lab.profiles[0].id)
    assert kept.sum() == ((by_device.plus + by_device.minus) * (by_device.withdrawn == 0)).sum()
    assert kept.sum() == sum(_counted_by_device(lab).values())
    return int(kept.sum())


def _counted_by_device(lab: Lab) -> dict[int, int]:
    devices, reports = lab.store.devices(), lab.store.device_reports()
    forfeited = lab.store.forfeited_reports(devices.device)
    return {
        device: reports[device].get(Verdict.ACCEPTED, 0) - forfeited.get(device, 0)
        for device in devices.device[devices.withdrawn == 0].tolist()
    }


def agrees(lab: Lab) -> bool:
    report = recount(lab.store, lab)
    assert report.differences == []
    return report.agrees


def fail(lab: Lab, device: int, number: int) -> None:
    """Send a report tossed with another budget: the device is exposed."""
    assert lab.send([lab.sealed(device, number, rule=lab.profiles[0].blocks[0].rule - 1)]) == {"rule": 1}


def test_the_past_stays_withdrawn_and_the_future_counts(lab: Lab) -> None:
    lab.send([*lab.frames(1, range(1, 41)), *lab.frames(2, range(1, 11))])
    fail(lab, 1, 41)
    assert lab.send(lab.frames(1, range(42, 52))) == {"withdrawn": 10}
    (entry,) = forgive(lab, 1)
    assert (entry.device, entry.restored, entry.reports, Verdict(entry.cause)) == (1, False, 40, Verdict.RULE)
    assert counted(lab) == 10
    assert agrees(lab)
    assert lab.send(lab.frames(1, range(52, 60))) == {"accepted": 8}
    assert counted(lab) == 18
    assert agrees(lab)
    assert lab.store.counts().exposed_devices == 0
    assert lab.store.counts().pardons == 1
    (written,) = lab.store.audit()
    assert (written.who, written.reason, written.time) == ("ada", "wrong firmware", lab.now)


def test_the_past_comes_back_when_asked(lab: Lab) -> None:
    lab.send([*lab.frames(1, range(1, 41)), *lab.frames(2, range(1, 11))])
    before = lab.estimates()
    fail(lab, 1, 41)
    lab.send(lab.frames(1, range(42, 52)))
    (entry,) = forgive(lab, 1, restore=True)
    assert (entry.restored, entry.reports) == (True, 40)
    assert counted(lab) == 50
    assert lab.estimates() == before
    assert lab.store.counts().withdrawn_past == 0
    assert agrees(lab)


def test_a_pardoned_device_can_be_exposed_and_pardoned_again(lab: Lab) -> None:
    lab.send(lab.frames(1, range(1, 11)))
    fail(lab, 1, 11)
    forgive(lab, 1)
    lab.send(lab.frames(1, range(12, 32)))
    fail(lab, 1, 32)
    assert counted(lab) == 0
    assert agrees(lab)
    (entry,) = forgive(lab, 1, restore=True)
    assert entry.reports == 20, "what was left withdrawn before stays so for ever"
    assert counted(lab) == 20
    lab.send(lab.frames(1, range(33, 38)))
    fail(lab, 1, 38)
    assert lab.store.counts().withdrawn_past == 35
    assert forgive(lab, 1)[0].reports == 25
    assert counted(lab) == 0
    assert agrees(lab)
    assert [each.reports for each in lab.store.audit(device=1)] == [25, 20, 10]


def expose_by_statistics(lab: Lab, device: int, first: int) -> int:
    """Always plus until exposed; returns how many reports that took."""
    for count in range(1, 400):
        said = lab.send([lab.sealed(device, first + count - 1)])
        if "statistics" in said:
            return count
    raise AssertionError("never exposed")


@pytest.mark.slow
def test_bets_begin_anew(lab: Lab) -> None:
    first = expose_by_statistics(lab, 1, 1)
    forgive(lab, 1)
    assert agrees(lab), "before its next report, when there is no state of its bets"
    assert lab.send(lab.frames(1, range(1001, 1101))) == {"accepted": 100}, "or it would be exposed again at once"
    assert agrees(lab)
    lab.engine = lab.make_engine()
    assert lab.send(lab.frames(1, range(1101, 1201))) == {"accepted": 100}, "nor after a restart"
    lab.prune(lab.now + 1)
    assert agrees(lab)
    again = expose_by_statistics(lab, 1, 2001)
    assert first <= again < 3 * first
    assert agrees(lab)


def test_a_running_engine_notices(lab: Lab) -> None:
    lab.send(lab.frames(1, range(1, 11)))
    fail(lab, 1, 11)
    other = lab.database.open()
    forgive(lab, 1, store=other)
    other.close()
    assert lab.send(lab.frames(1, range(12, 22))) == {"accepted": 10}
    assert counted(lab) == 10


@pytest.mark.parametrize("restore", [False, True])
@pytest.mark.parametrize("when", ["before the exposure", "before the pardon", "after the pardon", "each time"])
def test_retention_respects_pardons(lab: Lab, restore: bool, when: str) -> None:
    def prune(now: str) -> None:
        lab.now += 1000
        if when in (now, "each time"):
            assert lab.prune(lab.now) > 0
            assert agrees(lab)

    lab.send([*lab.frames(1, range(1, 41)), *lab.frames(2, range(1, 11))])
    prune("before the exposure")
    lab.send(lab.frames(1, range(41, 61)))
    fail(lab, 1, 61)
    prune("before the pardon")
    assert forgive(lab, 1, restore=restore)[0].reports == 60
    lab.send(lab.frames(1, range(62, 72)))
    prune("after the pardon")
    assert counted(lab) == (80 if restore else 20)
    lab.send(lab.frames(1, range(72, 77)))
    fail(lab, 1, 77)
    assert counted(lab) == 10
    assert forgive(lab, 1, restore=True)[0].reports == (75 if restore else 15)
    assert counted(lab) == (85 if restore else 25)
    assert agrees(lab)


def test_only_exposed_devices_can_be_pardoned_and_all_or_none(lab: Lab) -> None:
    lab.send([*lab.frames(1, range(1, 11)), *lab.frames(2, range(1, 11))])
    fail(lab, 1, 11)
    for devices in ([2], [99], [1, 2]):
        with pytest.raises(PardonError, match=f"device {devices[-1]:08x}: is not exposed"):
            forgive(lab, *devices)
    assert lab.store.audit() == []
    assert lab.store.counts().exposed_devices == 1
    assert exposed_devices(lab.store.devices(), Verdict.RULE) == [1]
    assert exposed_devices(lab.store.devices(), Verdict.REUSED) == []
    assert exposed_devices(lab.store.devices(), Verdict.RULE, since=lab.now + 1) == []


def test_a_device_that_was_only_marked_loses_nothing(lab: Lab) -> None:
    lab.engine = lab.make_engine(withdraw_faulty=False)
    lab.send(lab.frames(1, range(1, 11)))
    fail(lab, 1, 11)
    assert counted(lab) == 10
    (entry,) = forgive(lab, 1)
    assert (entry.restored, entry.reports, counted(lab)) == (True, 0, 10)
    assert agrees(lab)


def test_a_flood_is_forgiven_where_the_device_stands(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](quota=10, period=3600), devices=2)
    lab.send(lab.frames(1, range(1, 11)))
    assert lab.send(lab.frames(1, [5000])) == {"flood": 1}
    forgive(lab, 1, restore=True)
    assert lab.send(lab.frames(1, range(5001, 5006))) == {"accepted": 5}
    assert agrees(lab)
    assert lab.send(lab.frames(1, [9000])) == {"flood": 1}, "from there on it is as slow as before"


def test_a_pardon_opens_no_more_numbers_than_the_quota_has_left(make_lab: MakeLab, profiles: Makers) -> None:
    """A pardoned device chooses where it goes on: what it has used before is not given to it again."""
    lab = make_lab(profiles[0](quota=100, period=86_400), devices=2)
    lab.now += 40 * 86_400
    assert lab.send(lab.frames(1, range(1, 4001))) == {"accepted": 4000}
    fail(lab, 1, 4001)
    forgive(lab, 1, restore=True)
    left = UNKNOWN_ALLOWANCE + 100 + 110 * 40 - 4001
    assert lab.send(lab.frames(1, [10**9])) == {"accepted": 1}
    assert lab.send(lab.frames(1, range(10**9 - left - 50, 10**9))) == {"accepted": left, "stale": 50}
    assert lab.send(lab.frames(1, range(4002, 4052))) == {"stale": 50}
    assert agrees(lab)


def test_a_pardon_opens_no_number_for_one_that_is_open_still(make_lab: MakeLab, profiles: Makers) -> None:
    """An insider who keeps what is open to him, falls, and begins elsewhere has it once, however often he is pardoned."""
    lab = make_lab(profiles[0](quota=100, period=86_400), devices=2)
    lab.now += 40 * 86_400
    entitled = UNKNOWN_ALLOWANCE + 100 + 110 * 40
    begun = [10**9, 2 * 10**9, 3 * 10**9]
    for first in begun:
        assert lab.send(lab.frames(1, [first])) == {"accepted": 1}
        fail(lab, 1, first + 1)
        forgive(lab, 1, restore=True)
    for first in begun:
        lab.send(lab.frames(1, range(first - entitled - 50, first)))
    assert counted(lab) <= entitled + UNKNOWN_ALLOWANCE * len(begun)
    assert agrees(lab)


def test_what_a_faster_profile_used_is_not_taken_from_a_slower_one(make_lab: MakeLab, profiles: Makers) -> None:
    """Provisioned again with a smaller quota, and pardoned after ten days offline: all that it made since may come, the newest first."""
    fast, slow = profiles[0](quota=6000, period=86_400, name="fast"), profiles[0](quota=200, period=86_400, name="slow")
    lab = make_lab(fast, slow, devices=1)
    lab.now += 86_400
    assert lab.send(lab.frames(1, range(1, 6001))) == {"accepted": 6000}
    bundle, made = 10**8, 2000
    lab.issued = {1: (bundle, lab.now)}
    lab.provision(1, bundle, profile=1)
    lab.now += 10 * 86_400
    assert lab.send([lab.sealed(1, bundle, rule=slow.blocks[0].rule - 1)]) == {"rule": 1}
    forgive(lab, 1)
    assert lab.send(lab.frames(1, [bundle + made - 1])) == {"accepted": 1}
    assert lab.send(lab.frames(1, range(bundle + 1, bundle + made - 1))) == {"accepted": made - 2}
    assert agrees(lab)


def test_what_a_device_was_pardoned_for_blames_it_no_more_when_it_is_delivered_again(
    make_lab: MakeLab, profiles: Makers
) -> None:
    """Anybody on the line can send bytes once more, and brokers do."""
    lab = make_lab(profiles[0](quota=10, period=3600), devices=2)
    lab.send([lab.sealed(1, number) for number in range(1, 11)])
    faults = [lab.sealed(1, 5, minus=1), *lab.frames(1, [5000])]
    assert lab.send(faults) == {"reused": 1, "flood": 1}
    forgive(lab, 1, restore=True)
    assert lab.send(lab.frames(1, range(11, 16))) == {"accepted": 5}
    assert lab.send(faults * 2) == {"redelivered": 4}
    assert lab.send([*faults, *lab.frames(1, [16])]) == {"redelivered": 2, "accepted": 1}
    assert lab.store.counts().exposed_devices == 0 and counted(lab) == 16
    assert agrees(lab)
    assert lab.send([lab.sealed(1, 6, minus=1)]) == {"reused": 1}, "another fault is another matter"
    assert lab.store.counts().exposed_devices == 1


def test_late_reports_after_a_pardon_settle_no_number_twice(lab: Lab) -> None:
    lab.send(lab.frames(1, [*range(101, 120), *range(130, 200)]))
    fail(lab, 1, 200)
    forgive(lab, 1, restore=True)
    assert lab.send(lab.frames(1, [50, 125])) == {"accepted": 2}
    assert agrees(lab)
    assert lab.send(lab.frames(1, range(201, 300))) == {"accepted": 99}
    assert agrees(lab)


def test_a_profile_that_comes_back_brings_no_old_bets(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](), profiles[1](), devices=2)
    expose_by_statistics(lab, 1, 1)
    lab.provision(1, 501, profile=1)
    forgive(lab, 1)
    assert lab.send(lab.frames(1, range(501, 521))) == {"accepted": 20}
    lab.provision(1, 601, profile=0)
    assert lab.send(lab.frames(1, range(601, 701))) == {"accepted": 100}
    assert agrees(lab)


def always_plus(events: Any) -> Any:
    """Device 2's accepted reports, all of them plus, while the cohort was undecided."""
    events["marks"][(events["device"] == 2) & (events["verdict"] == Verdict.ACCEPTED)] = 3
    return events


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("pardon", "DELETE FROM audit"),
        ("pardon", "UPDATE audit SET restored = 1"),
        ("pardon", "UPDATE device SET forfeited = 0"),
        ("pardon", "UPDATE device SET pardoned = pardoned - 1"),
        ("tally", "UPDATE device SET forfeited = forfeited / 2"),
        ("device", "DELETE FROM exposure WHERE verdict = 14"),
        ("device", always_plus),
    ],
)
def test_recount_notices(lab: Lab, table: str, change: str | Callable[[Any], Any]) -> None:
    lab.send(lab.frames(2, range(1, 201)))
    fail(lab, 2, 201)
    expose_by_statistics(lab, 1, 1)
    forgive(lab, 1, 2)
    lab.send([*lab.frames(1, range(501, 511)), *lab.frames(2, range(501, 511))])
    assert agrees(lab)
    if isinstance(change, str):
        lab.database.execute(change)
    else:
        change_log(lab.database, change)
    assert table in {difference.table for difference in recount(lab.store, lab).differences}


@pytest.mark.slow
def test_an_insider_who_counts_on_pardons(lab: Lab) -> None:
    """Each pardon gives him the slack of a new device, no more; what he did before counts only where the operator says so."""
    lab.send([frame for device in (2, 3) for frame in lab.frames(device, range(1, 301))])
    honest = counted(lab)
    stretches, number = [], 1
    for _ in range(4):
        stretches.append(expose_by_statistics(lab, 1, number))
        number += stretches[-1]
        assert counted(lab) == honest
        forgive(lab, 1)
        assert counted(lab) == honest, "nothing that was forfeited comes back"
    assert max(stretches) <= stretches[0], "each stretch is as short as the first"
    last = expose_by_statistics(lab, 1, number)
    (entry,) = forgive(lab, 1, restore=True)
    assert entry.reports == last - 1, "only what the last stretch counted"
    assert counted(lab) == honest + last - 1
    assert agrees(lab)


def test_a_pardon_gives_no_room_in_time_buckets(make_lab: MakeLab, profiles: Makers) -> None:
    """A pardoned device with any number of numbers holds no more of a bucket than its quota allows."""
    lab = make_lab(profiles[0](quota=12, period=3600), devices=2)
    start = 1
    for _ in range(3):
        lab.send(lab.frames(1, range(start, start + 50)))
        lab.send(lab.frames(1, [start + 10**6]))
        forgive(lab, 1, restore=True)
        start += 10**6 + 1
    bucketed = lab.store.tallies(lab.profiles[0].id, bucket_seconds=lab.store.bucket_seconds)
    _, place = np.unique(bucketed.bucket, return_inverse=True)
    assert np.bincount(place, bucketed.plus + bucketed.minus).max() <= 2
    assert agrees(lab)


def test_what_exposes_a_device_again_is_kept_whatever_it_did_before(lab: Lab) -> None:
    """Faults by the hundred before a pardon leave no device without evidence against it after."""
    lab.reopen(quarantine_limit=120)
    rule = lab.profiles[0].blocks[0].rule
    lab.send([lab.sealed(1, number, rule=rule - 1) for number in range(1, 151)])
    forgive(lab, 1)
    assigned = int(index_many(lab.profiles[0], [1], lab.keys_of(1, [201]), [201])[0])
    assert lab.send([lab.sealed(1, 201, (assigned + 1) % 4)]) == {"support": 1}
    for start in range(1, 301, 30):
        lab.send([lab.sealed(device, n, rule=rule - 1) for device in (2, 3) for n in range(start, start + 30)])
    held = [each.verdict for each in lab.store.exposures(ExposureFilter(device=1), limit=1000)]
    assert held[0] == Verdict.SUPPORT, "the newest, what it is exposed for now"
    assert Verdict.RULE in held, "and what it was pardoned for"
    assert agrees(lab)


def test_gaps_that_an_insider_leaves_before_a_pardon_are_forgotten_and_those_after_are_not(lab: Lab) -> None:
    """Numbers of one attribute only: exposed by what he keeps back, also the second time."""

    def chosen(numbers: range) -> list[bytes]:
        every = np.array(numbers)
        assigned = index_many(lab.profiles[0], np.ones(len(every), np.uint32), lab.keys_of(1, every), every)
        return lab.frames(1, every[assigned == 0])

    def until_exposed(first: int) -> int:
        for start in range(first, first + 4000, 40):
            if "statistics" in lab.send(chosen(range(start, start + 40))):
                return start - first
        raise AssertionError("never exposed")

    once = until_exposed(1)
    forgive(lab, 1)
    assert agrees(lab)
    assert lab.send(lab.frames(1, range(5001, 5101))) == {"accepted": 100}
    again = until_exposed(5101)
    assert again < 3 * once + 400
    assert agrees(lab)
