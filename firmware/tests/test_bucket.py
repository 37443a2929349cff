# SPDX-License-Identifier: MIT
"""The token bucket never gives more than its capacity and time allow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from peel_device.bucket import MICRO, Bucket


@given(
    rate=st.integers(1, 50),
    capacity=st.integers(1, 50),
    period=st.integers(1, 5000),
    steps=st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 3)), max_size=60),
)
def test_never_more_than_capacity_plus_rate_times_time(
    rate: int, capacity: int, period: int, steps: list[tuple[int, int]]
) -> None:
    bucket = Bucket(rate, period, capacity)
    bucket.start(0, capacity * MICRO)
    now = taken = 0
    for wait, most in steps:
        now += wait
        bucket.fill(now)
        got = bucket.take(most)
        assert 0 <= got <= most
        taken += got
        assert taken * (period * 1000 + 1) <= capacity * (period * 1000 + 1) + now * rate


@given(quota=st.integers(1, 10**6), period=st.integers(1, 10**8), level=st.integers(0, 10**12))
def test_saving_and_restoring_never_adds(quota: int, period: int, level: int) -> None:
    bucket = Bucket(quota, period, quota)
    bucket.start(0, level)
    assert bucket.micro_tokens() <= min(level, quota * MICRO)


@given(quota=st.integers(1, 1000), period=st.integers(1, 10**6))
def test_wait_is_exact(quota: int, period: int) -> None:
    bucket = Bucket(quota, period, quota)
    bucket.start(0, 0)
    wait = bucket.wait()
    bucket.fill(wait - 1)
    assert not bucket.take(1)
    bucket.fill(wait)
    assert bucket.take(1)
