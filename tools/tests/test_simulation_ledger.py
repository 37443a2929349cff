# SPDX-License-Identifier: MIT
"""Simulated devices use no number twice and stay within their quota."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from peel_core import Profile, make_profile
from peel_tools.simulation.fleet import Ledger


def _profile(quota: int, period: int, **more: object) -> Profile:
    attributes = [{"name": name, "kind": "mean", "low": 0, "high": 1} for name in "ab"]
    return make_profile(
        {
            "name": "p",
            "epsilon": 1,
            "verify": False,
            "seed": 1,
            "quota": quota,
            "period": period,
            "attribute": attributes,
            **more,
        }
    )


@given(
    quota=st.integers(1, 300),
    burst=st.integers(1, 9),
    steps=st.lists(st.tuples(st.floats(0, 50), st.booleans()), min_size=1, max_size=60),
)
def test_numbers_grow_and_stay_within_the_quota(quota: int, burst: int, steps: list[tuple[float, bool]]) -> None:
    """The bound is the specification's: in any window of a period at most quota, skipped numbers included."""
    ledger = Ledger(_profile(quota, 60), np.zeros(2, np.int64), now=100.0)
    now, last = 100.0, 0
    spent: list[float] = []
    for pause, cut in steps:
        now += pause
        ledger.refill(now)
        if ledger.able(burst)[0]:
            before = ledger.reserved[0]
            numbers = ledger.take(np.array([0]), burst)[0]
            assert numbers.tolist() == list(range(int(numbers[0]), int(numbers[0]) + burst))
            assert numbers[0] > last
            last = int(numbers[-1])
            spent += [now] * int(ledger.reserved[0] - before)
            assert last <= ledger.reserved[0]
            assert len(spent) <= quota or now - spent[-quota - 1] >= 60
        if cut:
            ledger.cut_power(np.array([0]))
            assert ledger.next[0] == ledger.reserved[0] + 1
    assert ledger.reserved[1] == 0


def test_a_device_that_continues_starts_behind_its_last_block_with_nothing_saved() -> None:
    ledger = Ledger(_profile(80, 60), np.array([40, 0]), now=0.0)
    assert ledger.able(1).tolist() == [False, True]
    ledger.refill(60.0)
    assert ledger.take(np.array([0]), 1)[0, 0] == 41


def test_no_number_above_the_lifetime_is_used() -> None:
    ledger = Ledger(_profile(800, 60, lifetime=7), np.array([0, 5]), now=0.0)
    ledger.refill(60.0)
    assert ledger.take(np.array([0]), 5).tolist() == [[1, 2, 3, 4, 5]]
    assert ledger.reserved.tolist() == [7, 5]
    assert ledger.able(2).tolist() == [True, True]
    assert ledger.able(3).tolist() == [False, False]
