# SPDX-License-Identifier: MIT
"""Readings become the core's integers, and a failed sensor skips the report."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_board import HASHING_PROFILE, KRR_PROFILE, HostBoard, config
from peel_device.mechanisms import READING_ONE, to_category, to_q15
from peel_device.sensors import Sampler


@pytest.mark.parametrize(
    ("value", "expected"), [(-10, -32768), (50, 32768), (20, 0), (35, 16384), (-1000, -32768), (1e30, 32768)]
)
def test_to_q15(value: float, expected: int) -> None:
    assert to_q15(value, -10, 50) == expected


@given(st.floats(-1e6, 1e6), st.floats(-1e5, 1e5), st.floats(1e-3, 1e5))
def test_to_q15_is_the_formula_of_the_specification(value: float, low: float, span: float) -> None:
    high = low + span
    exact = 2**15 * (2 * Fraction(value) - Fraction(low) - Fraction(high)) / (Fraction(high) - Fraction(low))
    clamped = max(Fraction(-READING_ONE), min(Fraction(READING_ONE), exact))
    assert abs(to_q15(value, low, high) - clamped) <= Fraction(3, 5)


def test_what_is_no_number_is_no_reading() -> None:
    with pytest.raises(ValueError, match="not a number"):
        to_q15(math.nan, 0, 1)


def test_an_infinite_reading_is_clamped() -> None:
    assert (to_q15(math.inf, 0, 1), to_q15(-math.inf, 0, 1)) == (READING_ONE, -READING_ONE)


@pytest.mark.parametrize(
    ("value", "edges", "expected"),
    [("heat", None, 1), (2, None, 2), (0.2, [0.3, 0.6], 0), (0.3, [0.3, 0.6], 1), (9, [0.3, 0.6], 2)],
)
def test_to_category(value: Any, edges: list[float] | None, expected: int) -> None:
    assert to_category(value, 3, ["off", "heat", "cool"], edges) == expected


@pytest.mark.parametrize("value", [math.nan, None])
def test_what_is_no_category(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        to_category(value, 3, ["off", "heat", "cool"], None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("dry", 2), ("", 2), (3, 2), (-1, 0), (0.4, 0), (1.6, 2), (10**30, 2), (math.inf, 2), (-math.inf, 0)],
)
def test_what_was_not_declared_becomes_a_declared_category(value: Any, expected: int) -> None:
    assert to_category(value, 3, ["off", "heat", "cool"], None) == expected


@pytest.mark.parametrize("reading", ["off", "never declared", 2, -5, 99, 0.5, math.inf])
def test_no_reading_of_a_working_sensor_decides_whether_there_is_a_report(reading: Any) -> None:
    made = config(
        profile=KRR_PROFILE, sensors={"mode": {"kind": "callable", "module": "krr_sensor", "function": "read"}}
    )
    module = ModuleType("krr_sensor")
    vars(module)["read"] = lambda: reading
    sys.modules["krr_sensor"] = module
    try:
        sampler = Sampler(made, HostBoard())
        assert sampler.read() is not None
        assert sampler.failed == 0
    finally:
        del sys.modules["krr_sensor"]


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (40_000, 40_000), (65_534, 65_534), (10**9, 65_534), (-1, 0)])
def test_categories_without_names_are_given_by_index(value: int, expected: int) -> None:
    assert to_category(value, 65_535, [], None) == expected


def test_a_name_is_no_reading_where_categories_have_none() -> None:
    """Whether a sensor gives names depends on its program, not on its reading: the report is skipped."""
    made = config(profile=HASHING_PROFILE, sensors={"mode": {"kind": "trace", "values": ["heat", 41_000]}})
    sampler = Sampler(made, HostBoard())
    assert [sampler.read(), sampler.read()] == [None, [41_000]]
    assert sampler.failed == 1


def test_a_trace_plays_over_and_over() -> None:
    sampler = Sampler(config(), HostBoard())
    assert [sampler.read() for _ in range(3)] == [[0, 0], [1638, 0], [0, 0]]


def test_adc_and_internal_temperature_with_scale() -> None:
    sensors = {
        "temperature": {"kind": "internal_temperature", "scale": 2, "offset": -7},
        "soil": {"kind": "adc", "pin": 26},
    }
    assert Sampler(config(sensors=sensors), HostBoard()).read() == [to_q15(35, -10, 50), to_q15(16383 / 65535, 0, 1)]


def test_krr_by_edges() -> None:
    made = config(profile=KRR_PROFILE, sensors={"mode": {"kind": "trace", "values": [0.1, 0.5], "edges": [0.3, 0.6]}})
    sampler = Sampler(made, HostBoard())
    assert [sampler.read(), sampler.read()] == [[0], [1]]


class DriverError(Exception):
    """An error of a user's own driver."""


class Temperature:
    """A value whose conversion to a number fails."""

    def __float__(self) -> float:
        raise RuntimeError("not ready, was 21.5")


def raising(error: BaseException) -> Callable[[], float]:
    def read() -> float:
        raise error

    return read


@contextmanager
def own_sensor(read: Callable[[], Any]) -> Iterator[dict[str, Any]]:
    """Yield the sensors of a bundle, one of which is a user's function."""
    module = ModuleType("my_sensor")
    vars(module)["read"] = read
    sys.modules["my_sensor"] = module
    try:
        yield {
            "temperature": {"kind": "callable", "module": "my_sensor", "function": "read"},
            "soil": {"kind": "trace", "values": [1]},
        }
    finally:
        del sys.modules["my_sensor"]


FAULTS = [OSError(5, "21.5"), KeyError("21.5"), IndexError("21.5"), ZeroDivisionError("21.5"), AttributeError("21.5"),
          MemoryError("21.5"), RuntimeError("21.5"), AssertionError("21.5"), DriverError("21.5")]  # fmt: skip


@pytest.mark.parametrize(
    "answer",
    [*(raising(fault) for fault in FAULTS), lambda: math.nan, lambda: None, lambda: "warm", Temperature],
    ids=[*(type(fault).__name__ for fault in FAULTS), "NaN", "None", "text", "no number"],
)
def test_a_failed_sensor_skips_the_report_and_is_counted(answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with own_sensor(answer) as sensors:
        sampler = Sampler(config(sensors=sensors), HostBoard())
        assert sampler.read() is None
        assert sampler.failed == 1
        said = capsys.readouterr().out
        assert "21.5" not in said + sampler.failing
        assert "temperature: " in said and sampler.failing.startswith("temperature: ")


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (raising(OSError(5, "21.5")), "OSError 5"),
        (raising(OSError("no measurement")), "OSError"),
        (raising(DriverError("21.5")), "DriverError"),
        (lambda: math.nan, "it gave nan"),
        (lambda: None, "it gave None"),
        (lambda: "21.5", "it gave a str, not a number"),
    ],
)
def test_a_failing_sensor_is_named_with_what_it_gave(answer: Any, fault: str) -> None:
    with own_sensor(answer) as sensors:
        sampler = Sampler(config(sensors=sensors), HostBoard())
        sampler.read()
        assert sampler.failing == f"temperature: {fault}"


def test_one_failure_of_a_sensor_that_works_is_not_named() -> None:
    answers = iter([21.5, None, None, 21.5, None, None, None, 21.5])
    with own_sensor(lambda: next(answers)) as sensors:
        sampler = Sampler(config(sensors=sensors), HostBoard())
        named = []
        for _ in range(8):
            sampler.read()
            named.append(bool(sampler.failing))
    assert named == [False] * 6 + [True, False]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_stopping_the_program_is_not_a_failed_sensor(stop: type[BaseException]) -> None:
    with own_sensor(raising(stop())) as sensors, pytest.raises(stop):
        Sampler(config(sensors=sensors), HostBoard()).read()


def test_the_loop_goes_on_with_a_sensor_that_raises_anything() -> None:
    with own_sensor(raising(DriverError())) as sensors:
        sampler = Sampler(config(sensors=sensors), HostBoard())
        assert [sampler.read() for _ in range(5)] == [None] * 5
        assert sampler.failed == 5
