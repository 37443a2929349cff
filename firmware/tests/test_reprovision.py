# SPDX-License-Identifier: MIT
"""A board that is erased and provisioned again: registry and ledger together never use a number twice."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from issuing import ENROLLED, issued

from peel_core import burst_size
from peel_device import ledger as device_ledger
from peel_device.ledger import Ledger, block_size
from peel_gateway.fleet.folder import IssuedBundle
from peel_gateway.model.gateway_time import RATE_SLACK
from peel_gateway.screening.layers import last_allowed
from power_cut import ManualClock, MemoryFiles

ALLOWANCE = 64


def lifetime(first: int, quota: int, period: int, seconds: int, fast: float) -> list[int]:
    """Return all numbers that a greedy device takes in so much time on an empty flash, with a clock that runs fast."""
    clock = ManualClock()
    ledger = Ledger(MemoryFiles(), "ledger", clock, 1, quota, period, block_size(quota, False))
    ledger.start(first, False)
    end = int(seconds * 1000 * fast)
    numbers = []
    while True:
        number = ledger.take()
        if number is not None:
            numbers.append(number)
            continue
        if clock.at + ledger.wait() > end:
            return numbers
        clock.at += ledger.wait()


def allowed(issue: IssuedBundle, now: datetime) -> int:
    """Return the last number that the gateway accepts from a device with this bundle."""
    elapsed = round((now - datetime.fromisoformat(issue.made)).total_seconds() * 1000)
    first, quota, period = (np.array([each], np.int64) for each in (issue.first_number, issue.quota, issue.period))
    return int(last_allowed(first, np.array([elapsed], np.int64), quota, period, ALLOWANCE)[0])


@pytest.mark.slow
@settings(max_examples=100)
@given(
    lives=st.lists(st.integers(0, 5000), min_size=1, max_size=20),
    quota=st.sampled_from([1, 7, 96, 1000]),
    fast=st.sampled_from([1.0, RATE_SLACK]),
)
def test_erased_again_and_again(lives: list[int], quota: int, fast: float) -> None:
    period, now, highest = 3600, ENROLLED, 0
    issue = issued(1, now, quota, period)
    for seconds in lives:
        numbers = lifetime(issue.first_number, quota, period, seconds, fast)
        now += timedelta(seconds=seconds)
        if numbers:
            assert numbers[0] > highest
            highest = numbers[-1]
        assert highest <= allowed(issue, now), "the gateway would call it a flood"
        issue = issued(issue.first_unused(now), now, quota, period)


@pytest.mark.parametrize("quota", [1, 7, 8, 96, 10**6])
def test_the_registry_knows_what_a_device_uses_at_once(quota: int) -> None:
    first = issued(500, ENROLLED, quota, 60)
    assert first.first_unused(ENROLLED) - 500 == burst_size(quota) == device_ledger.burst_size(quota)
