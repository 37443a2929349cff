"""Freshness: repeats, and the token bucket on numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from peel_gateway.freshness import Repeat, advance_tick, last_allowed, repeats
from peel_gateway.gaps import LIMIT, missing, settle_to
from peel_gateway.recount import recount

Makers = tuple[Callable[..., Any], Callable[..., Any]]


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
    assert repeats(device, number, body, logged, bodies).tolist() == expected


def test_numbers_grow_with_time_and_never_run_out_of_range() -> None:
    hour = 3_600_000
    assert last_allowed(array(1), array(0), array(10), array(3600), 100).tolist() == [1 + 100 + 20]
    assert last_allowed(array(1), array(-5), array(10), array(3600), 100).tolist() == [1 + 100 + 20]
    assert last_allowed(array(1), array(10 * hour), array(10), array(3600), 100).tolist() == [1 + 100 + 20 + 110]
    assert last_allowed(array(2**48 - 2), array(hour), array(10**6), array(1), 100).tolist() == [2**48 - 1]


def test_the_tick_never_runs_backwards() -> None:
    assert advance_tick(0, 0, 5_000_000) == 0
    assert advance_tick(7, 100, 150) == 57
    assert advance_tick(7, 100, 50) == 7
    assert advance_tick(7, 50, 60) == 17


@given(st.sets(st.integers(1, 60)), st.integers(0, 30), st.integers(30, 60))
def test_missing_matches_sets(seen: set[int], above: int, upto: int) -> None:
    numbers = np.array(sorted(seen), np.int64)
    device, number = missing(array(9, 4), array(above, 5), array(upto, 5), np.full(len(numbers), 9), numbers)
    assert set(number.tolist()) == set(range(above + 1, upto + 1)) - seen
    assert set(device.tolist()) <= {9}


def test_a_long_jump_costs_bounded_work() -> None:
    device, number = missing(array(1), array(0), array(10**9), array(), array())
    assert len(device) == LIMIT and number[-1] == 10**9
    assert settle_to(array(0, 0), array(31, 32)).tolist() == [0, 16]


def test_a_flood_is_refused_and_exposes_the_device(make_lab: Callable[..., Any], profiles: Makers) -> None:
    lab = make_lab(profiles[0](4, quota=10))
    assert lab.send(lab.frames(1, [1, 1045])) == {"accepted": 2}
    assert lab.send(lab.frames(1, [1046])) == {"flood": 1}
    assert lab.store.exposures()[0].evidence["last_allowed"] == 1045


def test_a_day_offline_may_be_delivered_at_once(make_lab: Callable[..., Any], profiles: Makers) -> None:
    lab = make_lab(profiles[0](4, quota=10))
    lab.engine = lab.make_engine(number_allowance=0)
    assert lab.send(lab.frames(1, [1])) == {"accepted": 1}
    lab.now += 86400
    backlog = lab.frames(1, range(2, 14_401 + 1))
    assert lab.send(backlog) == {"accepted": 14_400}


def test_an_honest_device_at_full_quota_with_power_cuts_and_a_fast_clock(
    make_lab: Callable[..., Any], profiles: Makers
) -> None:
    """Numbers as the device's own bucket gives them: quota per period of its clock (5% fast), saved up to the quota, skips included."""
    rng = np.random.default_rng(8)
    lab = make_lab(profiles[0](4, quota=16))
    lab.engine = lab.make_engine(number_allowance=0)
    counts: dict[str, int] = {}
    number, level = 1, 16.0
    for _ in range(300):
        step = float(rng.exponential(60))
        lab.now += step
        level = min(16.0, level + 1.05 * 16 * step / 60)
        taken = int(level)
        level -= taken
        numbers = range(
            number + (rng.random() < 0.3) * taken, number + taken
        )  # now and then a block is lost to a power cut
        number += taken
        for verdict, count in lab.send(lab.frames(1, numbers)).items():
            counts[verdict] = counts.get(verdict, 0) + count
    assert set(counts) == {"accepted"}
    assert recount(lab.store, lab).agrees


def test_a_clock_set_back_takes_no_tokens(make_lab: Callable[..., Any], profiles: Makers) -> None:
    lab = make_lab(profiles[0](4, quota=10))
    lab.engine = lab.make_engine(number_allowance=0)
    lab.send(lab.frames(1, [1]))
    lab.now += 3600
    assert lab.send(lab.frames(1, [600])) == {"accepted": 1}
    lab.now -= 86400
    assert lab.send(lab.frames(1, [601])) == {"accepted": 1}
    lab.now += 60
    assert lab.send(lab.frames(1, range(602, 612))) == {"accepted": 10}
    assert lab.send(lab.frames(1, [2000])) == {"flood": 1}


def test_an_old_report_delivered_first_does_not_make_its_device_look_fast(
    make_lab: Callable[..., Any], profiles: Makers
) -> None:
    """A network that replays an old report to a new gateway must not get the device exposed."""
    lab = make_lab(profiles[0](4, quota=10))
    lab.enrolled = {1: lab.now - 86400 * 365}
    lab.engine.load(lab)
    assert lab.send(lab.frames(1, [1])) == {"accepted": 1}
    assert lab.send(lab.frames(1, [5_000_000])) == {"accepted": 1}
    lab.enrolled = {}
    assert lab.send(lab.frames(2, [1])) == {"accepted": 1}
    assert lab.send(lab.frames(2, [5_000_000])) == {"flood": 1}
