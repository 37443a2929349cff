# SPDX-License-Identifier: MIT
"""Room in a bucket: a device's part of any time bucket is bounded by its quota, however its reports are delivered."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lab import Lab, Makers

from peel_gateway.engine.recount import recount
from peel_gateway.model.message import Message
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.filing import UNFILED, room

BUCKET = 300
QUOTA, PERIOD = 60, 3600
FAIR = QUOTA * BUCKET / PERIOD
"""Reports per bucket of a device that uses all of its quota."""
DAY = 86_400

MakeLab = Callable[..., Any]


@pytest.fixture
def fleet(make_lab: MakeLab, profiles: Makers) -> Callable[[int], Any]:
    """Return a maker of labs whose devices were enrolled a week ago and have a small quota."""

    def make(devices: int) -> Any:
        lab = make_lab(profiles[0](4, quota=QUOTA, period=PERIOD), devices=devices)
        lab.enrolled = dict.fromkeys(lab.ids.tolist(), lab.now - 7 * DAY)
        lab.engine = lab.make_engine()
        return lab

    return make


def held(lab: Lab, device: int | None = None) -> Counter[tuple[int, int]]:
    """Reports that count by device and bucket, from the log."""
    log = lab.store.log(device)
    counted = (log.verdict == Verdict.ACCEPTED) & (log.bucket != UNFILED)
    return Counter(zip(log.device[counted].tolist(), log.bucket[counted].tolist(), strict=True))


def this_bucket(lab: Lab) -> int:
    return int(lab.now // BUCKET * BUCKET)


@pytest.mark.parametrize("delivery", ["at once", "ascending, one by one", "descending, one by one"])
def test_a_hoard_cannot_own_a_bucket(fleet: Callable[[int], Any], delivery: str) -> None:
    """One of 31 devices saves its numbers for days and sends them all in one bucket; the others send as ever."""
    lab = fleet(31)
    insider, hoard = 31, 400
    lab.now = this_bucket(lab) + 1.0
    lab.send([frame for device in range(1, 31) for frame in lab.frames(device, range(1, int(FAIR) + 1), 0.0)])
    frames = lab.frames(insider, range(1, hoard + 1), 1.0)
    if delivery == "at once":
        lab.send(frames)
    else:
        for frame in frames if delivery.startswith("ascending") else reversed(frames):
            lab.send([frame])
    counts = held(lab)
    assert sum(count for (device, _), count in counts.items() if device == insider) == hoard, "nobody is refused"
    largest = max(count for (device, _), count in counts.items() if device == insider)
    assert largest <= int(room(np.array([QUOTA]), np.array([PERIOD]), BUCKET)[0]) == 6
    here = {device: counts[device, this_bucket(lab)] for device in range(1, 32)}
    assert here[insider] / here[1] <= 1.5
    assert recount(lab.store, lab).agrees


@pytest.mark.parametrize("delivery", ["at once", "one by one", "a bucket each"])
@pytest.mark.parametrize("quota", [24, 96, 250, 300])
def test_nor_where_the_quota_has_less_than_a_report_for_a_bucket(
    make_lab: MakeLab, profiles: Makers, quota: int, delivery: str
) -> None:
    """A device that reports by the hour, and saves up its numbers, holds no more of any hour than about two like it."""
    lab = make_lab(profiles[0](4, quota=quota, period=DAY), devices=1)
    lab.enrolled = {1: lab.now - 7 * DAY}
    lab.engine = lab.make_engine()
    hoard = lab.frames(1, range(1, 73), 1.0)
    for batch in [hoard] if delivery == "at once" else [[frame] for frame in hoard]:
        lab.send(batch)
        lab.now += BUCKET * (delivery == "a bucket each")
    filed = held(lab)
    assert sum(filed.values()) == len(hoard), "nobody is refused"
    for seconds in (3600, DAY):
        most = max(Counter(bucket // seconds for _, bucket in filed.elements()).values())
        assert most <= 2 * max(1, 1.1 * quota * seconds / DAY)
    assert recount(lab.store, lab).agrees


@pytest.mark.parametrize("quota", [24, 96, 250, 300])
def test_punctual_reports_are_filed_when_they_come(make_lab: MakeLab, profiles: Makers, quota: int) -> None:
    lab = make_lab(profiles[0](4, quota=quota, period=DAY), devices=1)
    lab.enrolled = {1: lab.now - 7 * DAY}
    lab.engine = lab.make_engine()
    for number in range(1, 40):
        lab.now += DAY / quota
        lab.send(lab.frames(1, [number]))
        assert lab.store.log(1).bucket[-1] == this_bucket(lab), number


def test_without_a_bound_the_hoard_owns_the_bucket(
    fleet: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the bound is for: the same attack against filing by receipt."""
    monkeypatch.setattr("peel_gateway.screening.filing.room", lambda quota, period, seconds: quota * 10**6)
    lab = fleet(2)
    lab.send(lab.frames(1, range(1, 6)) + lab.frames(2, range(1, 401), 1.0))
    assert held(lab)[2, this_bucket(lab)] == 400


def test_a_backlog_fills_the_buckets_of_the_outage(fleet: Callable[[int], Any]) -> None:
    lab = fleet(1)
    lab.now = this_bucket(lab) + 1.0
    before = this_bucket(lab)
    lab.send(lab.frames(1, range(1, 6)))
    lab.now += 6 * BUCKET
    verdicts = lab.send(lab.frames(1, range(6, 36)))  # thirty reports of half an hour, at full quota
    assert verdicts == {"accepted": 30}
    counts = {bucket: count for (_, bucket), count in held(lab).items()}
    assert counts[before] == 5
    outage = [counts[before + step * BUCKET] for step in range(1, 7) if before + step * BUCKET in counts]
    assert sum(outage) == 30
    assert max(outage) <= 6
    assert recount(lab.store, lab).agrees


def test_newer_numbers_take_the_newer_buckets(fleet: Callable[[int], Any]) -> None:
    lab = fleet(1)
    lab.send(lab.frames(1, range(1, 40)))
    log = lab.store.log()
    order = np.argsort(log.number)
    assert (np.diff(log.bucket[order]) >= 0).all()
    assert len(np.unique(log.bucket)) > 5


def test_before_its_enrolment_a_device_has_no_room(fleet: Callable[[int], Any]) -> None:
    """What a new device uses at once has no room in time. It counts, under no time."""
    lab = fleet(1)
    lab.enrolled = {1: lab.now - BUCKET}
    lab.engine = lab.make_engine()
    assert lab.send(lab.frames(1, range(1, QUOTA + 1))) == {"accepted": QUOTA}
    log = lab.store.log()
    begin = (lab.now - BUCKET) // BUCKET * BUCKET
    assert set(log.bucket.tolist()) == {UNFILED, begin, begin + BUCKET}
    (whole,) = lab.estimates()
    assert whole.n == QUOTA
    timed = lab.store.tallies(lab.profiles[0].id, bucket_seconds=BUCKET)
    assert int((timed.plus + timed.minus).sum()) == 12
    assert UNFILED not in timed.bucket
    assert recount(lab.store, lab).agrees


@pytest.mark.parametrize("skew", [-3 * DAY, 3 * DAY])
def test_a_clock_that_is_set_moves_nobody_beyond_the_bound(fleet: Callable[[int], Any], skew: float) -> None:
    lab = fleet(1)
    lab.send(lab.frames(1, range(1, 6)))
    received = lab.now + skew
    messages = [
        message.__class__(message.topic, message.payload, received)
        for message in lab.messages(lab.frames(1, range(6, 40)))
    ]
    lab.skew = skew
    report = lab.engine.process(messages)
    assert set(report.counts) == {Verdict.ACCEPTED}
    assert max(held(lab).values()) <= 6
    assert recount(lab.store, lab).agrees


@pytest.mark.parametrize("seed", range(12))
def test_in_any_order_of_delivery(fleet: Callable[[int], Any], seed: int) -> None:
    """Whatever is delivered when, no bucket holds more than there is room for, none is later than the receipt, and nothing is lost."""
    rng = np.random.default_rng(seed)
    lab = fleet(2)
    lab.enrolled = dict.fromkeys((1, 2), lab.now - int(rng.integers(0, 2 * DAY)))
    lab.engine = lab.make_engine()
    numbers = rng.permutation(np.arange(1, 61)).tolist()
    receipts: dict[tuple[int, int], int] = {}
    while numbers:
        lab.now += int(rng.integers(0, 2 * BUCKET))
        size = int(rng.integers(1, 30))
        taken, numbers = numbers[:size], numbers[size:]
        receipts |= {(device, number): this_bucket(lab) for device in (1, 2) for number in taken}
        lab.send([frame for device in (1, 2) for frame in lab.frames(device, taken)])
    assert max(held(lab).values(), default=0) <= 6
    log = lab.store.log()
    assert len(log) == 120
    for device, number, bucket in zip(log.device.tolist(), log.number.tolist(), log.bucket.tolist(), strict=True):
        assert bucket <= receipts[device, number]
    assert recount(lab.store, lab).agrees


@pytest.mark.slow
def test_a_long_backlog_that_trickles_in_is_filed_to_its_end(make_lab: MakeLab, profiles: Makers) -> None:
    """One report per bucket is all that there is room for; a thousand buckets of backlog come one message at a time."""
    lab = make_lab(profiles[0](4, quota=1, period=BUCKET * 2), devices=1)
    lab.enrolled = {1: lab.now - 2000 * BUCKET}
    lab.engine = lab.make_engine()
    for frame in lab.frames(1, range(1, 701)):
        lab.send([frame])
    counts = held(lab)
    assert len(counts) == 700
    assert set(counts.values()) == {1}


def test_retention_leaves_room_for_what_comes_late(fleet: Callable[[int], Lab]) -> None:
    """Numbers that come after higher ones, and are young when those are old, must not be taken for stale."""
    lab = fleet(1)
    lab.send(lab.frames(1, [*range(1, 21), *range(40, 60)]))
    lab.now += DAY
    lab.send(lab.frames(1, range(21, 31)))
    assert lab.prune(lab.now - 3600) == 40
    assert lab.send(lab.frames(1, range(31, 40))) == {"accepted": 9}
    assert recount(lab.store, lab).agrees


def test_a_clock_that_was_ahead_for_a_while_costs_nothing_later(fleet: Callable[[int], Any]) -> None:
    """Two buckets in eighty years' time, then right again: every batch since would look through the eighty years, device by device."""
    lab, numbers = fleet(3), itertools.count(1)
    most = int(room(np.array(QUOTA), np.array(PERIOD), BUCKET))
    lab.now = this_bucket(lab) + 1.0

    def send_all_that_there_is_room_for() -> float:
        using = list(itertools.islice(numbers, most))
        frames = [frame for device in lab.ids.tolist() for frame in lab.frames(device, using)]
        messages = [Message("t", frame, lab.now + lab.skew) for frame in frames]
        started = time.monotonic()
        assert lab.engine.process(messages).counts == {Verdict.ACCEPTED: len(frames)}
        return time.monotonic() - started

    for _ in range(2):
        send_all_that_there_is_room_for()
        lab.now += BUCKET
    far = 80 * 365 * DAY
    for skew in (far, far + BUCKET, 0, 0):  # the bucket before the jump, and the one after it, are the same one
        lab.skew = skew
        assert send_all_that_there_is_room_for() < 2
    for _ in range(3):
        lab.now += BUCKET
        assert send_all_that_there_is_room_for() < 2
    assert max(held(lab).values()) == most
    assert set(lab.store.devices().filed_bucket.tolist()) == {this_bucket(lab)}, "or they are looked up for ever"
    assert recount(lab.store, lab).agrees


def test_a_device_first_heard_while_the_clock_was_ahead_has_room_once_it_is_right(fleet: Callable[[int], Any]) -> None:
    """Of whom nobody knows when it was enrolled, its first report says it; that must not be in eighty years."""
    lab = fleet(1)
    lab.enrolled = {}
    lab.engine = lab.make_engine()
    lab.skew = 80 * 365 * DAY
    lab.engine.process([Message("t", lab.frames(1, [1])[0], lab.now + lab.skew)])
    lab.skew = 0
    lab.send([*lab.frames(1, [2]), *lab.frames(1, [3])])
    assert held(lab)[1, this_bucket(lab)] == 2


def test_a_clock_beyond_what_the_log_can_hold_files_under_no_time(fleet: Callable[[int], Any]) -> None:
    """Cut to 32 bits the log would name another bucket than the tallies: what is withdrawn would leave the wrong one."""
    lab = fleet(2)
    lab.skew = 2**32
    for number in (1, 2):
        lab.engine.process([Message("t", lab.frames(device, [number])[0], lab.now + lab.skew) for device in (1, 2)])
        lab.now += BUCKET
    lab.send([lab.sealed(1, 3, rule=5)])
    assert set(lab.store.log(2).bucket.tolist()) == {UNFILED}
    assert recount(lab.store, lab).agrees
    lab.skew = 0
    lab.send(lab.frames(2, [3]))
    assert held(lab) == {(2, this_bucket(lab)): 1}
    assert recount(lab.store, lab).agrees
