# SPDX-License-Identifier: MIT
"""The weights of devices' reports: capped weights, effective numbers, and the heaviest device."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from peel_gateway.estimation.statistics import (
    ReportCounts,
    capped,
    equal_devices,
    equal_reports,
    largest,
    pro_rata,
    weighing,
)

COUNTS = st.lists(st.integers(1, 10_000), min_size=1, max_size=40)


def report_counts(*statistics: list[int]) -> ReportCounts:
    """Of devices 1, 2, ... in each statistic."""
    statistic = np.repeat(np.arange(len(statistics)), [len(counts) for counts in statistics])
    device = np.concatenate([np.arange(1, len(counts) + 1) for counts in statistics])
    return ReportCounts(
        device, statistic, np.concatenate([np.array(counts, np.int64) for counts in statistics]), len(statistics)
    )


@given(COUNTS, st.floats(0, 1))
def test_a_cap_is_kept_and_takes_no_more_than_it_must(counts: list[int], cap: float) -> None:
    held = report_counts(counts)
    weights = capped(held, cap)
    parts = held.reports * weights
    limit = max(cap, 1 / len(counts))
    assert parts.max() <= limit * parts.sum() * (1 + 1e-9)
    assert (weights > 0).all() and (weights <= 1).all()
    lowered = weights < 1 - 1e-12
    if lowered.any():  # those are held at one level, it is the highest, and it uses the cap up
        level = parts[lowered].max()
        assert parts[lowered] == pytest.approx(level)
        assert (held.reports[~lowered] <= level * (1 + 1e-9)).all()
        assert level == pytest.approx(limit * parts.sum())


@given(COUNTS, COUNTS, st.floats(0, 1))
def test_statistics_are_capped_one_by_one(some: list[int], others: list[int], cap: float) -> None:
    both = capped(report_counts(some, others), cap)
    assert both.tolist() == [*capped(report_counts(some), cap), *capped(report_counts(others), cap)]


def test_caps_by_hand() -> None:
    """100 + 300 + 600: at 0.5 the largest is held at t = 0.5 (400 + t) = 400; at 0.4 two are, at t = 0.4 (100 + 2t) = 200."""
    held = report_counts([600, 100, 300])
    assert capped(held, 1.0).tolist() == [1, 1, 1]
    assert held.reports * capped(held, 0.5) == pytest.approx([400, 100, 300])
    assert held.reports * capped(held, 0.4) == pytest.approx([200, 100, 200])
    assert held.reports * capped(held, 0.01) == pytest.approx([100, 100, 100])


def parts(counts: list[int]) -> list[float]:
    """Return the weights of whole devices in a mean over devices, pro rata."""
    held = report_counts(counts)
    return list((held.reports * pro_rata(held)).tolist())


def test_a_device_weighs_by_its_reports_up_to_twice_the_median() -> None:
    assert parts([60, 60, 60, 5, 60]) == pytest.approx([1 / 2, 1 / 2, 1 / 2, 1 / 24, 1 / 2])
    assert parts([10, 10, 10, 19, 20, 21, 1000]) == pytest.approx([*[10 / 38] * 3, 1 / 2, 20 / 38, 21 / 38, 1])
    assert parts([10, 30]) == pytest.approx([1 / 6, 1 / 2]), (
        "of two medians the upper one: one slow device of two is not it"
    )
    assert parts([7]) == [0.5]


@given(COUNTS)
def test_no_device_weighs_much_more_than_half_of_the_fleet_does(counts: list[int]) -> None:
    """Half of the devices have at least the median, so a device has at most four times an even share."""
    part = np.array(parts(counts))
    assert part.max() / part.sum() <= 2 / ((len(counts) + 1) // 2 + 1) + 1e-12
    order = np.argsort(counts, kind="stable")
    assert (np.diff(part[order]) >= -1e-12).all(), "more reports never weigh less"


@given(COUNTS, st.integers(2, 50))
def test_a_slower_fleet_has_the_same_weights(counts: list[int], times: int) -> None:
    assert parts([times * count for count in counts]) == pytest.approx(parts(counts))


@given(COUNTS, COUNTS)
def test_questions_weigh_pro_rata_one_by_one(some: list[int], others: list[int]) -> None:
    both = pro_rata(report_counts(some, others))
    assert both.tolist() == [*pro_rata(report_counts(some)), *pro_rata(report_counts(others))]


def test_questions_without_reports_take_no_part() -> None:
    held = ReportCounts(np.array([1, 2]), np.array([1, 1]), np.array([4, 6]), 4)
    assert pro_rata(held).tolist() == [1 / 12, 1 / 12]
    assert pro_rata(ReportCounts(*(np.zeros(0, np.int64),) * 3, 2)).tolist() == []


def exact_doubt(counts: list[int]) -> Fraction:
    """Return the doubt of a mean over devices in exact arithmetic; each report of a device with n reports weighs 1/n."""
    one, two, three, four = (sum(Fraction(1, count ** (power - 1)) for count in counts) for power in (1, 2, 3, 4))
    return Fraction(four) / two**2 - Fraction(2 * three) / (two * one) + Fraction(two) / one**2


@example([9667, 9669])  # the doubt is 1e-12, just as small as rounding errors
@given(COUNTS)
def test_effective_numbers(counts: list[int]) -> None:
    held = report_counts(counts)
    reports, devices = weighing(held, equal_reports(held)), weighing(held, equal_devices(held))
    assert reports.effective == pytest.approx([sum(counts)])
    assert reports.doubt == pytest.approx([0])
    assert reports.step == pytest.approx([1 / sum(counts)])
    assert devices.effective == pytest.approx([len(counts) ** 2 / sum(1 / count for count in counts)])
    assert devices.doubt == pytest.approx([float(exact_doubt(counts))], abs=1e-12)
    assert (exact_doubt(counts) == 0) == (len(set(counts)) == 1)
    assert devices.step == pytest.approx([1 / min(counts) / len(counts)])


def test_the_device_that_weighs_most() -> None:
    held = ReportCounts(np.array([7, 9, 3, 9]), np.array([0, 0, 2, 2]), np.array([5, 15, 8, 8]), 3)
    most = largest(held, equal_reports(held))
    assert most.share.tolist() == pytest.approx([0.75, np.nan, 0.5], nan_ok=True)
    assert most.device.tolist() == [9, 0, 3]


MANY_DEVICES = 40_000
NUMBERS = 2**48 - 1
"""As many reports as a device has numbers for."""


@settings(max_examples=20)
@given(st.lists(st.sampled_from([1, 2**31, NUMBERS - 1, NUMBERS]), min_size=1, max_size=4), st.floats(0.001, 0.999))
def test_no_sum_overflows_where_counts_are_as_large_as_they_can_be(counts: list[int], cap: float) -> None:
    held = report_counts(np.resize(counts, MANY_DEVICES).tolist())
    with np.errstate(over="raise", invalid="raise"):
        weights = capped(held, cap)
        parts = held.reports * weights
        assert (weights > 0).all() and (weights <= 1).all()
        assert parts.max() <= max(cap, 1 / MANY_DEVICES) * parts.sum() * (1 + 1e-9)
        for each in (weights, equal_reports(held), equal_devices(held), pro_rata(held)):
            effective = weighing(held, each).effective
            assert 0 < effective[0] <= sum(held.reports.tolist()) * (1 + 1e-9)
            assert 0 < largest(held, each).share[0] <= 1
