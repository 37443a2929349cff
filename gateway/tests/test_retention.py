# SPDX-License-Identifier: MIT
"""Retention: old events go, what must be known of them stays, and the room is given back."""

from __future__ import annotations

import pytest
from lab import START, Lab, MakeLab, harmony_profile

from peel_gateway.engine.clock import believe
from peel_gateway.engine.recount import recount
from peel_gateway.estimation.estimate import estimates
from peel_gateway.model.messages import Message
from peel_gateway.storage.records import read_gaps, read_log


def test_retention_keeps_the_sums_and_refuses_what_is_stale(lab: Lab) -> None:
    old = lab.frames(1, range(1, 101)) + lab.frames(2, range(1, 101))
    lab.send(old[:5] + old[10:])  # leaves gaps
    lab.now += 86400
    lab.send(lab.frames(1, range(101, 151)))
    before = lab.estimates()
    reports = lab.store.device_reports()
    assert lab.prune(lab.now - 3600) == 195
    assert lab.estimates() == before
    assert lab.store.device_reports() == reports
    assert recount(lab.store, lab).agrees
    assert lab.send(old[:20]) == {"stale": 15, "accepted": 5}  # numbers that were never used may still come
    assert lab.store.exposures()[0].blamed is False
    assert lab.send(lab.frames(2, range(101, 181))) == {"accepted": 80}
    assert read_gaps(lab.store).number.min(initial=999) > 100  # what was dropped is not taken for missing
    assert recount(lab.store, lab).agrees


@pytest.mark.parametrize("how", ["set", "at boot", "behind"])
def test_a_wrong_clock_deletes_nothing(lab: Lab, how: str) -> None:
    lab.send(lab.frames(1, range(1, 101)))
    assert lab.engine.prune(30 * 86400) == 0
    lab.now += 3600
    if how == "set":
        lab.skew = 90 * 86400
    else:
        lab.reboot(off=60, skew=90 * 86400 if how == "at boot" else -lab.now)
    for _ in range(3):
        assert lab.engine.prune(30 * 86400) is None
        lab.now += 3600
        lab.send(lab.frames(1, [lab.store.devices().last_number[0] + 1]))
    lab.skew = 0
    lab.engine.prune(30 * 86400)
    lab.now += 86400
    assert lab.engine.prune(30 * 86400) == 0
    lab.send(lab.frames(1, [lab.store.devices().last_number[0] + 1]))
    lab.now += 40 * 86400
    assert lab.engine.prune(30 * 86400) == 104, "those from the future go with what follows them"
    assert recount(lab.store, lab).agrees


@pytest.mark.parametrize("back", [3600, 400 * 86400])
def test_a_clock_set_back_deletes_nothing(lab: Lab, back: int) -> None:
    """All that the log holds seems to come from the future, and nothing in it is old."""
    lab.send(lab.frames(1, range(1, 101)))
    lab.skew = -back
    assert not lab.engine.prune(30 * 86400)
    lab.now += 60
    lab.send(lab.frames(1, [101]))
    assert not lab.engine.prune(30 * 86400)
    lab.skew = 0
    lab.now += 60
    lab.send(lab.frames(1, [102]))
    lab.now += 2 * 86400
    assert lab.engine.prune(30 * 86400) == 0
    assert len(read_log(lab.store)) == 102
    lab.now += 40 * 86400
    assert lab.engine.prune(30 * 86400) == 102
    assert recount(lab.store, lab).agrees


def test_a_clock_set_back_twice_deletes_nothing(lab: Lab) -> None:
    """Once by decades, then by minutes: what came first seems to come from the future, and something old seems to follow it."""
    lab.send(lab.frames(1, range(1, 101)))
    lab.skew = -30 * 365 * 86400
    lab.send(lab.frames(1, range(101, 111)))
    lab.skew = 0
    lab.now += 10
    lab.send(lab.frames(1, range(111, 121)))
    lab.skew = -180
    for _ in range(30):
        lab.engine.prune(30 * 86400)
        lab.now += 3600
        lab.send(lab.frames(1, [lab.store.devices().last_number[0] + 1]))
        assert len(read_log(lab.store)) == lab.store.devices().last_number[0]
    lab.now += 40 * 86400
    assert lab.engine.prune(30 * 86400) == 150
    assert recount(lab.store, lab).agrees


def test_withdrawal_reaches_what_retention_has_dropped(lab: Lab) -> None:
    lab.send(lab.frames(1, range(1, 101)))
    lab.now += 86400
    lab.prune(lab.now)
    lab.send(lab.frames(1, range(101, 111)))
    lab.send(lab.frames(1, [111], odds=(5, 1)))
    assert lab.store.counts().withdrawn_past == 110
    (whole,) = lab.estimates()
    assert (whole.n, whole.withdrawn) == (0, 110)
    assert recount(lab.store, lab).agrees


REPORTS, BUCKETS = 5, 20
"""Of each device in a bucket, and buckets in which they report, each day."""


def report_for_a_day(lab: Lab, day: int) -> None:
    for bucket in range(BUCKETS):
        lab.now = START + 86400 * day + 300 * bucket
        first = (day * BUCKETS + bucket) * REPORTS + 1
        numbers = [number for number in range(first, first + REPORTS) if number % 97]  # some are lost
        lab.send([frame for device in lab.ids.tolist() for frame in lab.frames(device, numbers)])


def size(lab: Lab) -> int:
    """Bytes of the file, after everything has gone from the write-ahead log into it."""
    lab.store.close()
    size = lab.path.stat().st_size
    lab.reopen()
    return size


@pytest.mark.slow
def test_the_disk_is_bounded_and_room_is_given_back(make_lab: MakeLab) -> None:
    """Many days of reports with a retention of two: the file stops growing, and shrinks when less is kept."""
    lab = make_lab(harmony_profile(4, quota=60, period=3600), devices=40)
    sizes = []
    for day in range(12):
        report_for_a_day(lab, day)
        assert lab.engine.prune(2 * 86400) is not None
        sizes.append(size(lab))
    held = len(read_log(lab.store))
    assert held < 3.1 * REPORTS * BUCKETS * len(lab.ids)
    assert recount(lab.store, lab).agrees
    assert sizes[11] < 1.25 * sizes[4], sizes
    lab.now += 30 * 86400
    lab.send(lab.frames(1, [9999]))
    lab.now += 2 * 86400  # after a step of the clock nothing is deleted for a day
    lab.send(lab.frames(1, [10000]))
    assert lab.engine.prune(1.5 * 86400) == held + 1
    assert size(lab) < sizes[11] / 2, sizes
    assert recount(lab.store, lab).agrees


def test_a_clock_that_was_wrong_once_does_not_keep_reports_for_ever(lab: Lab) -> None:
    """Some are marked as received in ten years; they go with those around them."""
    lab.send(lab.frames(1, range(1, 11)))
    lab.engine.process([Message("t", frame, lab.now + 10 * 365 * 86400) for frame in lab.frames(1, range(11, 21))])
    lab.send(lab.frames(1, range(21, 31)))
    lab.now += 86400
    lab.send(lab.frames(1, range(31, 41)))
    assert lab.prune(lab.now - 3600) == 30
    assert recount(lab.store, lab).agrees


def test_withdrawal_after_retention_reaches_every_bucket(make_lab: MakeLab) -> None:
    """Buckets whose reports the log still has, and older ones: roll-ups know the devices of both."""
    lab = make_lab(harmony_profile(4, quota=60, period=3600), devices=3)
    lab.send([frame for device in (1, 2, 3) for frame in lab.frames(device, range(1, 6), reading=1)])
    old = int(lab.now) // 300 * 300
    lab.now += 3 * 86400
    lab.send([frame for device in (1, 2, 3) for frame in lab.frames(device, range(6, 11), reading=1)])
    assert lab.prune(lab.now - 86400) == 15
    assert lab.send(lab.frames(1, [11], odds=(5, 1))) == {"rule": 1}
    profile = lab.profiles[0]
    (whole,) = estimates(profile, lab.store.device_tallies(profile.id))
    assert (whole.n, whole.withdrawn, whole.devices) == (20, 10, 2)
    by_time = estimates(profile, lab.store.device_tallies(profile.id, bucket_seconds=300), 300)
    assert [(each.start == old, each.n, each.withdrawn, each.devices) for each in by_time] == [
        (True, 10, 5, 2),
        (False, 10, 5, 2),
    ]
    assert all(each.estimates[0].published.influence is not None for each in by_time)
    tallies = lab.store.tallies(profile.id, bucket_seconds=300)
    assert (tallies.withdrawn_plus + tallies.withdrawn_minus).sum() == 10
    assert recount(lab.store, lab).agrees


def test_what_was_bucketed_long_ago_is_forgotten_and_gives_no_room_again(make_lab: MakeLab) -> None:
    """After a month nobody knows how full a bucket was, and nothing goes there any more."""
    lab = make_lab(harmony_profile(4, quota=12, period=3600), devices=1)
    lab.send(lab.frames(1, [1, 2]))
    received = lab.now
    lab.now += 30 * 86400
    lab.send(lab.frames(1, [3]))
    lab.now += 2 * 86400
    assert lab.engine.prune(None) == 0
    assert lab.database.execute("SELECT COUNT(*) FROM bucket_span") == [(0,)]
    lab.engine.process([Message("t", frame, received) for frame in lab.frames(1, range(4, 9))])
    assert read_log(lab.store).bucket.tolist()[3:] == [0] * 5
    assert recount(lab.store, lab).agrees


def test_a_clock_that_was_ahead_before_a_reboot_is_put_right_by_somebodys_word(lab: Lab) -> None:
    lab.send(lab.frames(1, range(1, 51)))
    lab.reboot(off=60, skew=80 * 365 * 86400)
    lab.send(lab.frames(1, range(51, 101)))
    lab.reboot(off=60)
    lab.send(lab.frames(1, [101]))
    lab.now += 40 * 86400
    assert lab.engine.prune(30 * 86400) is None, "for the next eighty years"
    with lab.store.begin() as transaction:
        transaction.set_clock(believe(transaction.clock(), lab.clock()))
    assert lab.engine.prune(30 * 86400) is None
    lab.now += 86400
    assert lab.engine.prune(30 * 86400) == 101
    assert not lab.engine.moment.behind
    lab.reboot(off=60)
    lab.send(lab.frames(1, [102]))
    assert not lab.engine.moment.behind
    assert recount(lab.store, lab).agrees
