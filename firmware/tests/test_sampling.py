# SPDX-License-Identifier: MIT
"""Readings become the core's integers. A failed sensor skips the report, and one that keeps failing is left out."""

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

from host_board import (
    CATEGORY_PROFILE,
    HASHED_PROFILE,
    ROOM_PROFILE,
    ROOM_READINGS,
    ROOM_SENSORS,
    HostBoard,
    config,
    sampler,
)
from peel_device.config import Config
from peel_device.kinds import NO_READING, READING_ONE, to_category, to_q15
from peel_device.sensors import FAULT_MAX, LASTING, Outages, Sampler
from power_cut import MemoryFiles, WitnessFiles


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
        profile=CATEGORY_PROFILE,
        sensors={"mode": {"kind": "callable", "module": "category_sensor", "function": "read"}},
    )
    module = ModuleType("category_sensor")
    vars(module)["read"] = lambda: reading
    sys.modules["category_sensor"] = module
    try:
        read = sampler(made)
        assert read.read(1) is not None
        assert read.failed == 0
    finally:
        del sys.modules["category_sensor"]


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (40_000, 40_000), (65_534, 65_534), (10**9, 65_534), (-1, 0)])
def test_categories_without_names_are_given_by_index(value: int, expected: int) -> None:
    assert to_category(value, 65_535, [], None) == expected


def test_a_name_is_no_reading_where_categories_have_none() -> None:
    """Whether a sensor gives names depends on its program, not on its reading: the report is skipped."""
    made = config(profile=HASHED_PROFILE, sensors={"mode": {"kind": "trace", "values": ["heat", 41_000]}})
    read = sampler(made)
    assert [read.read(1), read.read(1)] == [None, [41_000]]
    assert read.failed == 1


def test_a_trace_plays_over_and_over() -> None:
    read = sampler(config())
    assert [list(read.read(1) or ()) for _ in range(3)] == [[0, 0], [1638, 0], [0, 0]]


def test_adc_and_internal_temperature_with_scale() -> None:
    sensors = {
        "temperature": {"kind": "internal_temperature", "scale": 2, "offset": -7},
        "soil": {"kind": "adc", "pin": 26},
    }
    assert sampler(config(sensors=sensors)).read(1) == [to_q15(35, -10, 50), to_q15(16383 / 65535, 0, 1)]


def test_categories_by_edges() -> None:
    made = config(
        profile=CATEGORY_PROFILE, sensors={"mode": {"kind": "trace", "values": [0.1, 0.5], "edges": [0.3, 0.6]}}
    )
    read = sampler(made)
    assert [list(read.read(1) or ()) for _ in range(2)] == [[0], [1]]


def test_each_kind_answers_its_questions_about_one_board() -> None:
    assert sampler(config(profile=ROOM_PROFILE, sensors=ROOM_SENSORS)).read(1) == ROOM_READINGS


@pytest.mark.parametrize(("value", "expected"), [(26, -1), (26.001, 1), (-math.inf, -1), (math.inf, 1)])
def test_a_threshold_asks_whether_the_reading_is_above(value: float, expected: int) -> None:
    with own_sensor(lambda: value) as sensors:
        read = sampler(config(profile=ROOM_PROFILE, sensors=ROOM_SENSORS | sensors)).read(1)
    assert read is not None
    assert read[1] == expected * READING_ONE


def test_a_sensor_of_several_attributes_is_read_once_per_report() -> None:
    readings = iter([10, 40])
    with own_sensor(lambda: next(readings)) as sensors:
        read = sampler(config(profile=ROOM_PROFILE, sensors=ROOM_SENSORS | sensors))
        assert [list((read.read(1) or [])[:3]) for _ in range(2)] == [
            [to_q15(10, -10, 50), -READING_ONE, -READING_ONE],
            [to_q15(40, -10, 50), READING_ONE, READING_ONE],
        ]


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
    """Yield the bundle's entry of a temperature sensor that is a user's function."""
    module = ModuleType("my_sensor")
    vars(module)["read"] = read
    sys.modules["my_sensor"] = module
    try:
        yield {"temperature": {"kind": "callable", "module": "my_sensor", "function": "read"}}
    finally:
        del sys.modules["my_sensor"]


FAULTS = [OSError(5, "21.5"), KeyError("21.5"), IndexError("21.5"), ZeroDivisionError("21.5"), AttributeError("21.5"),
          MemoryError("21.5"), RuntimeError("21.5"), AssertionError("21.5"), DriverError("21.5")]  # fmt: skip


SOIL = {"soil": {"kind": "trace", "values": [1]}}
ALONE = {**CATEGORY_PROFILE, "attributes": ROOM_PROFILE["attributes"][:2]}
"""Two attributes about one reading."""


@pytest.mark.parametrize(
    "answer",
    [*(raising(fault) for fault in FAULTS), lambda: math.nan, lambda: None, lambda: "warm", Temperature],
    ids=[*(type(fault).__name__ for fault in FAULTS), "NaN", "None", "text", "no number"],
)
def test_a_failed_sensor_skips_the_report_and_is_counted(answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with own_sensor(answer) as sensors:
        read = sampler(config(profile=ALONE, sensors=sensors))
        assert read.read(1) is None
        assert read.failed == 1
        said = capsys.readouterr().out
        assert "21.5" not in said + read.failing
        assert "temperature: " in said and read.failing.startswith("temperature: ")


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
        read = sampler(config(sensors=sensors | SOIL))
        read.read(1)
        assert read.failing == f"temperature: {fault}"


def test_one_failure_of_a_sensor_that_works_is_not_named() -> None:
    answers = iter([21.5, None, None, 21.5, None, None, None, 21.5])
    with own_sensor(lambda: next(answers)) as sensors:
        read = sampler(config(profile=ALONE, sensors=sensors))
        named = []
        for _ in range(8):
            read.read(1)
            named.append(bool(read.failing))
    assert named == [False] * 6 + [True, False]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_stopping_the_program_is_not_a_failed_sensor(stop: type[BaseException]) -> None:
    with own_sensor(raising(stop())) as sensors, pytest.raises(stop):
        sampler(config(sensors=sensors | SOIL)).read(1)


def test_the_loop_goes_on_with_a_sensor_that_raises_anything() -> None:
    with own_sensor(raising(DriverError())) as sensors:
        read = sampler(config(profile=ALONE, sensors=sensors))
        assert [read.read(1) for _ in range(5)] == [None] * 5
        assert read.failed == 5


# ---- Outages: a board with several sensors, of which some fail ----

PERIOD = 10
"""The numbers of a period: ROOM_PROFILE's quota, as the interval is 0."""


@contextmanager
def room(temperature: list[Any], **changes: Any) -> Iterator[Config]:
    """Yield a mixed board's bundle. Its thermometer gives these values, the last one over and over."""
    values = list(temperature)
    with own_sensor(lambda: values.pop(0) if len(values) > 1 else values[0]) as sensors:
        changes = {"profile": ROOM_PROFILE, "sensors": ROOM_SENSORS | sensors, **changes}
        yield config(**changes)


def outcomes(read: Sampler, numbers: range) -> str:
    """Return a letter per report: skipped (s), without the temperature (o), or complete (c)."""
    return "".join(_outcome(read.read(number)) for number in numbers)


def _outcome(readings: list[int] | None) -> str:
    if readings is None:
        return "s"
    left_out = {reading == NO_READING for reading in readings[:3]}
    assert len(left_out) == 1, "all questions about a reading, or none"
    assert readings[3:] == ROOM_READINGS[3:]
    return "o" if left_out == {True} else "c"


def test_a_sensor_that_keeps_failing_does_not_silence_the_others() -> None:
    with room([20, None]) as settings:
        read = sampler(settings)
        assert outcomes(read, range(1, 40)) == "c" + "s" * (LASTING - 1) + "o" * (39 - LASTING)
        assert read.failed == LASTING - 1
        assert read.failing == "temperature: it gave None"


def test_a_sensor_that_fails_from_the_start_is_left_out_at_once() -> None:
    with room([None]) as settings:
        assert outcomes(sampler(settings), range(1, 4)) == "ooo"


def test_an_outage_lasts_a_period_after_the_sensor_works_again() -> None:
    with room([None, None, 20]) as settings:
        read = sampler(settings)
        assert outcomes(read, range(1, 11)) == "o" * PERIOD
        assert read.failing == "temperature: it gave None"
        assert outcomes(read, range(11, 14)) == "ccc"
        assert read.failing == ""


def test_an_outage_of_more_than_a_period_ends_when_the_sensor_works() -> None:
    with room([None] * 15 + [20]) as settings:
        assert outcomes(sampler(settings), range(1, 18)) == "o" * 15 + "cc"


def test_a_period_has_as_many_numbers_as_the_interval_allows() -> None:
    with room([None, 20], interval_s=25) as settings:  # three reports in 60 s
        assert outcomes(sampler(settings), range(1, 6)) == "ooocc"


def test_a_failure_within_an_outage_skips_nothing() -> None:
    with room([None, 20, None, 20, None, 20]) as settings:
        assert outcomes(sampler(settings), range(1, 12)) == "o" * PERIOD + "c"


def test_a_glitch_after_an_outage_skips_a_report() -> None:
    with room([None] + [20] * 11 + [None, 20]) as settings:
        assert outcomes(sampler(settings), range(1, 15)) == "o" * PERIOD + "ccsc"


def test_without_a_working_sensor_there_is_no_report() -> None:
    broken = {name: {"kind": "trace", "values": [math.nan]} for name in ROOM_SENSORS}
    read = sampler(config(profile=ROOM_PROFILE, sensors=broken))
    assert outcomes(read, range(1, 4)) == "sss"
    assert read.failing == "temperature, co2, door, error"


def test_sensors_that_failed_together_report_as_soon_as_they_work() -> None:
    """No report was made without one of them, so there is no outage that must last."""
    back = {name: {"kind": "trace", "values": [math.nan, *entry["values"]]} for name, entry in ROOM_SENSORS.items()}
    read = sampler(config(profile=ROOM_PROFILE, sensors=back))
    assert [read.read(1), read.read(1)] == [None, [8738, 32768, -32768, 32768, -32768, -32768, 2, 4711]]


def test_the_names_of_many_failing_sensors_leave_out_their_faults() -> None:
    names = [f"thermometer {place}" for place in range(9)]
    attributes = [{**ROOM_PROFILE["attributes"][0], "name": name} for name in names]
    sensors = {name: {"kind": "trace", "values": [math.nan]} for name in names[1:]}
    sensors[names[0]] = {"kind": "trace", "values": [1]}
    read = sampler(config(profile={**ROOM_PROFILE, "attributes": attributes}, sensors=sensors))
    assert read.read(1) is not None
    assert read.failing == ", ".join(names[1:])[:FAULT_MAX]


def test_without_a_free_column_reports_are_skipped() -> None:
    with room([None], profile={**ROOM_PROFILE, "width": 12}) as settings:
        assert outcomes(sampler(settings), range(1, 4)) == "sss"


def booted(settings: Config, files: MemoryFiles, *, woke: bool = False) -> tuple[Sampler, Outages]:
    outages = Outages(files, "outages", settings)
    outages.start(woke)
    return Sampler(settings, HostBoard(), outages), outages


def test_a_reboot_does_not_end_an_outage() -> None:
    files = MemoryFiles()
    with room([None, 20]) as settings:
        read, outages = booted(settings, files)
        assert outcomes(read, range(1, 3)) == "oo"
        outages.store()
        read, _ = booted(settings, files)
        assert outcomes(read, range(3, 4)) == "o"
        assert read.failing == "temperature: it failed before"
        assert outcomes(read, range(4, 12)) == "o" * 7 + "c"


def test_another_profile_begins_without_outages() -> None:
    files = MemoryFiles()
    with room([None, 20]) as settings:
        read, outages = booted(settings, files)
        assert outcomes(read, range(1, 2)) == "o"
        outages.store()
    with room([20], profile={**ROOM_PROFILE, "id": "00000008"}) as settings:
        assert outcomes(booted(settings, files)[0], range(2, 3)) == "c"


def test_a_power_cut_leaves_an_outage_or_none() -> None:
    files = WitnessFiles()
    with room([None, 20]) as settings:
        seen = set()
        files.witness = lambda state: seen.add(outcomes(booted(settings, state)[0], range(2, 3)))
        read, outages = booted(settings, files)
        assert outcomes(read, range(1, 2)) == "o"
        outages.store()
        assert seen == {"c", "o"}
        files.kept = dict.fromkeys(("outages.0", "outages.1"), b"damaged")
        assert outcomes(booted(settings, files)[0], range(2, 3)) == "c"


def test_with_deep_sleep_failures_in_a_row_are_counted_over_boots() -> None:
    files = MemoryFiles()
    with room([20, None], sleep="deep") as settings:
        found = ""
        for number in range(1, 6):
            read, outages = booted(settings, files, woke=number > 1)
            found += outcomes(read, range(number, number + 1))
            outages.store()
    assert found == "cssoo"


def test_sensors_that_work_write_nothing() -> None:
    files = MemoryFiles()
    with room([20]) as settings:
        read, outages = booted(settings, files)
        assert outcomes(read, range(1, 4)) == "ccc"
        outages.store()
    assert files.kept == {}
