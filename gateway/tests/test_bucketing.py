# SPDX-License-Identifier: MIT
"""Room in a bucket: what a device has in any time bucket is a run of its numbers no longer than its quota's part, however it delivers."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lab import Lab, Makers

from peel_core import index_many
from peel_gateway.engine.recount import recount
from peel_gateway.model.grouping import extremes
from peel_gateway.model.messages import Message
from peel_gateway.model.verdict import Verdict
from peel_gateway.screening.bucketing import NO_BUCKET, bucket_capacity
from peel_gateway.storage.records import read_log

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
    log = read_log(lab.store, device)
    counted = (log.verdict == Verdict.ACCEPTED) & (log.bucket != NO_BUCKET)
    return Counter(zip(log.device[counted].tolist(), log.bucket[counted].tolist(), strict=True))


def widest_run(lab: Lab) -> int:
    """The most consecutive numbers that the reports of one device in one bucket are spread over, from the log."""
    log = read_log(lab.store)
    counted = (log.verdict == Verdict.ACCEPTED) & (log.bucket != NO_BUCKET)
    _, lowest, highest = extremes([log.device[counted], log.bucket[counted]], log.number[counted], log.number[counted])
    return int((highest - lowest).max(initial=-1)) + 1


def this_bucket(lab: Lab) -> int:
    return int(lab.now // BUCKET * BUCKET)


@pytest.mark.parametrize(
    "delivery",
    [
        "at once",
        *(pytest.param(f"{order}, one by one", marks=pytest.mark.slow) for order in ("ascending", "descending")),
    ],
)
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
    assert largest <= int(bucket_capacity(np.array([QUOTA]), np.array([PERIOD]), BUCKET)[0]) == 6
    here = {device: counts[device, this_bucket(lab)] for device in range(1, 32)}
    assert here[insider] / here[1] <= 1.5
    assert recount(lab.store, lab).agrees


@pytest.mark.slow
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
    bucketed = held(lab)
    assert sum(bucketed.values()) == len(hoard), "nobody is refused"
    for seconds in (3600, DAY):
        most = max(Counter(bucket // seconds for _, bucket in bucketed.elements()).values())
        assert most <= 2 * max(1, 1.1 * quota * seconds / DAY)
    assert recount(lab.store, lab).agrees


@pytest.mark.parametrize("quota", [24, 96, 250, 300])
def test_punctual_reports_are_bucketed_when_they_come(make_lab: MakeLab, profiles: Makers, quota: int) -> None:
    lab = make_lab(profiles[0](4, quota=quota, period=DAY), devices=1)
    lab.enrolled = {1: lab.now - 7 * DAY}
    lab.engine = lab.make_engine()
    for number in range(1, 40):
        lab.now += DAY / quota
        lab.send(lab.frames(1, [number]))
        assert read_log(lab.store, 1).bucket[-1] == this_bucket(lab), number


def test_without_a_bound_the_hoard_owns_the_bucket(
    fleet: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same attack succeeds where reports are bucketed by time of receipt alone."""
    monkeypatch.setattr(
        "peel_gateway.screening.bucketing.bucket_capacity", lambda quota, period, seconds: quota * 10**6
    )
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
    log = read_log(lab.store)
    order = np.argsort(log.number)
    assert (np.diff(log.bucket[order]) >= 0).all()
    assert len(np.unique(log.bucket)) > 5


def test_before_its_enrolment_a_device_has_no_room(fleet: Callable[[int], Any]) -> None:
    """Numbers that a new device uses at once fit into no bucket. They count, without a time."""
    lab = fleet(1)
    lab.enrolled = {1: lab.now - BUCKET}
    lab.engine = lab.make_engine()
    assert lab.send(lab.frames(1, range(1, QUOTA + 1))) == {"accepted": QUOTA}
    log = read_log(lab.store)
    begin = (lab.now - BUCKET) // BUCKET * BUCKET
    assert set(log.bucket.tolist()) == {NO_BUCKET, begin, begin + BUCKET}
    (whole,) = lab.estimates()
    assert whole.n == QUOTA
    timed = lab.store.tallies(lab.profiles[0].id, bucket_seconds=BUCKET)
    assert int((timed.plus + timed.minus).sum()) == 12
    assert NO_BUCKET not in timed.bucket
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
    assert widest_run(lab) <= 6
    log = read_log(lab.store)
    assert len(log) == 120
    for device, number, bucket in zip(log.device.tolist(), log.number.tolist(), log.bucket.tolist(), strict=True):
        assert bucket <= receipts[device, number]
    assert recount(lab.store, lab).agrees


def chosen_of(lab: Lab, numbers: range, attribute: int = 0) -> list[int]:
    """The numbers that assign one attribute to device 1."""
    index = index_many(lab.profiles[0], np.full(len(numbers), 1), lab.keys_of(1, numbers), list(numbers))
    return [number for number, assigned in zip(numbers, index.tolist(), strict=True) if assigned == attribute]


@pytest.mark.parametrize("rest", ["before", "in the same bucket", "a bucket later", "never"])
@pytest.mark.parametrize("delivery", ["at once", "ascending", "descending"])
def test_chosen_numbers_do_not_come_together(fleet: Callable[[int], Any], rest: str, delivery: str) -> None:
    """An insider saves up numbers and sends those of one attribute so that they would be alone in a bucket."""
    lab = fleet(1)
    lab.now = this_bucket(lab) + 1.0
    chosen = chosen_of(lab, range(1, 61))[::2][:6]
    others = lab.frames(1, sorted(set(range(1, 61)) - set(chosen)))
    if rest == "before":
        lab.send(others)
        lab.now += BUCKET
    target = this_bucket(lab)
    frames = lab.frames(1, chosen if delivery == "ascending" else chosen[::-1])
    for batch in [frames] if delivery == "at once" else [[frame] for frame in frames]:
        lab.send(batch)
    if rest in ("in the same bucket", "a bucket later"):
        lab.now += BUCKET * (rest == "a bucket later")
        lab.send(others)
    log = read_log(lab.store)
    together = [number for number in chosen if log.bucket[log.number == number] == target]
    assert len(chosen) == 6
    assert len(together) < 4, "no more than six consecutive numbers have"
    assert widest_run(lab) <= 6
    assert recount(lab.store, lab).agrees


def test_what_is_left_of_a_bucket_cannot_be_filled_with_chosen_numbers(fleet: Callable[[int], Any]) -> None:
    """All numbers in order, none missing: each bucket is filled, and beyond that only numbers of one attribute are sent."""
    lab, chosen = fleet(1), set(chosen_of(fleet(1), range(1, 200)))
    target, number = this_bucket(lab), 2
    lab.send(lab.frames(1, [1]))
    while number < 190:
        lab.now += BUCKET
        lab.send(lab.frames(1, range(number, number + 6)))
        number += 6
        while number in chosen:
            lab.send(lab.frames(1, [number]))
            number += 1
    assert held(lab)[1, target] == 1
    assert widest_run(lab) <= 6


def test_a_fresh_bundle_gives_no_second_run(fleet: Callable[[int], Any]) -> None:
    """Numbers of a further bundle, and late ones of the former, are far apart: they do not share a bucket."""
    lab = fleet(1)
    lab.send(lab.frames(1, [1, 2, 5]))
    lab.provision(1, 1000)
    lab.issued = {1: (1000, lab.now)}
    lab.engine = lab.make_engine()
    assert lab.send(lab.frames(1, [1000, 1001])) == {"accepted": 2}
    assert lab.send(lab.frames(1, [3, 4, 6, 7])) == {"accepted": 4}
    lab.now += BUCKET
    lab.send(lab.frames(1, [1002, 1003, 8]))
    assert widest_run(lab) <= 6
    assert held(lab)[1, this_bucket(lab)] == 2
    assert recount(lab.store, lab).agrees


Sent = list[tuple[int, list[int]]]
"""Batches as (bucket, numbers)."""


def bucketed_by_count(sent: Sent, most: int) -> dict[int, int]:
    """Buckets by number where only reports are counted: the latest one that holds fewer than `most`, newer numbers first."""
    filled: Counter[int] = Counter()
    result: dict[int, int] = {}
    for bucket, numbers in sent:
        for number in sorted(set(numbers) - result.keys(), reverse=True):
            place = next(place for place in itertools.count(bucket, -1) if filled[place] < most)
            filled[place] += 1
            result[number] = place
    return result


PUNCTUAL: Sent = [(n // 5, [n + 1]) for n in range(40)]
OUTAGE = list(range(41, 101))
"""Twelve buckets of reports; the device is back in the bucket after them."""
AFTER: Sent = [(21 + n // 5, [101 + n]) for n in range(20)]
IN_ORDER: dict[str, Sent] = {
    "in time": [*PUNCTUAL, *[(8 + n // 5, [n + 41]) for n in range(40)]],
    "again": [batch for batch in PUNCTUAL for _ in range(2)],
    "in pairs": [(n // 3, [2 * n + 1, 2 * n + 2]) for n in range(30)],
    "a backlog at once": [*PUNCTUAL, (20, OUTAGE), *AFTER],
    "a backlog in messages of twelve": [*PUNCTUAL, *[(20, OUTAGE[n : n + 12]) for n in range(0, 60, 12)], *AFTER],
    "a backlog one by one": [*PUNCTUAL, *[(20, [number]) for number in OUTAGE], *AFTER],
    "the end of a backlog": [*PUNCTUAL, (20, OUTAGE[30:36]), (20, OUTAGE[36:]), *AFTER],
}
DISORDERED: dict[str, Sent] = {
    "a backlog from its end": [*PUNCTUAL, *[(20, [number]) for number in reversed(OUTAGE)], *AFTER],
    "a backlog between new reports": [
        *PUNCTUAL, (20, OUTAGE[:20]), *[(21 + n // 5, [101 + n, *OUTAGE[20 + 2 * n : 22 + 2 * n]]) for n in range(20)],
    ],
    "overtaken": [(n // 5, [(n ^ 1) + 1]) for n in range(80)],
    "late by a bucket": sorted((n // 5 + (n % 7 == 3), [n + 1]) for n in range(80)),
}  # fmt: skip


def bucketed(lab: Lab, sent: Sent) -> dict[int, int]:
    """Send batches; return buckets by number."""
    begin = this_bucket(lab)
    for bucket, numbers in sent:
        lab.now = begin + bucket * BUCKET + 1.0
        lab.send(lab.frames(1, numbers))
    log = read_log(lab.store)
    assert NO_BUCKET not in log.bucket
    assert widest_run(lab) <= 6
    assert recount(lab.store, lab).agrees
    return dict(zip(log.number.tolist(), ((log.bucket - begin) // BUCKET).tolist(), strict=True))


@pytest.mark.parametrize("delivery", IN_ORDER)
def test_reports_in_order_are_bucketed_as_if_only_counted(fleet: Callable[[int], Any], delivery: str) -> None:
    """The numbers of a device that sends in order, as the firmware does, are a run anyway."""
    assert bucketed(fleet(1), IN_ORDER[delivery]) == bucketed_by_count(IN_ORDER[delivery], most=6)


@pytest.mark.parametrize("delivery", DISORDERED)
def test_honest_disorder_is_bucketed_about_as_well(fleet: Callable[[int], Any], delivery: str) -> None:
    """Buckets are as near to those in which the reports were made as if reports were only counted."""
    sent = DISORDERED[delivery]

    def errors(buckets: dict[int, int]) -> list[int]:
        return [abs(bucket - (number - 1) // 5 - (number > 100)) for number, bucket in buckets.items()]

    found, expected = errors(bucketed(fleet(1), sent)), errors(bucketed_by_count(sent, most=6))
    assert len(found) == len(expected)
    assert max(found) <= max(expected)
    assert np.mean(found) <= np.mean(expected) + 0.1


@pytest.mark.slow
def test_a_long_backlog_that_trickles_in_is_bucketed_to_its_end(make_lab: MakeLab, profiles: Makers) -> None:
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
    most = int(bucket_capacity(np.array(QUOTA), np.array(PERIOD), BUCKET))
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
    assert set(lab.store.devices().newest_bucket.tolist()) == {this_bucket(lab)}, "or they are looked up for ever"
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
    assert set(read_log(lab.store, 2).bucket.tolist()) == {NO_BUCKET}
    assert recount(lab.store, lab).agrees
    lab.skew = 0
    lab.send(lab.frames(2, [3]))
    assert held(lab) == {(2, this_bucket(lab)): 1}
    assert recount(lab.store, lab).agrees
