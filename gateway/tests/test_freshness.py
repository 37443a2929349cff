# SPDX-License-Identifier: MIT
"""Freshness: repeats, and the token bucket on numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab import MakeLab, Makers

from peel_gateway.engine.clock import Reading, advance
from peel_gateway.engine.recount import recount
from peel_gateway.model.gateway_time import DOUBT, GatewayTime
from peel_gateway.model.messages import Message
from peel_gateway.screening.layers import UNKNOWN_ALLOWANCE, Repeat, last_allowed, repeats
from peel_gateway.screening.numbers import LIMIT, UsedNumbers, enter, missing, pack_holes, settle_to

DAY = 86_400


def array(*values: int) -> Any:
    return np.array(values, np.int64)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 1)), max_size=30),
    st.dictionaries(st.tuples(st.integers(1, 3), st.integers(1, 4)), st.integers(0, 1)),
)
def test_repeats_match_a_plain_loop(reports: list[tuple[int, int, int]], log: dict[tuple[int, int], int]) -> None:
    columns = np.array(reports, np.int64).reshape(-1, 3).T
    logged = np.array([(device, number) in log for device, number, _ in reports], np.bool_)
    bodies = np.array([log.get((device, number), 0) for device, number, _ in reports], np.int64)
    seen = dict(log)
    expected = []
    for *key, content in reports:
        if tuple(key) not in seen:
            seen[key[0], key[1]] = content
            expected.append(Repeat.FRESH)
        else:
            expected.append(Repeat.SAME if seen[key[0], key[1]] == content else Repeat.OTHER)
    device, number, body = columns
    order = np.lexsort((number, device))
    found = np.empty(len(reports), np.int64)
    found[order] = repeats(device[order], number[order], body[order], logged[order], bodies[order])
    assert found.tolist() == expected


def test_numbers_grow_with_time_and_never_run_out_of_range() -> None:
    hour = 3_600_000
    assert last_allowed(array(1), array(0), array(10), array(3600), 100).tolist() == [1 + 100 + 10]
    assert last_allowed(array(1), array(-5), array(10), array(3600), 100).tolist() == [1 + 100 + 10]
    assert last_allowed(array(1), array(10 * hour), array(10), array(3600), 100).tolist() == [1 + 100 + 10 + 110]
    assert last_allowed(array(2**48 - 2), array(hour), array(10**6), array(1), 100).tolist() == [2**48 - 1]


@given(st.lists(st.tuples(st.integers(0, 20 * DAY), st.booleans(), st.sampled_from([0, -1_600_000_000_000]))))
def test_a_device_is_judged_with_the_quota_of_all_time_that_passed(steps: list[tuple[int, bool, int]]) -> None:
    """Steps of true time, some with the machine off; the wall clock is right, or decades behind until it is set."""
    true, boot, off = 1_700_000_000_000, 1, 0
    now = begun = advance(GatewayTime(), Reading(true, boot, true))
    for passed, rebooted, skew in steps:
        true += 1000 * passed
        boot += rebooted
        off = skew if rebooted or skew == 0 else off  # running clocks are only ever put right
        last, now = now, advance(now, Reading(true + off, boot, true))
        assert now.tick >= last.tick and now.wall >= last.wall
        if not now.behind:
            assert now.tick - begun.tick == true - 1_700_000_000_000
        if off == 0:
            assert not now.behind


def test_a_jump_of_the_clock_is_granted_once() -> None:
    steady, day = 1000, 1000 * DAY
    now = advance(GatewayTime(), Reading(100 * day, 1, steady))
    for wall in (190, 100, 190, 100, 190):
        steady += 1000
        now = advance(now, Reading(wall * day, 1, steady))
    assert now.tick == 90 * day + 4000
    assert now.doubtful
    now = advance(now, Reading(190 * day + DOUBT, 1, steady + DOUBT))
    assert not now.doubtful and not now.behind
    now = advance(now, Reading(100 * day, 1, steady + DOUBT))
    assert now.doubtful, "set back is set"
    now = advance(now, Reading(100 * day + DOUBT, 1, steady + 2 * DOUBT))
    assert not now.doubtful and not now.behind
    # What counts across a restart is the last time seen, not the highest.
    now = advance(now, Reading(110 * day, 2, 5))
    assert now.tick == 90 * day + 4000 + DOUBT + 10 * day and not now.behind


@given(st.sets(st.integers(1, 60)), st.integers(0, 30), st.integers(30, 60))
def test_missing_matches_sets(seen: set[int], above: int, upto: int) -> None:
    entered = enter(
        UsedNumbers(array(0), array(0), np.array([b""], object), array(0)), 0 * array(*seen, 61), array(*seen, 61)
    )
    holes = np.array([entered.holes[0], pack_holes(array(1, 100).reshape(1, 2))], object)
    device, number = missing(array(9, 4), array(above, 5), array(upto, 5), holes)
    assert number.tolist() == sorted(set(range(above + 1, upto + 1)) - seen)
    assert set(device.tolist()) <= {9}


def test_a_long_jump_costs_bounded_work() -> None:
    device, number = missing(
        array(1), array(0), array(10**9), np.array([pack_holes(array(1, 10**9).reshape(1, 2))], object)
    )
    assert len(device) == LIMIT and number[-1] == 10**9
    assert settle_to(array(0, 0), array(31, 32)).tolist() == [0, 16]


@pytest.mark.parametrize(
    ("enrolled", "last"), [(0.0, 1 + 64 + 10), (None, 1 + 1024 + 64 + 10), (DAY, 1 + 1024 + 64 + 10)]
)
def test_a_flood_is_refused_and_exposes_the_device(
    make_lab: MakeLab, profiles: Makers, enrolled: float | None, last: int
) -> None:
    """A device that was enrolled just now is granted little; one of which nobody knows, or that is enrolled tomorrow, more."""
    lab = make_lab(profiles[0](4, quota=10))
    lab.enrolled = {} if enrolled is None else {1: lab.now + enrolled}
    lab.engine.load(lab)
    assert lab.send(lab.frames(1, [1, last])) == {"accepted": 2}
    assert lab.send(lab.frames(1, [last + 1])) == {"flood": 1}
    assert lab.store.exposures()[0].evidence["last_allowed"] == last


def test_a_further_bundle_counts_from_its_own_first_number(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](4, quota=10))
    assert lab.send(lab.frames(1, [1])) == {"accepted": 1}
    lab.issued = {1: (5000, lab.now)}
    lab.engine.load(lab)
    assert lab.send(lab.frames(1, [5000, 5074])) == {"accepted": 2}
    assert lab.send(lab.frames(1, [5075])) == {"flood": 1}


def test_a_day_offline_may_be_delivered_at_once(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](4, quota=10))
    lab.engine = lab.make_engine(number_allowance=0)
    assert lab.send(lab.frames(1, [1])) == {"accepted": 1}
    lab.now += 86400
    backlog = lab.frames(1, range(2, 14_401 + 1))
    assert lab.send(backlog) == {"accepted": 14_400}


@pytest.mark.parametrize("days", [0, 40])
def test_a_device_that_begins_far_above_has_no_more_numbers_below_than_its_quota(
    make_lab: MakeLab, profiles: Makers, days: int
) -> None:
    """A new device chooses its first number. Without a floor all below it would be open at once: a vote for each, though a lie's."""
    lab = make_lab(profiles[0](4, quota=100, period=DAY))
    lab.now += days * DAY
    first, entitled = 10**9, UNKNOWN_ALLOWANCE + 100 + 110 * days
    assert lab.send(lab.frames(1, [first])) == {"accepted": 1}
    lab.reopen()
    below = lab.send(lab.frames(1, range(first - entitled - 50, first), reading=1.0))
    assert below == {"accepted": entitled, "stale": 50}
    assert lab.send(lab.frames(1, [1, 2, first // 2], reading=1.0)) == {"stale": 3}
    assert recount(lab.store, lab).agrees


def test_what_was_made_with_a_former_bundle_may_come_after_the_first_of_the_next(
    make_lab: MakeLab, profiles: Makers
) -> None:
    """Never heard, then provisioned again: its newest reports come first, and a receipt that settled the others would lose them."""
    lab = make_lab(profiles[0](4, quota=100, period=DAY))
    bundle = 12 * 10**9
    lab.issued = {1: (bundle, lab.now)}
    lab.engine.load(lab)
    newest, between = bundle + 10**6, UNKNOWN_ALLOWANCE + 100
    assert lab.send(lab.frames(1, [newest])) == {"accepted": 1}
    lab.reopen()
    assert lab.send(lab.frames(1, range(1, 10))) == {"accepted": 9}
    assert lab.send(lab.frames(1, [bundle - 1, bundle, newest - between - 1])) == {"accepted": 1, "stale": 2}
    assert lab.send(lab.frames(1, range(newest - between, newest))) == {"accepted": between}
    assert recount(lab.store, lab).agrees


def test_what_was_made_before_first_contact_may_come_in_any_order(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](4, quota=100, period=DAY))
    lab.now += 40 * DAY
    made = lab.frames(1, range(1, 4001))
    for part in range(4000, 0, -500):
        assert lab.send(made[part - 500 : part]) == {"accepted": 500}
    assert recount(lab.store, lab).agrees


@pytest.mark.slow
def test_an_honest_device_at_full_quota_with_power_cuts_and_a_fast_clock(make_lab: MakeLab, profiles: Makers) -> None:
    """Numbers as the device's own bucket gives them on a clock that is 5% fast: a burst of 2, then 15 per period, skips included."""
    rng = np.random.default_rng(8)
    lab = make_lab(profiles[0](4, quota=16))
    lab.engine = lab.make_engine(number_allowance=0)
    counts: dict[str, int] = {}
    number, level = 1, 2.0
    for _ in range(300):
        step = float(rng.exponential(5))
        lab.now += step
        level = min(2.0, level + 1.05 * 15 * step / 60)
        taken = int(level)
        level -= taken
        lost = (rng.random() < 0.3) * taken  # now and then a block, to a power cut
        numbers = range(number + lost, number + taken)
        number += taken
        for verdict, count in lab.send(lab.frames(1, numbers)).items():
            counts[verdict] = counts.get(verdict, 0) + count
    assert set(counts) == {"accepted"}
    assert recount(lab.store, lab).agrees


def test_a_clock_set_back_takes_no_tokens_and_grants_none_twice(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](4, quota=10))
    lab.engine = lab.make_engine(number_allowance=0)
    lab.send(lab.frames(1, [1]))
    lab.now += 3600
    assert lab.send(lab.frames(1, [600])) == {"accepted": 1}
    lab.skew = -DAY
    assert lab.send(lab.frames(1, [601])) == {"accepted": 1}
    lab.now += 3600
    assert lab.send(lab.frames(1, [1200])) == {"accepted": 1}
    for number, skew in enumerate((0, -DAY, 0, -DAY, 0), start=1):
        lab.skew = skew
        assert lab.send(lab.frames(2, [number])) == {"accepted": 1}
    assert lab.send(lab.frames(1, [1400])) == {"flood": 1}


def test_a_gateway_that_wakes_up_in_1970_blames_nobody_and_loses_nothing(make_lab: MakeLab, profiles: Makers) -> None:
    """Ten days off without a clock: honest backlogs count at once; who took more than its due is seen when the clock is set."""
    lab = make_lab(profiles[0](4, quota=10))
    lab.engine = lab.make_engine(number_allowance=0)
    for device in (1, 2, 3):
        assert lab.send(lab.frames(device, [1])) == {"accepted": 1}
    lab.reboot(off=10 * DAY, skew=-lab.now, number_allowance=0)
    due = 10 * DAY // 6
    assert lab.send(lab.frames(1, range(due - 500, due))) == {"accepted": 500}
    assert lab.engine.moment.behind
    assert lab.send(lab.frames(2, [2 * due])) == {"accepted": 1}
    lab.now += 60
    lab.reboot(off=60, skew=-lab.now, number_allowance=0)  # once more, still wrong
    assert lab.send(lab.frames(1, [due])) == {"accepted": 1}
    lab.now += 3600
    lab.skew = 0
    assert lab.send(lab.frames(1, range(due + 1, due + 600))) == {"accepted": 599}
    assert not lab.engine.moment.behind
    assert lab.send(lab.frames(2, [2])) == {"flood": 1}
    evidence = lab.store.exposures()[0].evidence
    assert evidence["last_allowed"] < evidence["reached"] == 2 * due
    assert lab.send(lab.frames(3, [2 * due])) == {"flood": 1}
    assert recount(lab.store, lab).agrees


def test_a_restart_of_the_gateway_alone_needs_no_wall_clock(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](4, quota=10))
    lab.engine = lab.make_engine(number_allowance=0)
    assert lab.send(lab.frames(1, [1])) == {"accepted": 1}
    lab.now += DAY
    lab.skew = -lab.now
    lab.engine = lab.make_engine(number_allowance=0)
    assert lab.send(lab.frames(1, [DAY // 6])) == {"accepted": 1}
    assert lab.send(lab.frames(1, [2 * DAY // 6])) == {"flood": 1}


def test_an_enrolment_is_not_forgotten_when_the_clock_is_set_back(make_lab: MakeLab, profiles: Makers) -> None:
    lab = make_lab(profiles[0](4, quota=10))
    lab.enrolled = {1: lab.now - 365 * DAY}
    lab.engine.load(lab)
    assert lab.send(lab.frames(1, [1])) == {"accepted": 1}
    lab.skew = -lab.now
    assert lab.send(lab.frames(1, [5_000_000])) == {"accepted": 1}


@pytest.mark.parametrize("behind", [0, 1, 3600, 86400 * 400])
def test_a_fresh_bundle_is_no_flood_for_a_gateway_whose_clock_is_behind(
    make_lab: MakeLab, profiles: Makers, behind: int
) -> None:
    """Its first number is far above all that the former one allowed, and the keys prove that the registry gave it."""
    lab = make_lab(profiles[0](4, quota=10))
    assert lab.send(lab.frames(1, [1, 2])) == {"accepted": 2}
    lab.issued = {1: (10**6, lab.now + behind)}
    lab.provision(1, 10**6)
    assert lab.send(lab.frames(1, [10**6, 10**6 + 1])) == {"accepted": 2}
    assert lab.send(lab.frames(1, [10**6 + 5000])) == {"flood": 1}


@pytest.mark.parametrize(("old", "new"), [(600, 6), (6, 600)])
def test_a_changed_quota_holds_from_the_change_on(make_lab: MakeLab, profiles: Makers, old: int, new: int) -> None:
    """Numbers used under the old profile are not judged by the new quota, be it larger or smaller. Later numbers are."""
    lab = make_lab(profiles[0](4, quota=old, name="old"), profiles[0](4, quota=new, name="new"), devices=1)
    lab.engine = lab.make_engine(number_allowance=0)
    assert lab.send(lab.frames(1, [1])) == {"accepted": 1}
    lab.now += DAY
    number = DAY * old // 60
    assert lab.send(lab.frames(1, [number])) == {"accepted": 1}
    lab.provision(1, number + 1, profile=1)
    lab.now += DAY  # the device changed with the fleet, and was away for a day
    number += DAY * new // 60
    assert lab.send(lab.frames(1, [number])) == {"accepted": 1}
    lab.now += DAY
    lab.reopen()
    lab.engine = lab.make_engine(number_allowance=0)
    number += DAY * new // 60
    assert lab.send(lab.frames(1, [number])) == {"accepted": 1}
    granted = 2 * DAY * max(old, new) // 60 + DAY * new // 60
    assert lab.send(lab.frames(1, [round(1.1 * granted) + 2 * max(old, new) + 100])) == {"flood": 1}
    assert recount(lab.store, lab).agrees


def test_an_old_report_delivered_first_does_not_make_its_device_look_fast(make_lab: MakeLab, profiles: Makers) -> None:
    """A network that replays an old report to a new gateway must not get the device exposed."""
    lab = make_lab(profiles[0](4, quota=10))
    lab.enrolled = {1: lab.now - 86400 * 365}
    lab.engine.load(lab)
    assert lab.send(lab.frames(1, [1])) == {"accepted": 1}
    assert lab.send(lab.frames(1, [5_000_000])) == {"accepted": 1}
    lab.enrolled = {}
    assert lab.send(lab.frames(2, [1])) == {"accepted": 1}
    assert lab.send(lab.frames(2, [5_000_000])) == {"flood": 1}


def test_when_a_device_was_heard_is_right_again_once_the_clock_is(make_lab: MakeLab, profiles: Makers) -> None:
    """The clock was ahead for a while: else no silence of a device that was heard then would be noticed for eighty years."""
    lab = make_lab(profiles[0](4), devices=2)
    lab.skew = 80 * 365 * DAY
    lab.engine.process([Message("t", frame, lab.now + lab.skew) for frame in lab.frames(1, [1]) + lab.frames(2, [1])])
    lab.skew = 0
    lab.now += 60
    lab.send(lab.frames(1, [3]))
    lab.now += 60
    lab.send(lab.frames(1, [2]))
    assert lab.store.devices().last_received[0] == lab.now * 1000
    lab.reboot(off=10, skew=-DAY)  # behind: nobody knows how late it is, but silence is looked for by the same clock
    lab.engine.process([Message("t", lab.frames(1, [4])[0], lab.now + lab.skew)])
    assert lab.store.devices().last_received[0] == (lab.now - DAY) * 1000
